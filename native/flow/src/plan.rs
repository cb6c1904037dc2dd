//! What launches do, laid out flat: following it touches little memory, which is what time goes into when
//! there are many streams.

use crate::scenario::{Activity, Scenario};

/// The phases of all profiles, without those that have nothing to do.
#[derive(Debug, Default)]
pub struct Plan {
    activities: Vec<Activity>,
    /// Where the activities of each phase end.
    phase_ends: Vec<u32>,
    /// Where the phases of each profile end.
    profile_ends: Vec<u32>,
}

fn before(ends: &[u32], index: usize) -> u32 {
    if index == 0 { 0 } else { ends[index - 1] }
}

impl Plan {
    /// Lays out the profiles of a scenario.
    pub fn new(scenario: &Scenario) -> Self {
        let mut plan = Self::default();
        for phases in &scenario.profiles {
            for phase in phases {
                let working = phase.iter().filter(|activity| activity.amount > 0.0);
                let known = plan.activities.len();
                plan.activities.extend(working);
                if plan.activities.len() > known {
                    plan.phase_ends.push(plan.activities.len() as u32);
                }
            }
            plan.profile_ends.push(plan.phase_ends.len() as u32);
        }
        plan
    }

    /// First phase of a profile, and the one after its last.
    pub fn phases(&self, profile: usize) -> (u32, u32) {
        (
            before(&self.profile_ends, profile),
            self.profile_ends[profile],
        )
    }

    /// What is done in a phase.
    pub fn activities(&self, phase: u32) -> &[Activity] {
        let phase = phase as usize;
        let (start, end) = (before(&self.phase_ends, phase), self.phase_ends[phase]);
        &self.activities[start as usize..end as usize]
    }
}
