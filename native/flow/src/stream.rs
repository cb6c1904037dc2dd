//! Where a stream of launches stands.

use crate::outcome::{Outcome, Wait};
use crate::plan::Plan;
use crate::scenario::Stream;
use crate::waits::Waits;

/// A stream as it runs.
#[derive(Debug)]
pub struct StreamState {
    /// Its node.
    pub node: u32,
    /// Activities of the phase that have not ended.
    pub left: u32,
    /// The launch that runs or comes next, among all.
    launch: u32,
    /// The stream's first and one after its last launch.
    launches: (u32, u32),
    /// The next phase, and the one after the launch's last; nothing between launches.
    phases: Option<(u32, u32)>,
    waits: Vec<Wait>,
}

impl StreamState {
    /// A stream before its first launch; `first` is that launch's number among all.
    pub fn new(stream: &Stream, first: u32) -> Self {
        Self {
            node: stream.node as u32,
            left: 0,
            launch: first,
            launches: (first, first + stream.count() as u32),
            phases: None,
            waits: Vec::new(),
        }
    }

    /// Goes on to the next phase; gives nothing at the end of the last launch.
    pub fn advance(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        now: f64,
        outcome: &mut Outcome,
    ) -> Option<u32> {
        let (first, last) = self.launches;
        while self.launch < last {
            let (next, end) = self.phases.unwrap_or_else(|| {
                outcome.start_s[self.launch as usize] = now;
                let number = (self.launch - first) as usize % stream.launches.len();
                plan.phases(stream.launches[number])
            });
            if next < end {
                self.phases = Some((next + 1, end));
                self.left = plan.activities(next).len() as u32;
                return Some(next);
            }
            outcome.end_s[self.launch as usize] = now;
            outcome.waits[self.launch as usize].clone_from(&self.waits);
            self.waits.clear();
            self.phases = None;
            self.launch += 1;
        }
        None
    }

    /// The launch after the one that runs; nothing after the last.
    pub fn next_launch(&self) -> Option<u32> {
        let next = self.launch + 1;
        (next < self.launches.1).then_some(next)
    }

    /// Adds what the slowest activity of a phase waited for to the launch.
    pub fn account(&mut self, class: u32, waits: &Waits) {
        for (bound_by, seconds) in waits.iter() {
            let same = |wait: &&mut Wait| wait.class == class && wait.bound_by == bound_by;
            match self.waits.iter_mut().find(same) {
                Some(wait) => wait.seconds += seconds,
                None => self.waits.push(Wait {
                    class,
                    bound_by,
                    seconds,
                }),
            }
        }
    }
}
