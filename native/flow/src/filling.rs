//! Progressive filling: all flows grow together until a cap or a full resource holds them.
//!
//! The method is the textbook one (Bertsekas and Gallager, "Data Networks", 2nd edition, section
//! 6.5.2). Every flow has one *level*, its rate over its weight; the level of all flows that may
//! still grow rises in step. A resource is full at the level (capacity - what its held flows use)
//! / (sum of coefficient × weight of its growing flows); holding a flow never lowers that level,
//! so a heap with outdated entries finds the next full resource, and all takes
//! O((flows + uses) log(flows + uses)).

use crate::sum::Sum;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// What holds a flow: a resource's index, or this for its own cap.
pub const OWN_CAP: u32 = u32::MAX;

/// Two levels that differ by less than this part of them are one level.
const SAME: f64 = 1e-12;

/// A resource is full when no more than this part of its capacity is left.
const FULL: f64 = 1e-9;

/// Flows and what they use, in columns; kept between solutions so that nothing is allocated anew.
#[derive(Debug, Default)]
pub struct Problem {
    /// Capacity of each resource.
    pub capacity: Vec<f64>,
    /// Weight of each flow.
    pub weight: Vec<f64>,
    /// Highest rate of each flow.
    pub cap: Vec<f64>,
    /// What the flows use, one flow after another.
    pub uses: Vec<(u32, f64)>,
    /// Where each flow's uses end.
    pub ends: Vec<u32>,
}

impl Problem {
    /// Forgets all flows; the resources stay.
    pub fn clear_flows(&mut self) {
        self.weight.clear();
        self.cap.clear();
        self.uses.clear();
        self.ends.clear();
    }

    /// Adds a flow.
    pub fn push(&mut self, weight: f64, cap: f64, uses: impl IntoIterator<Item = (u32, f64)>) {
        self.weight.push(weight);
        self.cap.push(cap);
        self.uses.extend(uses);
        self.ends.push(self.uses.len() as u32);
    }

    fn uses(&self, flow: usize) -> &[(u32, f64)] {
        let start = if flow == 0 { 0 } else { self.ends[flow - 1] };
        &self.uses[start as usize..self.ends[flow] as usize]
    }
}

/// A resource that is full, or a flow that is at its cap, and at which level.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Reached {
    level: f64,
    number: u32,
}

impl Eq for Reached {}

impl Ord for Reached {
    fn cmp(&self, other: &Self) -> Ordering {
        let levels = self.level.total_cmp(&other.level);
        levels.then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Reached {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

type Reachable = BinaryHeap<Reverse<Reached>>;

/// Fills a heap anew in the room it has, in time linear in the entries.
fn refill(heap: &mut Reachable, entries: impl Iterator<Item = (usize, f64)>) {
    let mut room = std::mem::take(heap).into_vec();
    room.clear();
    room.extend(entries.map(|(number, level)| {
        let number = number as u32;
        Reverse(Reached { level, number })
    }));
    *heap = BinaryHeap::from(room);
}

#[derive(Debug, Clone, Copy, Default)]
struct Load {
    held: Sum,
    growing: Sum,
    flows: u32,
}

impl Load {
    fn full_at(&self, capacity: f64) -> f64 {
        let slope = self.growing.value();
        if self.flows == 0 || slope <= 0.0 || capacity.is_infinite() {
            return f64::INFINITY;
        }
        (capacity - self.held.value()).max(0.0) / slope
    }
}

/// The solution, and the room to find the next one in.
#[derive(Debug, Default)]
pub struct Filling {
    /// Rate of each flow.
    pub rate: Vec<f64>,
    /// What holds each flow: a resource's index or [`OWN_CAP`].
    pub bound_by: Vec<u32>,
    /// The level at which each resource was full; infinite for one that is not.
    pub level: Vec<f64>,
    load: Vec<Load>,
    first: Vec<u32>,
    cursor: Vec<u32>,
    flows_of: Vec<u32>,
    full: Reachable,
    caps: Reachable,
}

impl Filling {
    /// Finds the rates. A flow that nothing holds gets an infinite rate and [`OWN_CAP`].
    pub fn solve(&mut self, problem: &Problem) {
        self.prepare(problem);
        let (mut level, mut left) = (0.0_f64, problem.weight.len());
        while left > 0 {
            let capped = self.next_capped();
            let cap_level = capped.map_or(f64::INFINITY, |capped| capped.level);
            let full = self
                .next_full(problem)
                .filter(|full| full.level < cap_level * (1.0 - SAME));
            if let Some(full) = full {
                level = level.max(full.level);
                self.full.pop();
                left -= self.hold_all(problem, full.number, level);
            } else if let Some(capped) = capped {
                level = level.max(capped.level);
                self.caps.pop();
                let flow = capped.number as usize;
                self.hold(problem, flow, level, problem.cap[flow], OWN_CAP);
                left -= 1;
            } else {
                return self.release();
            }
        }
    }

    /// Nothing holds the flows that are left.
    fn release(&mut self) {
        for rate in self.rate.iter_mut().filter(|rate| rate.is_nan()) {
            *rate = f64::INFINITY;
        }
    }

    /// The growing flow that reaches its cap next.
    fn next_capped(&mut self) -> Option<Reached> {
        while let Some(&Reverse(top)) = self.caps.peek() {
            if self.rate[top.number as usize].is_nan() {
                return Some(top);
            }
            self.caps.pop();
        }
        None
    }

    fn prepare(&mut self, problem: &Problem) {
        let (flows, resources) = (problem.weight.len(), problem.capacity.len());
        self.rate.clear();
        self.rate.resize(flows, f64::NAN);
        self.bound_by.clear();
        self.bound_by.resize(flows, OWN_CAP);
        self.level.clear();
        self.level.resize(resources, f64::INFINITY);
        self.load.clear();
        self.load.resize(resources, Load::default());
        self.list_flows(problem);
        let loads = self.load.iter().zip(&problem.capacity).enumerate();
        let full = loads.filter(|(_, (load, _))| load.flows > 0);
        refill(
            &mut self.full,
            full.map(|(n, (load, &c))| (n, load.full_at(c))),
        );
        let caps = problem.cap.iter().zip(&problem.weight).enumerate();
        let finite = caps.filter(|(_, (cap, _))| cap.is_finite());
        refill(
            &mut self.caps,
            finite.map(|(n, (cap, weight))| (n, cap / weight)),
        );
    }

    /// Groups the flows by resource and adds up what grows.
    fn list_flows(&mut self, problem: &Problem) {
        for flow in 0..problem.weight.len() {
            for &(resource, coefficient) in problem.uses(flow) {
                let load = &mut self.load[resource as usize];
                load.flows += 1;
                load.growing.add(coefficient * problem.weight[flow]);
            }
        }
        self.first.clear();
        self.first.push(0);
        for load in &self.load {
            self.first
                .push(self.first[self.first.len() - 1] + load.flows);
        }
        self.flows_of.clear();
        self.flows_of.resize(problem.uses.len(), 0);
        self.cursor.clear();
        self.cursor.extend_from_slice(&self.first);
        for flow in 0..problem.weight.len() {
            for &(resource, _) in problem.uses(flow) {
                let place = &mut self.cursor[resource as usize];
                self.flows_of[*place as usize] = flow as u32;
                *place += 1;
            }
        }
    }

    /// The next resource to be full, its entry in the heap brought up to date.
    fn next_full(&mut self, problem: &Problem) -> Option<Reached> {
        while let Some(mut top) = self.full.peek_mut() {
            let resource = top.0.number as usize;
            let load = &self.load[resource];
            if load.flows == 0 {
                PeekMut::pop(top);
                continue;
            }
            let level = load.full_at(problem.capacity[resource]);
            if level <= top.0.level {
                return Some(top.0);
            }
            top.0.level = level;
        }
        None
    }

    fn hold_all(&mut self, problem: &Problem, resource: u32, level: f64) -> usize {
        self.level[resource as usize] = level;
        let (start, end) = (
            self.first[resource as usize],
            self.first[resource as usize + 1],
        );
        let mut held = 0;
        for place in start..end {
            let flow = self.flows_of[place as usize] as usize;
            if self.rate[flow].is_nan() {
                self.hold(problem, flow, level, problem.weight[flow] * level, resource);
                held += 1;
            }
        }
        held
    }

    fn hold(&mut self, problem: &Problem, flow: usize, level: f64, rate: f64, by: u32) {
        self.rate[flow] = rate;
        self.bound_by[flow] = by;
        for &(resource, coefficient) in problem.uses(flow) {
            let capacity = problem.capacity[resource as usize];
            let load = &mut self.load[resource as usize];
            load.flows -= 1;
            load.growing.add(-coefficient * problem.weight[flow]);
            load.held.add(coefficient * rate);
            if load.flows == 0 && load.held.value() >= capacity * (1.0 - FULL) {
                self.level[resource as usize] = level;
            }
        }
    }
}
