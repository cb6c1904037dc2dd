//! Layouts of Lustre files: one attribute decoded, and scans of directories.

use gridwright_layout::attribute::decode;
use gridwright_layout::scan::{Request, Scan};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::time::Duration;

/// The layout in an attribute, as a JSON document; `ValueError` says why it is none.
#[pyfunction]
pub fn decode_layout(attribute: &[u8]) -> PyResult<String> {
    let layout = decode(attribute).map_err(|refusal| PyValueError::new_err(refusal.text()))?;
    serde_json::to_string(&layout).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// A scan that goes on in threads of its own.
#[pyclass(module = "gridwright._native", frozen)]
pub struct LayoutScan(Scan);

#[pymethods]
impl LayoutScan {
    /// Starts a scan of directories for at most `limit_s` seconds; files of at least `list_from` bytes are
    /// listed to be taken.
    #[new]
    #[pyo3(signature = (directories, attributes, threads, keep, limit_s, list_from=None))]
    fn new(
        py: Python<'_>,
        directories: Vec<PathBuf>,
        attributes: Vec<String>,
        threads: usize,
        keep: usize,
        limit_s: f64,
        list_from: Option<u64>,
    ) -> PyResult<Self> {
        let limit = seconds(limit_s)?;
        let request = Request {
            directories,
            attributes,
            threads,
            keep,
            limit,
            list_from,
        };
        py.detach(|| Scan::start(request))
            .map(Self)
            .map_err(Into::into)
    }

    /// Waits until it has ended or `seconds` are over; says whether it has ended.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let span = self::seconds(seconds)?;
        Ok(py.detach(|| self.0.wait(span)))
    }

    /// The files that were listed since the last time, as a JSON document.
    fn take(&self, py: Python<'_>) -> PyResult<String> {
        let files = py.detach(|| self.0.take());
        serde_json::to_string(&files).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }

    /// Ends it soon.
    fn stop(&self) {
        self.0.stop();
    }

    /// What it found, as a JSON document; it is stopped where it still goes on.
    fn summary(&self, py: Python<'_>) -> PyResult<String> {
        let found = py.detach(|| self.0.summary());
        serde_json::to_string(&found).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }
}

fn seconds(number: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(number).map_err(|e| PyValueError::new_err(e.to_string()))
}
