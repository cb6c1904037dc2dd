//! A cell: resources that only one node uses and that share activities, with what runs on them. A node's
//! cores are a cell, its NIC in one direction another.

use crate::division::LocalRoute;
use crate::filling::{Filling, OWN_CAP, Problem};
use crate::ledger::Ledger;
use crate::running::{Progress, Running};

/// A cell as it runs.
#[derive(Debug, Default)]
pub struct Cell {
    /// Capacity of each of its resources, and the scenario's number.
    pub own: Vec<(f64, u32)>,
    /// The shared resources that its activities use besides.
    pub shared: Vec<u32>,
    /// The group of cells that use these.
    pub group: Option<u32>,
    /// Where its resources stand in the group's problem.
    pub offset: u32,
    /// What runs.
    pub running: Vec<Running>,
    /// How far each of these is.
    pub progress: Vec<Progress>,
    /// Whether it waits to be solved.
    pub changed: bool,
}

impl Cell {
    /// Notes that its activities use a shared resource.
    pub fn share(&mut self, place: u32) {
        if !self.shared.contains(&place) {
            self.shared.push(place);
        }
    }

    /// Its number for a resource of its own, which is added if it is new.
    pub fn own(&mut self, resource: u32, capacity: f64) -> u32 {
        let known = self.own.iter().position(|&(_, own)| own == resource);
        known.unwrap_or_else(|| {
            self.own.push((capacity, resource));
            self.own.len() - 1
        }) as u32
    }

    /// Puts it on the list of those to be solved, once.
    pub fn mark(&mut self, number: u32, changed: &mut Vec<u32>) {
        if !self.changed {
            self.changed = true;
            changed.push(number);
        }
    }

    /// Gives its activities the rates that the levels of the shared resources leave them; returns when the
    /// first of them ends.
    pub fn solve(
        &mut self,
        routes: &[LocalRoute],
        ledger: &mut Ledger,
        (problem, filling): &mut (Problem, Filling),
        now: f64,
    ) -> f64 {
        problem.capacity.clear();
        problem.capacity.extend(self.own.iter().map(|own| own.0));
        problem.clear_flows();
        for running in &self.running {
            let route = &routes[running.route as usize];
            let cap = running.cap.min(ledger.limit(route, running.weight).0);
            let own = route.own().iter();
            problem.push(
                running.weight,
                cap,
                own.map(|&(place, c)| (place - self.offset, c)),
            );
        }
        filling.solve(problem);
        let mut first_end = f64::INFINITY;
        for (flow, running) in self.running.iter_mut().enumerate() {
            let route = &routes[running.route as usize];
            let rate = filling.rate[flow];
            let bound_by = match filling.bound_by[flow] {
                OWN_CAP if rate < running.cap => ledger.limit(route, running.weight).1,
                OWN_CAP => OWN_CAP,
                own => self.own[own as usize].1,
            };
            if !running.keeps(rate, bound_by) {
                ledger.change(route, running.weight, running.rate, rate);
                running.turn(&mut self.progress[flow], rate, bound_by, now);
            }
            first_end = first_end.min(running.ends);
        }
        first_end
    }
}
