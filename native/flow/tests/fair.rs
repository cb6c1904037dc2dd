//! What users of the rates rely on, on random flows.

use gridwright_flow::fair::{Flow, Solution, solve};
use proptest::prelude::*;

const EXACT: f64 = 1e-9;

fn magnitude() -> impl Strategy<Value = f64> {
    prop_oneof![
        (0.1..10.0_f64),
        (-6.0..6.0_f64).prop_map(|p| 10_f64.powf(p)),
        Just(1.0)
    ]
}

/// Where flows that share a resource differ by more than the digits of a float can tell, the
/// smaller one's rate is what rounding leaves of the resource.
fn comparable() -> impl Strategy<Value = f64> {
    prop_oneof![(0.01..100.0_f64), Just(1.0)]
}

fn flow(resources: usize) -> impl Strategy<Value = Flow> {
    let uses = prop::collection::vec((0..resources, comparable()), 1..5);
    let cap = prop_oneof![2 => magnitude(), 1 => Just(f64::INFINITY)];
    (uses, comparable(), cap).prop_map(|(uses, weight, cap)| Flow { uses, weight, cap })
}

fn scenario() -> impl Strategy<Value = (Vec<f64>, Vec<Flow>)> {
    (1..8_usize).prop_flat_map(|resources| {
        let capacities = prop::collection::vec(magnitude(), resources);
        (capacities, prop::collection::vec(flow(resources), 1..40))
    })
}

fn usage(flows: &[Flow], rates: &[f64], resources: usize) -> Vec<f64> {
    let mut used = vec![0.0; resources];
    for (flow, rate) in flows.iter().zip(rates) {
        for &(resource, coefficient) in &flow.uses {
            used[resource] += coefficient * rate;
        }
    }
    used
}

fn least(solution: &Solution, flows: &[Flow]) -> f64 {
    let levels = solution
        .rates
        .iter()
        .zip(flows)
        .map(|(rate, flow)| rate / flow.weight);
    levels.fold(f64::INFINITY, f64::min)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= EXACT * a.abs().max(b.abs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_capacity_is_exceeded((capacities, flows) in scenario()) {
        let solution = solve(&capacities, &flows).unwrap();
        let used = usage(&flows, &solution.rates, capacities.len());
        for (used, capacity) in used.iter().zip(&capacities) {
            prop_assert!(*used <= capacity * (1.0 + EXACT), "{used} of {capacity}");
        }
        for (rate, flow) in solution.rates.iter().zip(&flows) {
            prop_assert!(*rate > 0.0 && *rate <= flow.cap);
        }
    }

    #[test]
    fn what_binds_a_flow_is_full_and_gives_nobody_a_higher_level((capacities, flows) in scenario()) {
        let solution = solve(&capacities, &flows).unwrap();
        let used = usage(&flows, &solution.rates, capacities.len());
        for (number, flow) in flows.iter().enumerate() {
            let rate = solution.rates[number];
            let Some(binding) = solution.bound_by[number] else {
                prop_assert!(close(rate, flow.cap));
                continue;
            };
            prop_assert!(flow.uses.iter().any(|&(resource, _)| resource == binding));
            prop_assert!(used[binding] >= capacities[binding] * (1.0 - EXACT));
            for (other, other_rate) in flows.iter().zip(&solution.rates) {
                if other.uses.iter().any(|&(resource, _)| resource == binding) {
                    let (level, others) = (rate / flow.weight, other_rate / other.weight);
                    prop_assert!(others <= level * (1.0 + EXACT), "{others} above {level}");
                }
            }
        }
    }

    #[test]
    fn order_does_not_matter((capacities, flows) in scenario(), seed in 0..1000_usize) {
        let solution = solve(&capacities, &flows).unwrap();
        let resources = capacities.len();
        let moved = |resource: usize| (resource + seed) % resources;
        let mut other_capacities = capacities.clone();
        for (resource, &capacity) in capacities.iter().enumerate() {
            other_capacities[moved(resource)] = capacity;
        }
        let mut others = flows.clone();
        for flow in &mut others {
            for used in &mut flow.uses {
                used.0 = moved(used.0);
            }
            flow.uses.reverse();
        }
        others.reverse();
        let other = solve(&other_capacities, &others).unwrap();
        for (rate, same) in solution.rates.iter().zip(other.rates.iter().rev()) {
            prop_assert!(close(*rate, *same), "{rate} and {same}");
        }
    }

    #[test]
    fn more_capacity_never_lowers_the_least_level(
        (capacities, flows) in scenario(), which in 0..8_usize, factor in 1.0..10.0_f64
    ) {
        let before = least(&solve(&capacities, &flows).unwrap(), &flows);
        let mut more = capacities.clone();
        more[which % capacities.len()] *= factor;
        let after = least(&solve(&more, &flows).unwrap(), &flows);
        prop_assert!(after >= before * (1.0 - EXACT), "{after} after {before}");
    }
}

fn plain(uses: &[(usize, f64)], weight: f64, cap: f64) -> Flow {
    Flow {
        uses: uses.to_vec(),
        weight,
        cap,
    }
}

#[test]
fn weights_divide_and_caps_leave_the_rest_to_others() {
    let flows = [
        plain(&[(0, 1.0)], 1.0, f64::INFINITY),
        plain(&[(0, 1.0)], 3.0, f64::INFINITY),
        plain(&[(0, 1.0)], 1.0, 2.0),
    ];
    let solution = solve(&[10.0], &flows).unwrap();
    assert_eq!(solution.rates, [2.0, 6.0, 2.0]);
    assert_eq!(solution.bound_by, [Some(0), Some(0), None]);
}

#[test]
fn a_resource_used_twice_costs_twice() {
    let twice = plain(&[(0, 1.0), (0, 1.0)], 1.0, f64::INFINITY);
    assert_eq!(solve(&[10.0], &[twice]).unwrap().rates, [5.0]);
}

#[test]
fn an_infinite_resource_binds_nobody() {
    let flows = [
        plain(&[(0, 1.0), (1, 1.0)], 1.0, f64::INFINITY),
        plain(&[(0, 1.0)], 1.0, 7.0),
    ];
    let solution = solve(&[f64::INFINITY, 3.0], &flows).unwrap();
    assert_eq!(solution.rates, [3.0, 7.0]);
}

#[test]
fn no_flows_is_an_answer() {
    assert_eq!(solve(&[1.0], &[]).unwrap().rates, [0.0; 0]);
}

#[test]
fn every_wrong_number_is_named() {
    let flows = [
        plain(&[(3, 1.0)], -1.0, 0.0),
        plain(&[(0, f64::NAN)], 1.0, 1.0),
        plain(&[(1, 1.0)], 1.0, f64::INFINITY),
    ];
    let text = solve(&[0.0, f64::INFINITY], &flows).unwrap_err();
    for part in [
        "capacity of resource 0 is 0",
        "weight of flow 0 is -1",
        "cap of flow 0 is 0",
        "flow 0 uses resource 3, but there are 2",
        "coefficient of flow 1 on resource 0 is NaN",
        "nothing bounds flow 2",
    ] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
}

#[test]
fn many_flows_take_no_quadratic_time() {
    let flows: Vec<Flow> = (0..200_000_u32)
        .map(|n| {
            let own = 1 + (n % 1000) as usize;
            plain(
                &[(0, 1.0), (own, 1.0)],
                1.0 + f64::from(n % 7),
                1.0 + f64::from(n % 1009),
            )
        })
        .collect();
    let capacities: Vec<f64> = std::iter::once(1e6)
        .chain((0..1000).map(|n| 50.0 + f64::from(n)))
        .collect();
    let start = std::time::Instant::now();
    solve(&capacities, &flows).unwrap();
    assert!(
        start.elapsed().as_secs_f64() < 20.0,
        "{:?}",
        start.elapsed()
    );
}
