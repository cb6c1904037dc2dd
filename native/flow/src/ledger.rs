//! The books: what is taken of each shared resource, and the rates that are recorded.

use crate::division::LocalRoute;
use crate::filling::OWN_CAP;
use crate::series::Series;
use crate::sum::Sum;

/// Rounding that is no imbalance of a resource, as part of its capacity.
const ROUNDING: f64 = 1e-9;

/// A resource that several nodes use.
#[derive(Debug, Clone, Copy)]
pub struct Shared {
    /// The scenario's number.
    pub resource: u32,
    /// Capacity.
    pub capacity: f64,
    /// The level (rate over weight) at which it was full when its group was last solved;
    /// infinite if it was not.
    pub level: f64,
    taken: Sum,
    at_level: Sum,
}

impl Shared {
    /// One that nobody uses yet.
    pub fn new(resource: u32, capacity: f64) -> Self {
        Self {
            resource,
            capacity,
            level: f64::INFINITY,
            taken: Sum::default(),
            at_level: Sum::default(),
        }
    }

    /// Enters a flow that takes `taken` at this level, or a flow that leaves with `taken` negative.
    fn enter(&mut self, taken: f64, level: f64) {
        self.taken.add(taken);
        if level >= self.level * (1.0 - ROUNDING) {
            self.at_level.add(taken);
        }
    }

    /// Whether its level is off by more than `tolerance` of it, to first order; or, while it was not
    /// full, whether it is overdrawn by more than that part of its capacity.
    fn out_of_balance(&self, tolerance: f64) -> bool {
        let excess = self.taken.value() - self.capacity;
        let rounding = ROUNDING * self.capacity;
        if self.level.is_infinite() {
            return excess > rounding.max(tolerance * self.capacity);
        }
        let at_level = self.at_level.value();
        let allowed = rounding.max(tolerance * at_level);
        excess > allowed || (excess < -allowed && at_level > rounding)
    }
}

/// The books.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The shared resources.
    pub shared: Vec<Shared>,
    /// Rate of each row of the series: the classes, then the watched resources.
    rows: Vec<Sum>,
    classes: usize,
}

impl Ledger {
    /// Empty books.
    pub fn new(shared: Vec<Shared>, classes: usize, rows: usize) -> Self {
        Self {
            shared,
            rows: vec![Sum::default(); rows],
            classes,
        }
    }

    /// Takes a flow's rate out and another in.
    pub fn change(&mut self, route: &LocalRoute, weight: f64, old: f64, new: f64) {
        self.note(route, old, new);
        for (shared, coefficient) in route.shared() {
            let shared = &mut self.shared[shared as usize];
            if old > 0.0 {
                shared.enter(-coefficient * old, old / weight);
            }
            if new > 0.0 {
                shared.enter(coefficient * new, new / weight);
            }
        }
    }

    /// The highest rate that the shared resources leave a flow of this weight on a route, and the
    /// scenario's number of the resource that does.
    pub fn limit(&self, route: &LocalRoute, weight: f64) -> (f64, u32) {
        let mut least = (f64::INFINITY, OWN_CAP);
        for (shared, coefficient) in route.shared() {
            let shared = &self.shared[shared as usize];
            let rate = (shared.level * weight).min(shared.capacity / coefficient);
            if rate < least.0 {
                least = (rate, shared.resource);
            }
        }
        least
    }

    /// Forgets what is taken of the shared resources from `first` on, and notes at which level they were
    /// full.
    pub fn reopen(&mut self, first: u32, levels: &[f64]) {
        let shared = self.shared[first as usize..].iter_mut();
        for (shared, &level) in shared.zip(levels) {
            *shared = Shared {
                level,
                ..Shared::new(shared.resource, shared.capacity)
            };
        }
    }

    /// Enters what a flow takes of shared resources that were reopened.
    pub fn enter(&mut self, route: &LocalRoute, weight: f64, rate: f64) {
        for (shared, coefficient) in route.shared() {
            self.shared[shared as usize].enter(coefficient * rate, rate / weight);
        }
    }

    /// Records a change of a flow's rate.
    pub fn note(&mut self, route: &LocalRoute, old: f64, new: f64) {
        self.rows[route.class as usize].add(new - old);
        for &(row, coefficient) in &route.watched {
            self.rows[self.classes + row as usize].add(coefficient * (new - old));
        }
    }

    /// Whether one of these shared resources is out of balance.
    pub fn out_of_balance(&self, shared: &[u32], tolerance: f64) -> bool {
        let shared = shared.iter().map(|&number| &self.shared[number as usize]);
        shared
            .into_iter()
            .any(|shared| shared.out_of_balance(tolerance))
    }

    /// Records the rates from `start` to `end`.
    pub fn record(&self, series: &mut Series, start: f64, end: f64) {
        for (row, rate) in self.rows.iter().enumerate() {
            series.add(row, start, end, rate.value());
        }
    }
}
