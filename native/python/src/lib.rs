//! `gridwright._native`: the core crates for Python. Configurations and outcomes cross as JSON;
//! long calls release the interpreter.

mod changes;
mod checksum;
mod counters;
mod exchanges;
mod flow;
mod launcher;
mod layout;
mod manifest;
mod night;
mod readings;
mod receiving;
mod signing;
mod simulation;

use gridwright_io::config::PhaseConfig;
use gridwright_io::phase;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::time::Duration;

/// Elapsed seconds, bytes read, bytes written, metadata operations.
type Sample = (f64, u64, u64, u64);

fn sample(sample: phase::Sample) -> Sample {
    (
        sample.elapsed_s,
        sample.read_bytes,
        sample.written_bytes,
        sample.operations,
    )
}

/// A phase that runs in threads of its own.
#[pyclass(module = "gridwright._native", frozen)]
struct Phase(std::sync::Mutex<Option<phase::Phase>>);

impl Phase {
    fn with<T>(&self, act: impl FnOnce(&phase::Phase) -> T) -> PyResult<T> {
        let phase = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        phase
            .as_ref()
            .map(act)
            .ok_or_else(|| PyRuntimeError::new_err("the phase's result was taken"))
    }
}

#[pymethods]
impl Phase {
    /// Starts a phase; `config` is a JSON document, see `gridwright.iotest.engine`.
    #[new]
    fn new(py: Python<'_>, config: &str) -> PyResult<Self> {
        let config: PhaseConfig =
            serde_json::from_str(config).map_err(|e| PyValueError::new_err(e.to_string()))?;
        config.validate().map_err(PyValueError::new_err)?;
        let phase = py
            .detach(|| phase::Phase::start(config))
            .map_err(PyOSError::new_err_from)?;
        Ok(Self(std::sync::Mutex::new(Some(phase))))
    }

    /// Waits until all streams have ended or `seconds` are over; says whether all have ended.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let timeout = Duration::try_from_secs_f64(seconds)
            .map_err(|e| PyValueError::new_err(e.to_string()))?;
        py.detach(|| self.with(|phase| phase.wait(timeout)))
    }

    /// Whether all streams of a phase that is held wait to be let go.
    fn armed(&self) -> PyResult<bool> {
        self.with(phase::Phase::armed)
    }

    /// Lets the streams of a phase that is held go.
    fn open(&self) -> PyResult<()> {
        self.with(phase::Phase::open)
    }

    /// What all streams have done so far.
    fn progress(&self) -> PyResult<Sample> {
        self.with(|phase| sample(phase.progress()))
    }

    /// Whether a stream is in its closing fsync.
    fn syncing(&self) -> PyResult<bool> {
        self.with(phase::Phase::syncing)
    }

    /// Pages of files in their closing fsync that are not written yet, where the kernel tells.
    fn unwritten_pages(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        py.detach(|| self.with(phase::Phase::unwritten_pages))
    }

    /// The samples taken after the first `seen`.
    fn samples(&self, seen: usize) -> PyResult<Vec<Sample>> {
        self.with(|phase| phase.samples(seen).into_iter().map(sample).collect())
    }

    /// Ends the phase as if its time were up.
    fn finish(&self) -> PyResult<()> {
        self.with(phase::Phase::finish)
    }

    /// Stops the phase at once; with `discard`, files still being flushed are emptied.
    fn stop(&self, discard: bool) -> PyResult<()> {
        self.with(|phase| phase.stop(discard))
    }

    /// Takes what was measured, as a JSON document; the phase must have ended.
    fn result(&self, py: Python<'_>) -> PyResult<String> {
        if !self.with(|phase| phase.wait(Duration::ZERO))? {
            return Err(PyRuntimeError::new_err("the phase has not ended"));
        }
        let phase = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take()
            .ok_or_else(|| PyRuntimeError::new_err("the phase's result was taken"))?;
        let outcome = py
            .detach(|| phase.result())
            .map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
        serde_json::to_string(&outcome).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }
}

/// An `OSError` with its number, as Python's own calls raise it.
trait WithErrno {
    fn new_err_from(error: std::io::Error) -> PyErr;
}

impl WithErrno for PyOSError {
    fn new_err_from(error: std::io::Error) -> PyErr {
        match error.raw_os_error() {
            Some(errno) => Self::new_err((errno, error.to_string())),
            None => Self::new_err(error.to_string()),
        }
    }
}

/// The native part of Gridwright.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::Phase;
    #[pymodule_export]
    use super::changes::{TreeWalk, WalkedFile};
    #[pymodule_export]
    use super::checksum::{combine_crc64, crc64};
    #[pymodule_export]
    use super::counters::{JobProcesses, JobTally, ProcessTable, file_texts, lustre_stats};
    #[pymodule_export]
    use super::exchanges::SmallExchanges;
    #[pymodule_export]
    use super::flow::solve_flows;
    #[pymodule_export]
    use super::launcher::run_launcher;
    #[pymodule_export]
    use super::layout::{LayoutScan, decode_layout};
    #[pymodule_export]
    use super::manifest::{ManifestReader, ManifestWriter};
    #[pymodule_export]
    use super::night::Nights;
    #[pymodule_export]
    use super::readings::readings_json;
    #[pymodule_export]
    use super::receiving::{ask, break_off, connect, open_direct, receive_into_file};
    #[pymodule_export]
    use super::signing::signed_head;
    #[pymodule_export]
    use super::simulation::{Simulation, simulate_launches};

    /// Version of the native part; the package refuses another than its own.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
