//! The gate at which all streams of a phase start together, or none does.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

#[derive(Default)]
struct State {
    arrived: usize,
    round: usize,
    opened: Option<Instant>,
    aborted: bool,
}

/// A barrier that can be aborted and that says when it opened. Metadata uses it several times.
pub struct Gate {
    streams: usize,
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    /// A gate for this many streams.
    #[must_use]
    pub fn new(streams: usize) -> Self {
        Self {
            streams,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Waits for all streams; returns when the gate opened, or `None` if it was aborted.
    pub fn pass(&self) -> Option<Instant> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let round = state.round;
        state.arrived += 1;
        if state.arrived == self.streams && !state.aborted {
            state.arrived = 0;
            state.round += 1;
            state.opened = Some(Instant::now());
            self.changed.notify_all();
        }
        while state.round == round && !state.aborted {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.round == round {
            None
        } else {
            state.opened
        }
    }

    /// Opens the gate for nobody: a stream could not prepare.
    pub fn abort(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.aborted = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn all_pass_at_one_instant_round_after_round() {
        let gate = Gate::new(4);
        for _ in 0..3 {
            let opened: Vec<_> = thread::scope(|scope| {
                let handles: Vec<_> = (0..4).map(|_| scope.spawn(|| gate.pass())).collect();
                handles.into_iter().map(|h| h.join().unwrap()).collect()
            });
            assert!(opened[0].is_some());
            assert!(opened.iter().all(|o| *o == opened[0]));
        }
    }

    #[test]
    fn an_abort_frees_those_who_wait() {
        let gate = Gate::new(2);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.pass());
            gate.abort();
            assert_eq!(waiting.join().unwrap(), None);
        });
        assert_eq!(gate.pass(), None);
    }
}
