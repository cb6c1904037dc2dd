//! A volume made of nothing but a token bucket: shows what the harness itself costs, and makes
//! tests of slow and bursting storage deterministic.

use crate::config::NullConfig;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

struct State {
    tokens: f64,
    /// Until when the volume is busy; tokens have been counted up to here.
    busy_until: Instant,
}

/// A volume that bursts as cloud volumes do: it moves bytes at the burst rate while there are
/// tokens, and at the steady rate, at which tokens come back, when there are none.
pub struct Bucket {
    config: NullConfig,
    state: Mutex<State>,
}

impl Bucket {
    /// A full bucket.
    #[must_use]
    pub fn new(config: NullConfig) -> Self {
        Self {
            config,
            state: Mutex::new(State {
                tokens: config.bucket_bytes,
                busy_until: Instant::now(),
            }),
        }
    }

    /// Moves `bytes`: returns when a volume of this rate would have moved them.
    pub fn transfer(&self, bytes: usize) {
        let free = self.config.burst_bytes_per_s.is_none() && self.config.delay_s <= 0.0;
        if free {
            return;
        }
        let done = self.reserve(bytes as f64, Instant::now());
        let done = done + Duration::from_secs_f64(self.config.delay_s.max(0.0));
        let left = done.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            thread::sleep(left);
        }
    }

    fn reserve(&self, bytes: f64, now: Instant) -> Instant {
        let Some(burst) = self.config.burst_bytes_per_s else {
            return now;
        };
        let steady = self.config.steady_bytes_per_s.unwrap_or(burst).min(burst);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let start = state.busy_until.max(now);
        let idle = start.duration_since(state.busy_until).as_secs_f64();
        state.tokens = (state.tokens + idle * steady).min(self.config.bucket_bytes);
        // While bytes move at the burst rate, tokens come back at the steady rate.
        let drain = 1.0 - steady / burst;
        let fast = if drain > 0.0 {
            bytes.min(state.tokens.max(0.0) / drain)
        } else {
            bytes
        };
        state.tokens -= fast * drain;
        let seconds = fast / burst + (bytes - fast) / steady;
        state.busy_until = start + Duration::from_secs_f64(seconds);
        state.busy_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(burst: f64, steady: f64, bucket_bytes: f64) -> Bucket {
        Bucket::new(NullConfig {
            burst_bytes_per_s: Some(burst),
            steady_bytes_per_s: Some(steady),
            bucket_bytes,
            delay_s: 0.0,
        })
    }

    /// Seconds of virtual time until `total` bytes have moved in blocks of 100.
    fn seconds(bucket: &Bucket, total: usize) -> f64 {
        let start = bucket.state.lock().unwrap().busy_until;
        let mut now = start;
        for _ in 0..total / 100 {
            now = bucket.reserve(100.0, now);
        }
        now.duration_since(start).as_secs_f64()
    }

    #[test]
    fn bursts_until_the_bucket_is_empty_then_holds_the_steady_rate() {
        let volume = bucket(1000.0, 100.0, 9000.0);
        // 9000 tokens drain at 900 a second: 10 s at 1000 bytes/s.
        assert!((seconds(&volume, 10_000) - 10.0).abs() < 1e-3);
        assert!((seconds(&volume, 1000) - 10.0).abs() < 1e-3);
    }

    #[test]
    fn tokens_come_back_while_idle_but_not_beyond_the_bucket() {
        let volume = bucket(1000.0, 100.0, 900.0);
        assert!((seconds(&volume, 1000) - 1.0).abs() < 1e-3);
        volume.state.lock().unwrap().busy_until -= Duration::from_secs(1000);
        let now = volume.state.lock().unwrap().busy_until + Duration::from_secs(1000);
        let end = (0..10).fold(now, |now, _| volume.reserve(100.0, now));
        assert!((end.duration_since(now).as_secs_f64() - 1.0).abs() < 1e-3);
    }
}
