//! How far a stream may write ahead of its disk, so that its closing fsync(2) takes about as long as was asked.
//!
//! A stream that is a bound ahead makes an fsync inside its time, as at the end of its file. Filling memory at
//! M bytes a second and flushing it at D gives D / (1 + D/M) whatever the amount, so the bound leaves the rate as
//! it is; starting the flushing earlier would not, since it takes away the time in which the disk is idle.

use std::time::Duration;

/// The first fsync(2) tells how fast flushing is; no fewer bytes are worth one of their own.
const LEAST: u64 = 32 << 20;
/// The most before a second one: a disk's own cache may have taken the first.
const FIRST: u64 = 2 << 30;
/// One fsync(2) after that changes the bound by no more than this factor.
const STEP: f64 = 4.0;

/// The bound of one stream, and how near it is.
#[derive(Debug)]
pub struct Ahead {
    within_s: f64,
    unflushed: u64,
    bound: u64,
    known: bool,
}

impl Ahead {
    /// A stream that has written nothing, and whose fsync(2) shall take about `within_s`.
    #[must_use]
    pub fn new(within_s: f64) -> Self {
        Self {
            within_s,
            unflushed: 0,
            bound: LEAST,
            known: false,
        }
    }

    /// Takes in what was written; says whether to flush all before the next block. `unwritten` asks the kernel for
    /// the bytes of the file that are in memory yet: what it has written by itself needs no fsync(2), which would have
    /// the disk idle afterwards until there is much in memory again. It says none of a client that keeps them itself.
    pub fn wrote(&mut self, bytes: u64, unwritten: impl FnOnce() -> Option<u64>) -> bool {
        self.unflushed += bytes;
        if self.unflushed < self.bound {
            return false;
        }
        match unwritten() {
            Some(left) if self.known && left > 0 && left < self.bound => {
                // Asked again when another eighth was written: an answer takes milliseconds.
                self.unflushed = left.min(self.bound - self.bound / 8);
                false
            }
            _ => true,
        }
    }

    /// All was flushed, in so long: the bound moves to where that takes the time asked for. What the kernel had
    /// flushed by itself before is in it, as it will be the next time.
    pub fn flushed(&mut self, took: Duration) {
        let unflushed = std::mem::take(&mut self.unflushed);
        if unflushed < LEAST {
            return;
        }
        let bound = (unflushed as f64 * self.within_s / took.as_secs_f64().max(1e-9)) as u64;
        self.bound = if self.known {
            let least = (self.bound as f64 / STEP) as u64;
            let most = (self.bound as f64 * STEP) as u64;
            bound.clamp(least, most).max(LEAST)
        } else {
            bound.clamp(LEAST, FIRST)
        };
        self.known = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 1 << 16;

    /// Streams into a disk of `rate` bytes a second; the bytes of each flush.
    fn flushes(rate: f64, of: u64) -> Vec<u64> {
        let (mut ahead, mut unflushed, mut found) = (Ahead::new(4.0), 0, Vec::new());
        for _ in 0..of / BLOCK {
            unflushed += BLOCK;
            if ahead.wrote(BLOCK, || None) {
                ahead.flushed(Duration::from_secs_f64(unflushed as f64 / rate));
                found.push(std::mem::take(&mut unflushed));
            }
        }
        found
    }

    #[test]
    fn each_flush_of_a_slow_disk_takes_about_the_time_asked_for() {
        let found = flushes(30e6, 1 << 30);
        assert_eq!(found[0], LEAST);
        assert!(found.len() >= 8);
        for bytes in &found[1..] {
            let seconds = *bytes as f64 / 30e6;
            assert!((3.9..4.1).contains(&seconds), "{seconds} s");
        }
    }

    #[test]
    fn a_fast_disk_is_left_alone_but_for_two_flushes_that_tell_its_rate() {
        assert_eq!(flushes(2e9, 8 << 30), [LEAST, FIRST]);
    }

    #[test]
    fn a_disk_whose_cache_took_the_first_flush_is_found_out() {
        let mut ahead = Ahead::new(4.0);
        assert!(ahead.wrote(LEAST, || None));
        ahead.flushed(Duration::from_millis(10));
        assert!(ahead.wrote(FIRST, || None));
        ahead.flushed(Duration::from_secs(16));
        assert!(!ahead.wrote((FIRST >> 2) - BLOCK, || None));
        assert!(ahead.wrote(BLOCK, || None));
    }

    #[test]
    fn what_is_too_small_is_not_flushed_for_itself_however_slow_the_disk_is() {
        assert_eq!(flushes(1e6, 1 << 28), [LEAST; 8]);
    }

    #[test]
    fn the_end_of_a_small_file_says_nothing_about_the_rate() {
        let mut ahead = Ahead::new(4.0);
        assert!(!ahead.wrote(BLOCK, || None));
        ahead.flushed(Duration::from_secs(9));
        assert!(!ahead.wrote(LEAST - BLOCK, || None));
        assert!(ahead.wrote(BLOCK, || None));
    }

    #[test]
    fn what_the_kernel_wrote_by_itself_is_not_flushed_again() {
        let mut ahead = Ahead::new(4.0);
        assert!(
            ahead.wrote(LEAST, || Some(1)),
            "the first one tells the rate"
        );
        ahead.flushed(Duration::from_secs_f64(4.0 * LEAST as f64 / FIRST as f64));
        let least = FIRST / 8;
        assert!(!ahead.wrote(FIRST, || Some(FIRST / 2)));
        assert!(!ahead.wrote(FIRST / 2, || Some(FIRST - 1)));
        assert!(!ahead.wrote(least - 1, || unreachable!()));
        assert!(ahead.wrote(1, || Some(FIRST)));
    }

    #[test]
    fn a_client_that_keeps_all_in_its_own_memory_is_flushed_by_what_was_written() {
        let mut ahead = Ahead::new(4.0);
        assert!(ahead.wrote(LEAST, || Some(0)));
        ahead.flushed(Duration::from_secs(4));
        assert!(ahead.wrote(LEAST, || Some(0)));
    }
}
