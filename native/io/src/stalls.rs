//! Requests that took seconds: the time in which a stream stood still.

use serde::Serialize;
use std::time::{Duration, Instant};

/// A request that took this long is noted. Whether that is much for the storage at hand, such as
/// for blocks of 64 MiB, is for the reader to say, who knows what requests usually took.
const NOTED: Duration = Duration::from_secs(3);
/// A stream that stands still more often than this is slow, not stalled.
const MOST: usize = 100;

/// A time in which requests of a stream did not come back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stall {
    /// Seconds from the start of the phase to the first of these requests.
    pub start_s: f64,
    /// Seconds until the last of them came back.
    pub seconds: f64,
}

/// The stalls of one stream.
#[derive(Default)]
pub struct Stalls(Vec<Stall>);

impl Stalls {
    /// Notes a request of a phase that began at `start`, if it took long. One that overlaps the
    /// last one noted, as with several in flight, makes that one longer.
    pub fn note(&mut self, start: Instant, issued: Instant, came_back: Instant) {
        if came_back.duration_since(issued) < NOTED {
            return;
        }
        let stall = Stall {
            start_s: issued.duration_since(start).as_secs_f64(),
            seconds: came_back.duration_since(issued).as_secs_f64(),
        };
        self.add(stall);
    }

    /// Adds those of another thread of the stream.
    pub fn merge(&mut self, other: &Self) {
        for stall in &other.0 {
            self.add(*stall);
        }
    }

    /// All of them, in order.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<Stall> {
        self.0.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        self.0
    }

    fn add(&mut self, stall: Stall) {
        let end = |of: &Stall| of.start_s + of.seconds;
        let overlaps =
            |of: &&mut Stall| of.start_s <= end(&stall) && stall.start_s <= of.start_s + of.seconds;
        if let Some(known) = self.0.iter_mut().find(overlaps) {
            let last = end(known).max(end(&stall));
            known.start_s = known.start_s.min(stall.start_s);
            known.seconds = last - known.start_s;
        } else if self.0.len() < MOST {
            self.0.push(stall);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(requests: &[(u64, u64)]) -> Vec<(f64, f64)> {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut stalls = Stalls::default();
        for (issued, came_back) in requests {
            stalls.note(start, at(*issued), at(*came_back));
        }
        let found = stalls.into_vec();
        found.iter().map(|s| (s.start_s, s.seconds)).collect()
    }

    #[test]
    fn short_requests_are_no_stalls() {
        assert!(noted(&[(0, 2999), (3000, 5000)]).is_empty());
    }

    #[test]
    fn a_long_request_is_one_with_its_place_and_length() {
        assert_eq!(noted(&[(500, 1000), (1000, 7500)]), [(1.0, 6.5)]);
    }

    #[test]
    fn requests_that_wait_together_are_one_stall() {
        let found = noted(&[(1500, 6000), (1000, 5000), (2000, 6500), (9000, 13_000)]);
        assert_eq!(found, [(1.0, 5.5), (9.0, 4.0)]);
    }
}
