//! One night of launches on many grids, for Python; see `gridwright.model.simulate.Nights`.

use crate::flow::index;
use crate::simulation::{ProfileColumns, RouteColumns, profile, routes, signals};
use gridwright_flow::scenario::{Scenario, Stream};
use gridwright_flow::simulate::{Failure, end};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// Launches in streams, which are kept; a grid is put below them for each simulation.
#[pyclass(module = "gridwright._native", frozen)]
pub(crate) struct Nights(Mutex<Scenario>);

#[pymethods]
impl Nights {
    /// The classes of activities, what launches do, and the launches of each stream.
    #[new]
    fn new(
        classes: Vec<String>,
        profiles: Vec<ProfileColumns>,
        streams: Vec<Vec<i64>>,
    ) -> PyResult<Self> {
        let stream = |(number, launches): (usize, Vec<i64>)| {
            let what = format!("stream {number} launches profile");
            let launches = launches.into_iter().map(|launch| index(&what, launch));
            Ok(Stream {
                node: 0,
                start_s: 0.0,
                launches: launches.collect::<PyResult<_>>()?,
                repeat: 1,
            })
        };
        let profiles = profiles.into_iter().enumerate();
        Ok(Self(Mutex::new(Scenario {
            classes,
            profiles: profiles
                .map(|(n, phases)| profile(phases, n))
                .collect::<PyResult<_>>()?,
            streams: streams
                .into_iter()
                .enumerate()
                .map(stream)
                .collect::<PyResult<_>>()?,
            ..Scenario::default()
        })))
    }

    /// When the last launch ends on a grid, with the node of each stream; nothing where that is
    /// later than `until_s`; and how many activities ended until that was known.
    fn end_s(
        &self,
        py: Python<'_>,
        capacities: Vec<f64>,
        nodes: Vec<Vec<Option<RouteColumns>>>,
        places: Vec<i64>,
        until_s: f64,
    ) -> PyResult<(Option<f64>, u64)> {
        let nodes = routes(nodes)?;
        let places = places.into_iter().enumerate();
        let places = places
            .map(|(stream, node)| index(&format!("stream {stream} runs on node"), node))
            .collect::<PyResult<Vec<usize>>>()?;
        let mut signal = Ok(());
        let ended = py.detach(|| {
            let mut scenario = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if places.len() != scenario.streams.len() {
                let (streams, places) = (scenario.streams.len(), places.len());
                return Err(Failure::Input(format!(
                    "{places} nodes for {streams} streams"
                )));
            }
            scenario.capacities = capacities;
            scenario.nodes = nodes;
            for (stream, node) in scenario.streams.iter_mut().zip(places) {
                stream.node = node;
            }
            end(&scenario, until_s, &mut signals(&mut signal))
        });
        signal?;
        match ended {
            Ok((end, events)) => Ok((Some(end), events)),
            Err(Failure::Late(events)) => Ok((None, events)),
            Err(Failure::Input(problems)) => Err(PyValueError::new_err(problems)),
            Err(Failure::Stopped) => unreachable!("it stops for a signal, which is an error"),
        }
    }
}
