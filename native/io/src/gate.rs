//! The gate at which all streams of a phase start together, or none does.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

#[derive(Default)]
struct State {
    arrived: usize,
    round: usize,
    opened: Option<Instant>,
    aborted: bool,
    held: bool,
}

impl State {
    fn open(&mut self) {
        self.arrived = 0;
        self.round += 1;
        self.opened = Some(Instant::now());
    }
}

/// A barrier that can be aborted and that says when it opened. Metadata uses it several times.
pub struct Gate {
    streams: usize,
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    /// A gate for this many streams. One that is `held` stays shut, though all have come, until
    /// it is released.
    #[must_use]
    pub fn new(streams: usize, held: bool) -> Self {
        Self {
            streams,
            state: Mutex::new(State {
                held,
                ..State::default()
            }),
            changed: Condvar::new(),
        }
    }

    /// Whether all streams wait at a gate that is held.
    #[must_use]
    pub fn armed(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.held && state.arrived == self.streams && !state.aborted
    }

    /// Holds the gate no longer: it opens now, or when the last stream comes.
    pub fn release(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.held && state.arrived == self.streams && !state.aborted {
            state.open();
        }
        state.held = false;
        self.changed.notify_all();
    }

    /// Aborts a gate that is held; nobody would ever open it.
    pub fn abandon(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.aborted |= state.held;
        self.changed.notify_all();
    }

    /// Waits for all streams; returns when the gate opened, or `None` if it was aborted.
    pub fn pass(&self) -> Option<Instant> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let round = state.round;
        state.arrived += 1;
        if state.arrived == self.streams && !state.held && !state.aborted {
            state.open();
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
        let gate = Gate::new(4, false);
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
        let gate = Gate::new(2, false);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.pass());
            gate.abort();
            assert_eq!(waiting.join().unwrap(), None);
        });
        assert_eq!(gate.pass(), None);
    }

    #[test]
    fn a_held_gate_opens_when_it_is_released_and_not_before() {
        let gate = Gate::new(2, true);
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..2).map(|_| scope.spawn(|| gate.pass())).collect();
            while !gate.armed() {
                thread::yield_now();
            }
            let before = Instant::now();
            gate.release();
            for stream in waiting {
                assert!(stream.join().unwrap().unwrap() >= before);
            }
        });
        assert!(!gate.armed());
    }

    #[test]
    fn a_gate_released_too_early_opens_for_the_last() {
        let gate = Gate::new(2, true);
        gate.release();
        thread::scope(|scope| {
            let first = scope.spawn(|| gate.pass());
            let last = scope.spawn(|| gate.pass());
            assert_eq!(first.join().unwrap(), last.join().unwrap());
        });
    }

    #[test]
    fn an_abandoned_gate_frees_those_who_wait_and_those_who_come() {
        let gate = Gate::new(2, true);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.pass());
            gate.abandon();
            assert_eq!(waiting.join().unwrap(), None);
        });
        assert_eq!(gate.pass(), None);
        assert!(!gate.armed());
    }
}
