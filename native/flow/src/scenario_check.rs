//! Says what in a scenario cannot be simulated.

use crate::fair::{positive, positive_or_infinite, report, wrong};
use crate::scenario::{Activity, Route, Scenario, Stream};
use std::collections::HashSet;

impl Scenario {
    /// Says which numbers cannot be taken; see [`crate::fair::check`] for the rules. Amounts and
    /// starts may be zero.
    ///
    /// # Errors
    /// One line for each of the first 20 problems.
    pub fn check(&self) -> Result<(), String> {
        let mut problems = Vec::new();
        for (resource, &capacity) in self.capacities.iter().enumerate() {
            if !positive_or_infinite(capacity) {
                problems.push(wrong(
                    &format!("capacity of resource {resource}"),
                    capacity,
                    true,
                ));
            }
        }
        for (node, routes) in self.nodes.iter().enumerate() {
            for (class, route) in routes.iter().enumerate() {
                if let Some(route) = route {
                    self.check_route(&self.place(node, class), route, &mut problems);
                }
            }
        }
        for (profile, phases) in self.profiles.iter().enumerate() {
            for (phase, activities) in phases.iter().enumerate() {
                for activity in activities {
                    let place = format!("in phase {phase} of profile {profile}");
                    self.check_activity(&place, activity, &mut problems);
                }
            }
        }
        for (stream, launches) in self.streams.iter().enumerate() {
            self.check_stream(stream, launches, &mut problems);
        }
        let total = self
            .streams
            .iter()
            .fold(0, |sum: usize, s| sum.saturating_add(s.count()));
        if total >= u32::MAX as usize {
            problems.push(format!("{total} launches are more than can be simulated"));
        }
        if problems.is_empty() {
            self.check_that_all_is_bounded(&mut problems);
        }
        report(problems)
    }

    fn place(&self, node: usize, class: usize) -> String {
        match self.classes.get(class) {
            Some(name) => format!("{name} on node {node}"),
            None => format!("class {class} on node {node}"),
        }
    }

    fn check_route(&self, place: &str, route: &Route, problems: &mut Vec<String>) {
        if !positive_or_infinite(route.cap) {
            problems.push(wrong(&format!("cap of {place}"), route.cap, true));
        }
        for &(resource, coefficient) in &route.uses {
            if resource >= self.capacities.len() {
                problems.push(format!(
                    "{place} uses resource {resource}, but there are {} (0 is the first)",
                    self.capacities.len()
                ));
            }
            if !positive(coefficient) {
                let what = format!("coefficient of {place} on resource {resource}");
                problems.push(wrong(&what, coefficient, false));
            }
        }
    }

    fn check_activity(&self, place: &str, activity: &Activity, problems: &mut Vec<String>) {
        if activity.class >= self.classes.len() {
            problems.push(format!(
                "an activity {place} is of class {}, but there are {} (0 is the first)",
                activity.class,
                self.classes.len()
            ));
        }
        if activity.amount != 0.0 && !positive(activity.amount) {
            problems.push(format!(
                "{} or zero",
                wrong(&format!("an amount {place}"), activity.amount, false)
            ));
        }
        if !positive_or_infinite(activity.cap) {
            problems.push(wrong(&format!("a cap {place}"), activity.cap, true));
        }
        if !positive(activity.weight) {
            problems.push(wrong(&format!("a weight {place}"), activity.weight, false));
        }
    }

    fn check_stream(&self, number: usize, stream: &Stream, problems: &mut Vec<String>) {
        if stream.node >= self.nodes.len() {
            problems.push(format!(
                "stream {number} runs on node {}, but there are {} (0 is the first)",
                stream.node,
                self.nodes.len()
            ));
        }
        if stream.start_s != 0.0 && !positive(stream.start_s) {
            let what = format!("start of stream {number}");
            problems.push(format!("{} or zero", wrong(&what, stream.start_s, false)));
        }
        for &profile in &stream.launches {
            if profile >= self.profiles.len() {
                problems.push(format!(
                    "stream {number} launches profile {profile}, but there are {} (0 is the first)",
                    self.profiles.len()
                ));
            }
        }
    }

    fn bounded(&self, route: &Route) -> bool {
        let finite = |&(resource, _): &(usize, f64)| self.capacities[resource].is_finite();
        route.cap.is_finite() || route.uses.iter().any(finite)
    }

    /// Every activity needs a route where it runs, and something finite that bounds it there.
    fn check_that_all_is_bounded(&self, problems: &mut Vec<String>) {
        let needs: Vec<HashSet<(usize, bool)>> = self
            .profiles
            .iter()
            .map(|phases| {
                let working = phases
                    .iter()
                    .flatten()
                    .filter(|activity| activity.amount > 0.0);
                working
                    .map(|activity| (activity.class, activity.cap.is_finite()))
                    .collect()
            })
            .collect();
        let mut seen = HashSet::new();
        for stream in &self.streams {
            for &profile in &stream.launches {
                for &(class, capped) in &needs[profile] {
                    if !seen.insert((stream.node, class, capped)) {
                        continue;
                    }
                    let place = self.place(stream.node, class);
                    match self.nodes[stream.node].get(class) {
                        Some(Some(route)) if capped || self.bounded(route) => {}
                        Some(Some(_)) => problems.push(format!(
                            "nothing bounds {place} (profile {profile}): give it a cap or a resource of finite capacity"
                        )),
                        _ => problems.push(format!("profile {profile} does {place}, which has no route for it")),
                    }
                }
            }
        }
    }
}
