//! The latest end that counts: a simulation that cannot end by then any more stops at once.

use crate::scenario::{Activity, Route, Scenario, Stream};

/// Rounding of sums is no delay.
const ROUNDING: f64 = 1e-9;

/// What is left to do at least, and by when.
#[derive(Debug)]
pub struct Limit<'a> {
    scenario: &'a Scenario,
    until_s: f64,
    /// What a stream takes from a launch on, with the grid to itself; by launch, and 0 after the last.
    rest_s: Vec<f64>,
    /// Seconds that each resource is busy with what has not begun.
    waiting_s: Vec<f64>,
    passed: bool,
}

impl<'a> Limit<'a> {
    /// Of a checked scenario before its first event.
    pub fn new(scenario: &'a Scenario, until_s: f64) -> Self {
        let launches: usize = scenario.streams.iter().map(Stream::count).sum();
        let mut limit = Self {
            scenario,
            until_s: until_s * (1.0 + ROUNDING),
            rest_s: vec![0.0; launches + 1],
            waiting_s: vec![0.0; scenario.capacities.len()],
            passed: false,
        };
        let mut first = 0;
        for stream in &scenario.streams {
            let mut rest = 0.0;
            for number in (0..stream.count()).rev() {
                let profile = stream.launches[number % stream.launches.len()];
                for phase in &scenario.profiles[profile] {
                    rest += limit.alone_s(stream.node, phase);
                    for activity in phase {
                        limit.wait(stream.node, activity, 1.0);
                    }
                }
                limit.rest_s[first + number] = rest;
            }
            limit.passed |= stream.count() > 0 && stream.start_s + rest > limit.until_s;
            first += stream.count();
        }
        limit.passed |= limit
            .waiting_s
            .iter()
            .any(|&seconds| seconds > limit.until_s);
        limit
    }

    /// Whether the end is later than the limit, whatever follows.
    pub fn is_passed(&self) -> bool {
        self.passed
    }

    /// A phase of a launch begins; the launches of its stream from `next` on follow.
    pub fn begin(&mut self, node: usize, phase: &[Activity], next: Option<u32>, now: f64) {
        let rest = next.map_or(0.0, |launch| self.rest_s[launch as usize]);
        self.passed |= now + self.alone_s(node, phase) + rest > self.until_s;
        for activity in phase {
            self.wait(node, activity, -1.0);
            let until_s = self.until_s;
            let waiting_s = &self.waiting_s;
            let route = self.route(node, activity);
            let late = |&(resource, _): &(usize, f64)| now + waiting_s[resource] > until_s;
            self.passed |= route.uses.iter().any(late);
        }
    }

    /// Seconds of a phase that has everything to itself: those of its slowest activity.
    fn alone_s(&self, node: usize, phase: &[Activity]) -> f64 {
        let seconds = phase.iter().filter(|each| each.amount > 0.0).map(|each| {
            let route = self.route(node, each);
            let way = |&(resource, c): &(usize, f64)| self.scenario.capacities[resource] / c;
            let rate = route.uses.iter().map(way).fold(route.cap, f64::min);
            each.amount / rate.min(each.cap)
        });
        seconds.fold(0.0, f64::max)
    }

    /// Enters what an activity takes of each resource on its way, or takes it out again.
    fn wait(&mut self, node: usize, activity: &Activity, sign: f64) {
        if activity.amount <= 0.0 {
            return;
        }
        let scenario = self.scenario;
        for &(resource, coefficient) in &route(scenario, node, activity).uses {
            let seconds = activity.amount * coefficient / scenario.capacities[resource];
            self.waiting_s[resource] += sign * seconds;
        }
    }

    fn route(&self, node: usize, activity: &Activity) -> &'a Route {
        route(self.scenario, node, activity)
    }
}

fn route<'a>(scenario: &'a Scenario, node: usize, activity: &Activity) -> &'a Route {
    let route = scenario.nodes[node][activity.class].as_ref();
    route.expect("a checked scenario has this route")
}
