//! Weighted max-min fair rates of flows that share resources, for one moment.

use crate::filling::{Filling, OWN_CAP, Problem};

/// Smallest and largest finite number taken; between them no quotient overflows.
pub const RANGE: (f64, f64) = (1e-100, 1e100);

/// A flow: what it uses, its share where it competes, and its highest rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Resource, and how much of it one unit of rate takes. A resource may be named repeatedly.
    pub uses: Vec<(usize, f64)>,
    /// Competing flows get rates in proportion to their weights.
    pub weight: f64,
    /// Highest rate; may be infinite if a resource bounds the flow.
    pub cap: f64,
}

/// The rates, and what binds each flow.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// Rate of each flow.
    pub rates: Vec<f64>,
    /// The resource that binds each flow, or nothing if its own cap does.
    pub bound_by: Vec<Option<usize>>,
}

/// Finds the weighted max-min fair rates: no rate can grow without lowering another whose rate over
/// weight is no larger.
///
/// Takes O((F + U) log(F + U)) for F flows with U uses. Rates are exact up to rounding.
///
/// # Errors
/// Every number that is not taken, one per line: see [`check`].
pub fn solve(capacities: &[f64], flows: &[Flow]) -> Result<Solution, String> {
    check(capacities, flows)?;
    let mut problem = Problem {
        capacity: capacities.to_vec(),
        ..Problem::default()
    };
    for flow in flows {
        let uses = flow.uses.iter().map(|&(resource, c)| (resource as u32, c));
        problem.push(flow.weight, flow.cap, uses);
    }
    let mut filling = Filling::default();
    filling.solve(&problem);
    let bound = |&by: &u32| (by != OWN_CAP).then_some(by as usize);
    Ok(Solution {
        bound_by: filling.bound_by.iter().map(bound).collect(),
        rates: filling.rate,
    })
}

/// Says which numbers cannot be taken: capacities, coefficients, weights and caps must be positive and
/// in [`RANGE`] (capacities and caps may be infinite), resources must exist, and every flow needs a
/// finite cap or a resource of finite capacity.
///
/// # Errors
/// One line for each of the first 20 problems.
pub fn check(capacities: &[f64], flows: &[Flow]) -> Result<(), String> {
    let mut problems = Vec::new();
    for (resource, &capacity) in capacities.iter().enumerate() {
        if !positive_or_infinite(capacity) {
            problems.push(wrong(
                &format!("capacity of resource {resource}"),
                capacity,
                true,
            ));
        }
    }
    for (number, flow) in flows.iter().enumerate() {
        check_flow(number, flow, capacities, &mut problems);
    }
    report(problems)
}

fn check_flow(number: usize, flow: &Flow, capacities: &[f64], problems: &mut Vec<String>) {
    if !positive(flow.weight) {
        problems.push(wrong(
            &format!("weight of flow {number}"),
            flow.weight,
            false,
        ));
    }
    if !positive_or_infinite(flow.cap) {
        problems.push(wrong(&format!("cap of flow {number}"), flow.cap, true));
    }
    let mut bounded = flow.cap.is_finite();
    for &(resource, coefficient) in &flow.uses {
        let Some(capacity) = capacities.get(resource) else {
            problems.push(format!(
                "flow {number} uses resource {resource}, but there are {} (0 is the first)",
                capacities.len()
            ));
            bounded = true;
            continue;
        };
        bounded |= !capacity.is_infinite();
        if !positive(coefficient) {
            let what = format!("coefficient of flow {number} on resource {resource}");
            problems.push(wrong(&what, coefficient, false));
        }
    }
    if !bounded {
        problems.push(format!(
            "nothing bounds flow {number}: give it a cap or a resource of finite capacity"
        ));
    }
}

pub(crate) fn positive(value: f64) -> bool {
    (RANGE.0..=RANGE.1).contains(&value)
}

pub(crate) fn positive_or_infinite(value: f64) -> bool {
    value == f64::INFINITY || positive(value)
}

pub(crate) fn wrong(what: &str, value: f64, infinite: bool) -> String {
    let (least, largest) = RANGE;
    let or = if infinite { ", or infinite" } else { "" };
    format!("{what} is {value}: it must be from {least:e} to {largest:e}{or}")
}

pub(crate) fn report(mut problems: Vec<String>) -> Result<(), String> {
    const SHOWN: usize = 20;
    if problems.is_empty() {
        return Ok(());
    }
    let more = problems.len().saturating_sub(SHOWN);
    problems.truncate(SHOWN);
    if more > 0 {
        problems.push(format!("and {more} more"));
    }
    Err(problems.join("\n"))
}
