//! The simulation for Python; see `gridwright.model.simulate`.

use crate::flow::index;
use gridwright_flow::outcome::Outcome;
use gridwright_flow::scenario::{Activity, Route, Scenario, Stream};
use gridwright_flow::simulate::{Failure, Options, simulate};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::time::{Duration, Instant};

/// How often it is asked whether a signal came.
const SIGNALS: Duration = Duration::from_millis(50);

/// Uses and cap.
pub(crate) type RouteColumns = (Vec<(i64, f64)>, f64);
/// Class, amount, cap and weight of each activity of each phase.
pub(crate) type ProfileColumns = Vec<Vec<(i64, f64, f64, f64)>>;
/// Node, start, launches, repetitions.
type StreamColumns = (i64, f64, Vec<i64>, i64);

/// A scenario as Python's module packs it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Packed {
    capacities: Vec<f64>,
    classes: Vec<String>,
    nodes: Vec<Vec<Option<RouteColumns>>>,
    profiles: Vec<ProfileColumns>,
    streams: Vec<StreamColumns>,
}

fn route((uses, cap): RouteColumns, node: usize) -> PyResult<Route> {
    let what = format!("node {node} uses resource");
    let uses = uses
        .into_iter()
        .map(|(resource, c)| Ok((index(&what, resource)?, c)));
    let uses = uses.collect::<PyResult<_>>()?;
    Ok(Route { uses, cap })
}

pub(crate) fn profile(phases: ProfileColumns, number: usize) -> PyResult<Vec<Vec<Activity>>> {
    let what = format!("profile {number} has an activity of class");
    let activity = |(class, amount, cap, weight)| {
        Ok(Activity {
            class: index(&what, class)?,
            amount,
            cap,
            weight,
        })
    };
    let phases = phases.into_iter();
    phases
        .map(|phase| phase.into_iter().map(activity).collect())
        .collect()
}

fn stream((node, start_s, launches, repeat): StreamColumns, number: usize) -> PyResult<Stream> {
    let what = format!("stream {number} launches profile");
    let launches = launches.into_iter().map(|profile| index(&what, profile));
    Ok(Stream {
        node: index(&format!("stream {number} runs on node"), node)?,
        start_s,
        launches: launches.collect::<PyResult<_>>()?,
        repeat: index(&format!("stream {number} repeats its launches"), repeat)?,
    })
}

/// What activities use on each node.
pub(crate) fn routes(nodes: Vec<Vec<Option<RouteColumns>>>) -> PyResult<Vec<Vec<Option<Route>>>> {
    let nodes = nodes.into_iter().enumerate().map(|(number, routes)| {
        let routes = routes
            .into_iter()
            .map(|columns| columns.map(|r| route(r, number)).transpose());
        routes.collect()
    });
    nodes.collect()
}

/// Says whether a signal came, which `signal` then holds; it is looked for now and then.
pub(crate) fn signals(signal: &mut PyResult<()>) -> impl FnMut() -> bool {
    let mut asked = Instant::now();
    move || {
        if asked.elapsed() < SIGNALS {
            return false;
        }
        #[allow(clippy::redundant_closure_for_method_calls)] // the method alone is of one lifetime
        {
            *signal = Python::attach(|py| py.check_signals());
        }
        asked = Instant::now();
        signal.is_err()
    }
}

impl Packed {
    fn unpack(self) -> PyResult<Scenario> {
        let profiles = self.profiles.into_iter().enumerate();
        let streams = self.streams.into_iter().enumerate();
        Ok(Scenario {
            capacities: self.capacities,
            classes: self.classes,
            nodes: routes(self.nodes)?,
            profiles: profiles
                .map(|(n, phases)| profile(phases, n))
                .collect::<PyResult<_>>()?,
            streams: streams
                .map(|(n, columns)| stream(columns, n))
                .collect::<PyResult<_>>()?,
        })
    }
}

/// Columns of an outcome; those by launch and by wait as the machine's own doubles and 32-bit
/// integers.
#[pyclass(module = "gridwright._native", frozen, get_all)]
pub(crate) struct Simulation {
    start_s: Py<PyBytes>,
    end_s: Py<PyBytes>,
    /// Where the waits of each launch end.
    wait_ends: Py<PyBytes>,
    wait_class: Py<PyBytes>,
    /// A resource, or all bits set for a cap.
    wait_bound_by: Py<PyBytes>,
    wait_s: Py<PyBytes>,
    taken: Vec<f64>,
    bin_s: f64,
    class_rates: Vec<Vec<f64>>,
    watched_rates: Vec<Vec<f64>>,
    events: u64,
    solutions: u64,
}

fn column<const N: usize>(py: Python<'_>, values: impl Iterator<Item = [u8; N]>) -> Py<PyBytes> {
    let bytes: Vec<u8> = values.flatten().collect();
    PyBytes::new(py, &bytes).unbind()
}

impl Simulation {
    fn new(py: Python<'_>, outcome: Outcome) -> Self {
        let waits = || outcome.waits.iter().flatten();
        let mut end = 0_u32;
        let ends = outcome.waits.iter().map(|waits| {
            end += waits.len() as u32;
            end.to_ne_bytes()
        });
        Self {
            start_s: column(py, outcome.start_s.iter().map(|s| s.to_ne_bytes())),
            end_s: column(py, outcome.end_s.iter().map(|s| s.to_ne_bytes())),
            wait_ends: column(py, ends),
            wait_class: column(py, waits().map(|wait| wait.class.to_ne_bytes())),
            wait_bound_by: column(
                py,
                waits().map(|wait| wait.bound_by.unwrap_or(u32::MAX).to_ne_bytes()),
            ),
            wait_s: column(py, waits().map(|wait| wait.seconds.to_ne_bytes())),
            taken: outcome.taken,
            bin_s: outcome.bin_s,
            class_rates: outcome.class_rates,
            watched_rates: outcome.watched_rates,
            events: outcome.events,
            solutions: outcome.solutions,
        }
    }
}

/// Simulates launches; see `gridwright.model.simulate.simulate`.
#[pyfunction]
pub(crate) fn simulate_launches(
    py: Python<'_>,
    scenario: Packed,
    tolerance: f64,
    bins: i64,
    watched: Vec<i64>,
) -> PyResult<Simulation> {
    let scenario = scenario.unpack()?;
    let watched = watched
        .into_iter()
        .map(|resource| index("watched is resource", resource));
    let options = Options {
        tolerance,
        bins: index("bins is", bins)?,
        watched: watched.collect::<PyResult<_>>()?,
    };
    let mut signal = Ok(());
    let outcome = py.detach(|| simulate(&scenario, &options, &mut signals(&mut signal)));
    signal?;
    match outcome {
        Ok(outcome) => Ok(Simulation::new(py, outcome)),
        Err(Failure::Input(problems)) => Err(PyValueError::new_err(problems)),
        Err(Failure::Stopped | Failure::Late(_)) => {
            unreachable!("it stops for a signal, which is an error, and has no limit")
        }
    }
}
