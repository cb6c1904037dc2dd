//! Divides what nodes use into cells, and cells into groups.
//!
//! Activities that use a resource in common are solved together if only their node uses it: they are of
//! one cell. Cells that use a resource of several nodes are of one group. What happens in one group
//! changes no rate in another.

use crate::cell::Cell;
use crate::filling::{Filling, Problem};
use crate::ledger::Shared;
use crate::scenario::Scenario;
use std::collections::HashMap;

/// What an activity of one class uses on a node.
#[derive(Debug, Default)]
pub struct LocalRoute {
    /// Its class.
    pub class: u32,
    /// Its cell.
    pub cell: u32,
    /// The group's shared resources, then the cell's own, numbered as in the group's problem.
    pub uses: Vec<(u32, f64)>,
    /// How many of these are shared.
    pub shared: u32,
    /// The first of the group's shared resources among all.
    pub first_shared: u32,
    /// Watched resources, by their row.
    pub watched: Vec<(u32, f64)>,
    /// Highest rate of one activity.
    pub cap: f64,
}

/// Cells that share resources.
#[derive(Debug, Default)]
pub struct Group {
    /// Its cells.
    pub cells: Vec<u32>,
    /// The first of its shared resources; the others follow.
    pub first_shared: u32,
    /// All its activities at once.
    pub problem: Problem,
    /// The last solution.
    pub filling: Filling,
}

/// All cells and groups.
#[derive(Debug, Default)]
pub struct Division {
    /// What each class uses on each node; the index is node × classes + class.
    pub route_of: Vec<Option<u32>>,
    /// The routes.
    pub routes: Vec<LocalRoute>,
    /// The cells.
    pub cells: Vec<Cell>,
    /// The groups.
    pub groups: Vec<Group>,
    /// The shared resources, those of a group together.
    pub shared: Vec<Shared>,
}

/// Sets that are joined step by step.
struct Sets(Vec<usize>);

impl Sets {
    fn new(count: usize) -> Self {
        Self((0..count).collect())
    }

    fn find(&mut self, mut member: usize) -> usize {
        while self.0[member] != member {
            self.0[member] = self.0[self.0[member]];
            member = self.0[member];
        }
        member
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.find(one), self.find(other));
        self.0[one.max(other)] = one.min(other);
    }

    /// Numbers the sets from 0 in the order of their members; gives each member's set and the count.
    fn number(&mut self) -> (Vec<u32>, usize) {
        let mut numbers = HashMap::new();
        let of = (0..self.0.len()).map(|member| {
            let next = numbers.len() as u32;
            *numbers.entry(self.find(member)).or_insert(next)
        });
        (of.collect(), numbers.len())
    }
}

/// Which classes run on each node: node × classes + class.
fn classes_that_run(scenario: &Scenario) -> Vec<bool> {
    let classes = scenario.classes.len();
    let of_profile: Vec<Vec<usize>> = scenario
        .profiles
        .iter()
        .map(|phases| {
            let mut of: Vec<usize> = phases
                .iter()
                .flatten()
                .map(|activity| activity.class)
                .collect();
            of.sort_unstable();
            of.dedup();
            of
        })
        .collect();
    let mut runs = vec![false; scenario.nodes.len() * classes];
    for stream in scenario.streams.iter().filter(|stream| stream.repeat > 0) {
        for &class in stream
            .launches
            .iter()
            .flat_map(|&profile| &of_profile[profile])
        {
            runs[stream.node * classes + class] = true;
        }
    }
    runs
}

/// A route with the uses that can bind, each resource once.
struct Draft {
    node: usize,
    uses: Vec<(usize, f64)>,
}

impl Division {
    /// Divides a scenario; `watched` are the resources whose use is recorded.
    pub fn new(scenario: &Scenario, watched: &[usize]) -> Self {
        let mut division = Self::default();
        let drafts = division.draft(scenario, watched);
        let users = users(&drafts, scenario.capacities.len());
        let shared = |resource: usize| {
            let first = users[resource].first().map(|&route| drafts[route].node);
            users[resource]
                .iter()
                .any(|&route| Some(drafts[route].node) != first)
        };
        let mut sets = Sets::new(drafts.len());
        for resource in (0..users.len()).filter(|&resource| !shared(resource)) {
            users[resource]
                .windows(2)
                .for_each(|pair| sets.join(pair[0], pair[1]));
        }
        let (cell_of, cells) = sets.number();
        division.cells.resize_with(cells, Cell::default);
        for (route, &cell) in division.routes.iter_mut().zip(&cell_of) {
            route.cell = cell;
        }
        let mut sets = Sets::new(cells);
        let several: Vec<usize> = (0..users.len())
            .filter(|&resource| shared(resource))
            .collect();
        for &resource in &several {
            let cells = |route: usize| cell_of[route] as usize;
            users[resource]
                .windows(2)
                .for_each(|pair| sets.join(cells(pair[0]), cells(pair[1])));
        }
        let place_of = division.group(scenario, &mut sets, &several, &users);
        division.connect(scenario, &drafts, &place_of);
        division
    }

    fn draft(&mut self, scenario: &Scenario, watched: &[usize]) -> Vec<Draft> {
        let classes = scenario.classes.len();
        let mut drafts = Vec::new();
        for (index, runs) in classes_that_run(scenario).into_iter().enumerate() {
            let (node, class) = (index / classes, index % classes);
            let route = scenario.nodes[node].get(class).and_then(Option::as_ref);
            let Some(route) = route.filter(|_| runs) else {
                self.route_of.push(None);
                continue;
            };
            self.route_of.push(Some(drafts.len() as u32));
            let mut uses = merged(&route.uses);
            let rows = |&(resource, c): &(usize, f64)| {
                let rows = watched
                    .iter()
                    .enumerate()
                    .filter(move |(_, watched)| **watched == resource);
                rows.map(move |(row, _)| (row as u32, c))
            };
            self.routes.push(LocalRoute {
                class: class as u32,
                watched: uses.iter().flat_map(rows).collect(),
                cap: route.cap,
                ..LocalRoute::default()
            });
            uses.retain(|&(resource, _)| scenario.capacities[resource].is_finite());
            drafts.push(Draft { node, uses });
        }
        drafts
    }

    /// Makes the groups; gives each shared resource's place.
    fn group(
        &mut self,
        scenario: &Scenario,
        sets: &mut Sets,
        several: &[usize],
        users: &[Vec<usize>],
    ) -> HashMap<usize, u32> {
        let mut of_group: Vec<(usize, usize)> = several
            .iter()
            .map(|&resource| {
                let cell = self.routes[users[resource][0]].cell as usize;
                (sets.find(cell), resource)
            })
            .collect();
        of_group.sort_unstable();
        let mut number_of = HashMap::new();
        let mut place_of = HashMap::new();
        for (set, resource) in of_group {
            let place = self.shared.len() as u32;
            let capacity = scenario.capacities[resource];
            number_of.entry(set).or_insert_with(|| {
                self.groups.push(Group {
                    first_shared: place,
                    ..Group::default()
                });
                self.groups.len() as u32 - 1
            });
            self.groups[number_of[&set] as usize]
                .problem
                .capacity
                .push(capacity);
            self.shared.push(Shared::new(resource as u32, capacity));
            place_of.insert(resource, place);
        }
        for cell in 0..self.cells.len() {
            let group = number_of.get(&sets.find(cell)).copied();
            self.cells[cell].group = group;
            if let Some(group) = group {
                self.groups[group as usize].cells.push(cell as u32);
            }
        }
        place_of
    }

    /// Gives routes and cells their resources.
    fn connect(&mut self, scenario: &Scenario, drafts: &[Draft], place_of: &HashMap<usize, u32>) {
        for (route, draft) in self.routes.iter().zip(drafts) {
            let cell = &mut self.cells[route.cell as usize];
            for &(resource, _) in &draft.uses {
                if let Some(&place) = place_of.get(&resource) {
                    cell.share(place);
                } else {
                    cell.own(resource as u32, scenario.capacities[resource]);
                }
            }
        }
        for group in &mut self.groups {
            for &cell in &group.cells {
                let cell = &mut self.cells[cell as usize];
                cell.offset = group.problem.capacity.len() as u32;
                group
                    .problem
                    .capacity
                    .extend(cell.own.iter().map(|own| own.0));
            }
        }
        for (route, draft) in self.routes.iter_mut().zip(drafts) {
            let cell = &mut self.cells[route.cell as usize];
            let first = cell
                .group
                .map_or(0, |group| self.groups[group as usize].first_shared);
            route.first_shared = first;
            for &(resource, coefficient) in &draft.uses {
                if let Some(&place) = place_of.get(&resource) {
                    route.uses.push((place - first, coefficient));
                }
            }
            route.shared = route.uses.len() as u32;
            for &(resource, coefficient) in &draft.uses {
                if !place_of.contains_key(&resource) {
                    let own = cell.own(resource as u32, scenario.capacities[resource]);
                    route.uses.push((cell.offset + own, coefficient));
                }
            }
        }
    }
}

impl LocalRoute {
    /// The shared resources, by their number among all, and what a unit of rate takes of each.
    pub fn shared(&self) -> impl Iterator<Item = (u32, f64)> {
        let shared = self.uses[..self.shared as usize].iter();
        shared.map(|&(place, coefficient)| (self.first_shared + place, coefficient))
    }

    /// The cell's own resources, numbered as in the group's problem.
    pub fn own(&self) -> &[(u32, f64)] {
        &self.uses[self.shared as usize..]
    }
}

/// The routes that use each resource.
fn users(drafts: &[Draft], resources: usize) -> Vec<Vec<usize>> {
    let mut users = vec![Vec::new(); resources];
    for (route, draft) in drafts.iter().enumerate() {
        for &(resource, _) in &draft.uses {
            users[resource].push(route);
        }
    }
    users
}

/// Each resource once, with the sum of its coefficients.
fn merged(uses: &[(usize, f64)]) -> Vec<(usize, f64)> {
    let mut merged: Vec<(usize, f64)> = Vec::with_capacity(uses.len());
    for &(resource, coefficient) in uses {
        match merged.iter_mut().find(|(known, _)| *known == resource) {
            Some((_, sum)) => *sum += coefficient,
            None => merged.push((resource, coefficient)),
        }
    }
    merged
}
