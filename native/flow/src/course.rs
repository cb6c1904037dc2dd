//! The course of a simulation, from event to event.
//!
//! An event changes the activities of a few cells. These are solved anew at once, the levels of the
//! shared resources standing in as caps: that takes time by the activities of the cells. Only when a
//! shared resource is out of balance by more than the tolerance are all cells of its group solved
//! together. While many activities come and go, most changes cancel each other out.

use crate::cell::Cell;
use crate::division::{Division, Group, LocalRoute};
use crate::filling::{Filling, OWN_CAP, Problem};
use crate::ledger::Ledger;
use crate::limit::Limit;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::running::{Progress, Running};
use crate::scenario::Scenario;
use crate::series::Series;
use crate::simulate::{Failure, Options};
use crate::stream::StreamState;
use crate::tournament::Tournament;

/// Ends that are closer than this part of the time are one event.
const SIMULTANEOUS: f64 = 1e-12;

/// Where a simulation stands.
pub struct Course<'a> {
    scenario: &'a Scenario,
    plan: Plan,
    tolerance: f64,
    now: f64,
    route_of: Vec<Option<u32>>,
    routes: Vec<LocalRoute>,
    cells: Vec<Cell>,
    groups: Vec<Group>,
    streams: Vec<StreamState>,
    starts: Vec<u32>,
    ledger: Ledger,
    ends: Tournament,
    changed: Vec<u32>,
    off: Vec<u32>,
    amounts: Vec<f64>,
    room: (Problem, Filling),
    limit: Option<Limit<'a>>,
}

impl<'a> Course<'a> {
    /// Before the first event.
    pub fn new(scenario: &'a Scenario, options: &Options) -> Self {
        let division = Division::new(scenario, &options.watched);
        let amounts = vec![0.0; division.routes.len()];
        let classes = scenario.classes.len();
        let mut first = 0;
        let streams = scenario.streams.iter().map(|stream| {
            let state = StreamState::new(stream, first);
            first += stream.count() as u32;
            state
        });
        let streams = streams.collect();
        let start = |&stream: &u32| scenario.streams[stream as usize].start_s;
        let mut starts: Vec<u32> = (0..scenario.streams.len() as u32).collect();
        starts.sort_by(|a, b| start(b).total_cmp(&start(a)));
        Self {
            scenario,
            plan: Plan::new(scenario),
            tolerance: options.tolerance,
            now: 0.0,
            route_of: division.route_of,
            routes: division.routes,
            ends: Tournament::new(division.cells.len()),
            cells: division.cells,
            groups: division.groups,
            streams,
            starts,
            ledger: Ledger::new(division.shared, classes, classes + options.watched.len()),
            changed: Vec::new(),
            off: Vec::new(),
            amounts,
            room: Default::default(),
            limit: None,
        }
    }

    /// The same, but it stops once it cannot end by then.
    pub fn until(mut self, until_s: f64) -> Self {
        self.limit = Some(Limit::new(self.scenario, until_s));
        self
    }

    /// Runs all launches to their end.
    pub fn run(
        &mut self,
        outcome: &mut Outcome,
        series: &mut Series,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<(), Failure> {
        loop {
            let next = self.next_start().min(self.ends.earliest().0);
            if next.is_infinite() {
                self.add_up(outcome);
                return Ok(());
            }
            if stop() {
                return Err(Failure::Stopped);
            }
            if self.limit.as_ref().is_some_and(Limit::is_passed) {
                return Err(Failure::Late(outcome.events));
            }
            self.ledger.record(series, self.now, next);
            self.now = next;
            let until = next * (1.0 + SIMULTANEOUS);
            while self.next_start() <= until {
                let stream = self.starts.pop().expect("a stream is to start");
                self.advance(stream, outcome);
            }
            while self.ends.earliest().0 <= until {
                let cell = self.ends.earliest().1;
                self.end_activities(cell, until, outcome);
            }
            self.solve(outcome);
        }
    }

    /// Says what was taken of each resource.
    fn add_up(&self, outcome: &mut Outcome) {
        let classes = self.scenario.classes.len();
        for (index, route) in self.route_of.iter().enumerate() {
            let its = self.scenario.nodes[index / classes].get(index % classes);
            if let (Some(route), Some(Some(its))) = (route, its) {
                for &(resource, coefficient) in &its.uses {
                    outcome.taken[resource] += coefficient * self.amounts[*route as usize];
                }
            }
        }
    }

    fn next_start(&self) -> f64 {
        let start = |&stream: &u32| self.scenario.streams[stream as usize].start_s;
        self.starts.last().map_or(f64::INFINITY, start)
    }

    /// Starts the next activities of a stream.
    fn advance(&mut self, stream: u32, outcome: &mut Outcome) {
        let state = &mut self.streams[stream as usize];
        let node = state.node as usize;
        let of = &self.scenario.streams[stream as usize];
        let Some(phase) = state.advance(of, &self.plan, self.now, outcome) else {
            return;
        };
        if let Some(limit) = &mut self.limit {
            limit.begin(
                node,
                self.plan.activities(phase),
                state.next_launch(),
                self.now,
            );
        }
        for activity in self.plan.activities(phase) {
            let index = node * self.scenario.classes.len() + activity.class;
            let number = self.route_of[index].expect("a checked scenario has this route");
            let route = &self.routes[number as usize];
            let cap = activity.cap.min(route.cap);
            let cell = &mut self.cells[route.cell as usize];
            cell.running
                .push(Running::new(number, activity.weight, cap));
            cell.progress
                .push(Progress::new(stream, activity.amount, self.now));
            self.amounts[number as usize] += activity.amount;
            cell.mark(route.cell, &mut self.changed);
        }
    }

    /// Ends what is due in a cell, and goes on with the streams whose phase that was.
    fn end_activities(&mut self, number: usize, until: f64, outcome: &mut Outcome) {
        self.ends.set(number, f64::INFINITY);
        let mut place = 0;
        let mut go_on = Vec::new();
        let cell = &mut self.cells[number];
        cell.mark(number as u32, &mut self.changed);
        while place < cell.running.len() {
            if cell.running[place].ends > until {
                place += 1;
                continue;
            }
            let ended = cell.running.swap_remove(place);
            let progress = cell.progress.swap_remove(place);
            let route = &self.routes[ended.route as usize];
            self.ledger.change(route, ended.weight, ended.rate, 0.0);
            outcome.events += 1;
            let stream = progress.stream;
            let state = &mut self.streams[stream as usize];
            state.left -= 1;
            if state.left == 0 {
                state.account(route.class, &ended.end(progress, self.now));
                go_on.push(stream);
            }
        }
        for stream in go_on {
            self.advance(stream, outcome);
        }
    }

    /// Solves the cells that changed, and the groups which that leaves out of balance.
    fn solve(&mut self, outcome: &mut Outcome) {
        for &number in &self.changed {
            let cell = &mut self.cells[number as usize];
            let end = cell.solve(&self.routes, &mut self.ledger, &mut self.room, self.now);
            cell.changed = false;
            self.ends.set(number as usize, end);
        }
        self.off.clear();
        for &number in &self.changed {
            let cell = &self.cells[number as usize];
            let Some(group) = cell.group.filter(|group| !self.off.contains(group)) else {
                continue;
            };
            if self.ledger.out_of_balance(&cell.shared, self.tolerance) {
                self.off.push(group);
            }
        }
        self.changed.clear();
        while let Some(group) = self.off.pop() {
            outcome.solutions += 1;
            self.solve_group(group as usize);
        }
    }

    /// Solves all cells of a group in common.
    fn solve_group(&mut self, number: usize) {
        let Group {
            cells,
            first_shared,
            problem,
            filling,
        } = &mut self.groups[number];
        let first = *first_shared;
        problem.clear_flows();
        for cell in cells.iter().map(|&cell| &self.cells[cell as usize]) {
            for running in &cell.running {
                let route = &self.routes[running.route as usize];
                problem.push(running.weight, running.cap, route.uses.iter().copied());
            }
        }
        filling.solve(problem);
        let shared = self.cells[cells[0] as usize].offset as usize;
        self.ledger.reopen(first, &filling.level[..shared]);
        let mut flow = 0;
        for &number in &*cells {
            let cell = &mut self.cells[number as usize];
            let mut first_end = f64::INFINITY;
            for (running, progress) in cell.running.iter_mut().zip(&mut cell.progress) {
                let route = &self.routes[running.route as usize];
                let bound_by = match filling.bound_by[flow] {
                    OWN_CAP => OWN_CAP,
                    by if (by as usize) < shared => {
                        self.ledger.shared[(first + by) as usize].resource
                    }
                    by => cell.own[(by - cell.offset) as usize].1,
                };
                let rate = filling.rate[flow];
                if !running.keeps(rate, bound_by) {
                    self.ledger.note(route, running.rate, rate);
                    running.turn(progress, rate, bound_by, self.now);
                }
                self.ledger.enter(route, running.weight, running.rate);
                first_end = first_end.min(running.ends);
                flow += 1;
            }
            self.ends.put(number as usize, first_end);
        }
        self.ends.rebuild();
    }
}
