//! Launches over time, checked against a simulation that solves everything at every event.

use gridwright_flow::fair::{self, Flow};
use gridwright_flow::outcome::Outcome;
use gridwright_flow::scenario::{Activity, Route, Scenario, Stream};
use gridwright_flow::simulate::{Failure, Options, end, simulate};
use proptest::prelude::*;

fn exact() -> Options {
    Options {
        tolerance: 0.0,
        bins: 20,
        watched: Vec::new(),
    }
}

fn run(scenario: &Scenario, options: &Options) -> Outcome {
    simulate(scenario, options, &mut || false).unwrap()
}

/// A stream of the plain simulation: what is left of the activities of its phase, and where it stands.
struct Plain {
    launches: Vec<usize>,
    first: usize,
    launch: usize,
    phase: usize,
    left: Vec<(Activity, f64)>,
    ended: bool,
}

impl Plain {
    fn advance(&mut self, scenario: &Scenario, now: f64, times: &mut [(f64, f64)]) {
        while self.left.is_empty() && !self.ended {
            let Some(&profile) = self.launches.get(self.launch) else {
                self.ended = true;
                return;
            };
            if self.phase == 0 {
                times[self.first + self.launch].0 = now;
            }
            if let Some(phase) = scenario.profiles[profile].get(self.phase) {
                let working = phase.iter().filter(|activity| activity.amount > 0.0);
                self.left = working
                    .map(|activity| (*activity, activity.amount))
                    .collect();
                self.phase += 1;
            } else {
                times[self.first + self.launch].1 = now;
                self.launch += 1;
                self.phase = 0;
            }
        }
    }
}

/// The plainest simulation there is: all rates anew at each event.
fn plain(scenario: &Scenario) -> Vec<(f64, f64)> {
    let mut streams = Vec::new();
    let mut first = 0;
    for stream in &scenario.streams {
        let launches: Vec<usize> = stream.launches.repeat(stream.repeat);
        let count = launches.len();
        streams.push(Plain {
            launches,
            first,
            launch: 0,
            phase: 0,
            left: Vec::new(),
            ended: false,
        });
        first += count;
    }
    let mut times = vec![(0.0, 0.0); first];
    let mut now = 0.0;
    loop {
        let mut flows = Vec::new();
        let mut next = f64::INFINITY;
        for (stream, state) in scenario.streams.iter().zip(&mut streams) {
            if stream.start_s > now {
                next = next.min(stream.start_s);
                continue;
            }
            state.advance(scenario, now, &mut times);
            for (activity, _) in &state.left {
                let route = scenario.nodes[stream.node][activity.class]
                    .as_ref()
                    .unwrap();
                flows.push(Flow {
                    uses: route.uses.clone(),
                    weight: activity.weight,
                    cap: activity.cap.min(route.cap),
                });
            }
        }
        let rates = fair::solve(&scenario.capacities, &flows).unwrap().rates;
        let left = streams.iter().flat_map(|state| &state.left);
        next = left
            .zip(&rates)
            .fold(next, |next, ((_, left), rate)| next.min(now + left / rate));
        if next.is_infinite() {
            return times;
        }
        let mut rates = rates.into_iter();
        for state in &mut streams {
            for (activity, left) in &mut state.left {
                let rate = rates.next().unwrap();
                *left -= rate * (next - now);
                if *left <= 1e-11 * activity.amount {
                    *left = 0.0;
                }
            }
            state.left.retain(|(_, left)| *left > 0.0);
        }
        now = next;
    }
}

fn activity() -> impl Strategy<Value = Activity> {
    let amount = prop_oneof![1 => Just(0.0), 8 => 0.1..20.0_f64];
    let cap = prop_oneof![1 => Just(f64::INFINITY), 1 => 0.5..8.0_f64];
    (
        0..3_usize,
        amount,
        cap,
        prop_oneof![Just(1.0), 0.2..4.0_f64],
    )
        .prop_map(|(class, amount, cap, weight)| Activity {
            class,
            amount,
            cap,
            weight,
        })
}

/// Nodes with resources of their own, and resources that some of them share.
fn scenario() -> impl Strategy<Value = Scenario> {
    let (shared, nodes) = (1..4_usize, 1..5_usize);
    (shared, nodes)
        .prop_flat_map(|(shared, nodes)| {
            let resources = shared + 2 * nodes;
            let route = move |node: usize| {
                let own = (0..2_usize).prop_map(move |n| shared + 2 * node + n);
                let any = prop_oneof![own, 0..shared];
                let uses = prop::collection::vec((any, prop_oneof![Just(1.0), 0.3..3.0_f64]), 1..4);
                (uses, prop_oneof![Just(f64::INFINITY), 1.0..5.0_f64])
                    .prop_map(|(uses, cap)| Some(Route { uses, cap }))
            };
            let node = move |node: usize| vec![route(node), route(node), route(node)];
            let phase = prop::collection::vec(activity(), 0..4);
            let profile = prop::collection::vec(phase, 0..4);
            let start = prop_oneof![Just(0.0), 0.0..10.0_f64];
            let stream = (
                0..nodes,
                start,
                prop::collection::vec(0..4_usize, 0..4),
                0..3_usize,
            );
            (
                prop::collection::vec(1.0..20.0_f64, resources),
                (0..nodes).map(node).collect::<Vec<_>>(),
                prop::collection::vec(profile, 4),
                prop::collection::vec(stream, 1..8),
            )
        })
        .prop_map(|(capacities, nodes, profiles, streams)| Scenario {
            capacities,
            classes: ["cpu", "read", "write"].map(String::from).to_vec(),
            nodes,
            profiles,
            streams: streams
                .into_iter()
                .map(|(node, start_s, launches, repeat)| Stream {
                    node,
                    start_s,
                    launches,
                    repeat,
                })
                .collect(),
        })
}

fn amount(scenario: &Scenario, class: usize) -> f64 {
    let of_profile = |profile: &usize| -> f64 {
        let activities = scenario.profiles[*profile].iter().flatten();
        activities
            .filter(|a| a.class == class)
            .map(|a| a.amount)
            .sum()
    };
    let streams = scenario.streams.iter();
    streams
        .map(|s| s.repeat as f64 * s.launches.iter().map(of_profile).sum::<f64>())
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn it_equals_the_plain_simulation(scenario in scenario()) {
        let outcome = run(&scenario, &exact());
        for (launch, (start, end)) in plain(&scenario).into_iter().enumerate() {
            let (s, e) = (outcome.start_s[launch], outcome.end_s[launch]);
            prop_assert!((s - start).abs() <= 1e-6 * start.max(1.0), "launch {launch} starts {s}, not {start}");
            prop_assert!((e - end).abs() <= 1e-6 * end.max(1.0), "launch {launch} ends {e}, not {end}");
        }
    }

    #[test]
    fn an_end_is_that_of_the_simulation_and_late_is_what_ends_later(scenario in scenario(), part in 0.3..1.5_f64) {
        let outcome = run(&scenario, &exact());
        let expected = outcome.end_s.iter().copied().fold(0.0, f64::max);
        prop_assert_eq!(end(&scenario, f64::INFINITY, &mut || false), Ok((expected, outcome.events)));
        match end(&scenario, expected * part, &mut || false) {
            Ok((end, events)) => {
                prop_assert!(expected <= expected * part, "{} is later than {}", end, expected * part);
                prop_assert_eq!((end, events), (expected, outcome.events));
            }
            Err(failure) => {
                prop_assert!(matches!(failure, Failure::Late(events) if events <= outcome.events));
                prop_assert!(expected > expected * part, "{} is in time", expected);
            }
        }
    }

    #[test]
    fn all_real_time_has_a_cause(scenario in scenario()) {
        let outcome = run(&scenario, &exact());
        for (launch, waits) in outcome.waits.iter().enumerate() {
            let real = outcome.end_s[launch] - outcome.start_s[launch];
            let sum: f64 = waits.iter().map(|wait| wait.seconds).sum();
            prop_assert!((real - sum).abs() <= 1e-9 * outcome.end_s[launch].max(1.0), "{sum} of {real}");
        }
    }

    #[test]
    fn rates_over_time_add_up_to_the_amounts(scenario in scenario()) {
        let watched: Vec<usize> = (0..scenario.capacities.len()).collect();
        let outcome = run(&scenario, &Options { watched, ..exact() });
        for (class, rates) in outcome.class_rates.iter().enumerate() {
            let sum: f64 = rates.iter().map(|rate| rate * outcome.bin_s).sum();
            let amount = amount(&scenario, class);
            prop_assert!((sum - amount).abs() <= 1e-6 * amount.max(1.0), "{sum} of {amount}");
        }
        let end = outcome.end_s.iter().copied().fold(0.0, f64::max);
        for (resource, rates) in outcome.watched_rates.iter().enumerate() {
            let sum: f64 = rates.iter().map(|rate| rate * outcome.bin_s).sum();
            let taken = outcome.taken[resource];
            prop_assert!((sum - taken).abs() <= 1e-6 * taken.max(1.0), "{sum} of {taken}");
            prop_assert!(taken <= scenario.capacities[resource] * end * (1.0 + 1e-9));
        }
    }
}

#[allow(clippy::unnecessary_wraps)] // as a node has it
fn route(uses: &[(usize, f64)]) -> Option<Route> {
    let (uses, cap) = (uses.to_vec(), f64::INFINITY);
    Some(Route { uses, cap })
}

fn work(class: usize, amount: f64, cap: f64) -> Activity {
    Activity {
        class,
        amount,
        cap,
        weight: 1.0,
    }
}

fn stream(node: usize, start_s: f64, launches: &[usize], repeat: usize) -> Stream {
    Stream {
        node,
        start_s,
        launches: launches.to_vec(),
        repeat,
    }
}

/// One node with 2 cores and a disk of 100 bytes per second.
fn one_node(profiles: Vec<Vec<Vec<Activity>>>, streams: Vec<Stream>) -> Scenario {
    Scenario {
        capacities: vec![2.0, 100.0],
        classes: vec!["cpu".into(), "read".into()],
        nodes: vec![vec![route(&[(0, 1.0)]), route(&[(1, 1.0)])]],
        profiles,
        streams,
    }
}

#[test]
fn a_phase_ends_with_its_slowest_activity_and_phases_follow_each_other() {
    let profile = vec![
        vec![work(0, 3.0, 1.0), work(1, 200.0, f64::INFINITY)],
        vec![work(1, 400.0, f64::INFINITY)],
    ];
    let outcome = run(
        &one_node(vec![profile], vec![stream(0, 1.0, &[0], 2)]),
        &exact(),
    );
    assert_eq!(outcome.start_s, [1.0, 8.0]);
    assert_eq!(outcome.end_s, [8.0, 15.0]);
    let waits: Vec<_> = outcome.waits[0]
        .iter()
        .map(|w| (w.class, w.bound_by, w.seconds))
        .collect();
    assert_eq!(waits, [(0, None, 3.0), (1, Some(1), 4.0)]);
    assert_eq!(outcome.taken, [6.0, 1200.0]);
    assert_eq!(outcome.events, 6);
}

#[test]
fn three_threads_on_two_cores_take_half_as_long_again() {
    let streams = (0..3).map(|_| stream(0, 0.0, &[0], 1)).collect();
    let outcome = run(
        &one_node(vec![vec![vec![work(0, 4.0, 1.0)]]], streams),
        &exact(),
    );
    assert_eq!(outcome.end_s, [6.0, 6.0, 6.0]);
    assert_eq!(outcome.waits[0][0].bound_by, Some(0));
}

#[test]
fn a_launch_with_nothing_to_do_takes_no_time() {
    let profiles = vec![vec![], vec![vec![], vec![work(0, 0.0, 1.0)]]];
    let outcome = run(
        &one_node(profiles, vec![stream(0, 5.0, &[0, 1], 3)]),
        &exact(),
    );
    assert_eq!(outcome.start_s, [5.0; 6]);
    assert_eq!(outcome.end_s, [5.0; 6]);
    assert_eq!(outcome.events, 0);
}

#[test]
fn very_different_amounts_end() {
    let profile = vec![vec![
        work(1, 1e-90, 1.0),
        work(1, 1e12, f64::INFINITY),
        work(0, 1e-12, 1e90),
    ]];
    let outcome = run(
        &one_node(vec![profile], vec![stream(0, 1e6, &[0], 3)]),
        &exact(),
    );
    assert!((outcome.end_s[2] - (1e6 + 3e10)).abs() < 1.0);
}

#[test]
fn it_stops_when_told() {
    let scenario = one_node(
        vec![vec![vec![work(0, 1.0, 1.0)]]],
        vec![stream(0, 0.0, &[0], 1000)],
    );
    let mut asked = 0;
    let stopped = simulate(&scenario, &exact(), &mut || {
        asked += 1;
        asked > 10
    });
    assert_eq!(stopped, Err(Failure::Stopped));
    assert_eq!(asked, 11);
}

#[test]
fn what_cannot_be_simulated_is_named() {
    let mut scenario = one_node(
        vec![vec![vec![work(0, -1.0, 1.0), work(7, 1.0, f64::NAN)]]],
        vec![stream(4, f64::INFINITY, &[9], 1)],
    );
    scenario.nodes[0][1] = route(&[(5, 0.0)]);
    let Err(Failure::Input(text)) = simulate(&scenario, &exact(), &mut || false) else {
        panic!("it was simulated");
    };
    for part in [
        "an amount in phase 0 of profile 0 is -1",
        "is of class 7, but there are 2",
        "a cap in phase 0 of profile 0 is NaN",
        "stream 0 runs on node 4, but there are 1",
        "start of stream 0 is inf",
        "stream 0 launches profile 9, but there are 1",
        "read on node 0 uses resource 5, but there are 2",
        "coefficient of read on node 0 on resource 5 is 0",
    ] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
}

#[test]
fn work_without_a_route_or_a_bound_is_named() {
    let profile = vec![vec![
        work(0, 1.0, f64::INFINITY),
        work(1, 1.0, f64::INFINITY),
    ]];
    let mut scenario = one_node(vec![profile], vec![stream(0, 0.0, &[0], 1)]);
    scenario.capacities[0] = f64::INFINITY;
    scenario.nodes[0][1] = None;
    let Err(Failure::Input(text)) = simulate(&scenario, &exact(), &mut || false) else {
        panic!("it was simulated");
    };
    assert!(text.contains("nothing bounds cpu on node 0"), "{text}");
    assert!(
        text.contains("profile 0 does read on node 0, which has no route for it"),
        "{text}"
    );
}

#[test]
fn what_cannot_end_in_time_is_known_before_the_end() {
    let launches = vec![vec![vec![work(0, 10.0, f64::INFINITY)]]];
    let scenario = |streams: usize| Scenario {
        capacities: vec![1.0],
        classes: vec!["cpu".into()],
        nodes: vec![vec![route(&[(0, 1.0)])]],
        profiles: launches.clone(),
        streams: vec![stream(0, 0.0, &[0], 10); streams],
    };
    let until = |streams: usize, until_s: f64| end(&scenario(streams), until_s, &mut || false);
    assert_eq!(
        until(1, 99.0),
        Err(Failure::Late(0)),
        "a stream alone is too long"
    );
    assert_eq!(
        until(2, 150.0),
        Err(Failure::Late(0)),
        "all together are too much"
    );
    assert_eq!(until(2, 200.0), Ok((200.0, 20)));
}
