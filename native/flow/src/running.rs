//! An activity that runs, in two parts: what every solution reads, and what only a change of its rate does.

use crate::filling::OWN_CAP;
use crate::waits::Waits;

/// Two rates that differ by less than this part of them are one rate: rounding is no event.
const SAME: f64 = 1e-13;

/// What every solution reads.
#[derive(Debug)]
pub struct Running {
    /// Its route.
    pub route: u32,
    bound_by: u32,
    /// Its weight.
    pub weight: f64,
    /// Its highest rate.
    pub cap: f64,
    /// Its rate; zero before the first solution.
    pub rate: f64,
    /// When it ends at this rate.
    pub ends: f64,
}

/// How far it is.
#[derive(Debug)]
pub struct Progress {
    /// Its stream.
    pub stream: u32,
    left: f64,
    since: f64,
    waits: Waits,
}

impl Running {
    /// An activity that is to start.
    pub fn new(route: u32, weight: f64, cap: f64) -> Self {
        Self {
            route,
            bound_by: OWN_CAP,
            weight,
            cap,
            rate: 0.0,
            ends: f64::INFINITY,
        }
    }

    /// Whether it goes on as it is.
    pub fn keeps(&self, rate: f64, bound_by: u32) -> bool {
        (self.rate - rate).abs() <= SAME * rate && self.bound_by == bound_by
    }

    /// Goes on at another rate.
    pub fn turn(&mut self, progress: &mut Progress, rate: f64, bound_by: u32, now: f64) {
        let seconds = progress.settle(self.bound_by, now);
        progress.left = (progress.left - self.rate * seconds).max(0.0);
        self.rate = rate;
        self.bound_by = bound_by;
        self.ends = now + progress.left / rate;
    }

    /// What it waited for from its start to its end.
    pub fn end(&self, mut progress: Progress, now: f64) -> Waits {
        progress.settle(self.bound_by, now);
        progress.waits
    }
}

impl Progress {
    /// All of an activity that starts now.
    pub fn new(stream: u32, amount: f64, now: f64) -> Self {
        Self {
            stream,
            left: amount,
            since: now,
            waits: Waits::new(),
        }
    }

    /// Enters the time up to now; returns how long that was.
    fn settle(&mut self, bound_by: u32, now: f64) -> f64 {
        let seconds = now - self.since;
        if seconds > 0.0 {
            self.waits.add(bound_by, seconds);
        }
        self.since = now;
        seconds
    }
}
