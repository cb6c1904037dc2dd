//! Counters of processes and of Lustre's targets, for Python.

use gridwright_counters::processes::Processes;
use gridwright_counters::stats::read_stats;
use gridwright_counters::table::Table;
use gridwright_counters::tally::{Place, Row, Tally};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Name, ticks of CPU time, ticks of waiting, bytes read and written, whether these are known, the look in
/// which the counters began, pages of memory, processes in state D, process ids.
type JobRow = (String, u64, u64, u64, u64, bool, u32, u64, u32, Vec<u32>);

/// Follows the processes of jobs; see `gridwright.monitor.job_sources`.
#[pyclass(module = "gridwright._native", frozen)]
pub struct JobProcesses(Mutex<Processes>);

#[pymethods]
impl JobProcesses {
    #[allow(clippy::needless_pass_by_value)] // Python hands over what it extracted
    #[new]
    fn new(proc: PathBuf) -> Self {
        Self(Mutex::new(Processes::new(&proc)))
    }

    /// All jobs that can be seen now; `OSError` where there is no /proc.
    fn look(&self, py: Python<'_>) -> PyResult<Vec<JobRow>> {
        let jobs = py
            .detach(|| lock(&self.0).look())
            .map_err(|error| os_error(&error))?;
        Ok(jobs
            .into_iter()
            .map(|job| {
                let used = job.used;
                (
                    job.name,
                    used.ticks,
                    used.delay_ticks,
                    used.read,
                    used.written,
                    job.told,
                    job.since_look,
                    job.pages,
                    job.waiting,
                    job.pids,
                )
            })
            .collect())
    }
}

/// Its number, start, parent, name, whether it is of the kernel, ticks of its own and of children, pages, CPU, and
/// bytes read and written where they are known.
type ProcessRow = (
    u32,
    u64,
    u32,
    String,
    bool,
    u64,
    u64,
    u64,
    u32,
    Option<(u64, u64)>,
);

/// Reads all processes of a node; see `gridwright.interference.processes`.
#[pyclass(module = "gridwright._native", frozen)]
pub struct ProcessTable(Mutex<Table>);

#[pymethods]
impl ProcessTable {
    #[allow(clippy::needless_pass_by_value)] // Python hands over what it extracted
    #[new]
    fn new(proc: PathBuf, passing: Vec<String>) -> Self {
        Self(Mutex::new(Table::new(&proc, passing)))
    }

    /// All processes that can be seen now; `OSError` where there is no /proc.
    fn look(&self, py: Python<'_>) -> PyResult<Vec<ProcessRow>> {
        let rows = py
            .detach(|| lock(&self.0).look())
            .map_err(|error| os_error(&error))?;
        Ok(rows
            .into_iter()
            .map(|row| {
                (
                    row.pid,
                    row.started,
                    row.parent,
                    row.name,
                    row.kernel,
                    row.own_ticks,
                    row.children_ticks,
                    row.pages,
                    row.cpu,
                    row.moved,
                )
            })
            .collect())
    }
}

/// Component, file system or target, job or None for all others, begin in seconds since 1970, and bytes read
/// and written, reads, writes, other operations.
type TallyRow = (String, String, Option<String>, f64, [u64; 5]);

fn row(row: Row) -> TallyRow {
    let since_s = row.since_ns as f64 / 1e9;
    (row.component, row.of, row.job, since_s, row.figures)
}

/// Series of jobs, series of jobs on targets, targets that could not be read with why, rows not followed.
type TallyLook = (Vec<TallyRow>, Vec<TallyRow>, Vec<(String, String)>, usize);

/// Follows the jobs on Lustre's targets; see `gridwright.filesystems.lustre_client.served`.
#[pyclass(module = "gridwright._native", frozen)]
pub struct JobTally(Mutex<Tally>);

#[pymethods]
impl JobTally {
    #[new]
    fn new(most: usize) -> Self {
        Self(Mutex::new(Tally::new(most)))
    }

    /// Reads all places (component, file system, target, path) now, `now_s` since 1970.
    fn look(
        &self,
        py: Python<'_>,
        places: Vec<(String, String, String, PathBuf)>,
        now_s: f64,
    ) -> TallyLook {
        let places: Vec<Place> = places
            .into_iter()
            .map(|(component, filesystem, target, path)| Place {
                component,
                filesystem,
                target,
                path,
            })
            .collect();
        let look = py.detach(|| lock(&self.0).look(&places, (now_s * 1e9) as u64));
        (
            look.jobs.into_iter().map(row).collect(),
            look.pairs.into_iter().map(row).collect(),
            look.failed
                .into_iter()
                .map(|(target, error)| (target, error.to_string()))
                .collect(),
            look.unfollowed,
        )
    }
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Snapshot and start in seconds since 1970, operations with samples and sum, whether figures are cut.
type StatsRow = (Option<f64>, Option<f64>, Vec<(String, u64, u64)>, bool);

/// Reads the wanted operations of Lustre's `stats` files, all where none is named; None where one cannot be read.
#[allow(clippy::needless_pass_by_value)] // Python hands over what it extracted
#[pyfunction]
pub fn lustre_stats(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    wanted: Vec<String>,
) -> Vec<Option<StatsRow>> {
    let read = |path: &Path| {
        let stats = read_stats(path, &wanted).ok()?;
        let operations = stats.operations.into_iter();
        Some((
            stats.snapshot_s,
            stats.start_s,
            operations
                .map(|each| (each.name, each.samples, each.sum))
                .collect(),
            stats.cut,
        ))
    };
    py.detach(|| paths.iter().map(|path| read(path)).collect())
}

/// Reads small files whole; None where one cannot be read.
#[allow(clippy::needless_pass_by_value)] // Python hands over what it extracted
#[pyfunction]
pub fn file_texts(py: Python<'_>, paths: Vec<PathBuf>) -> Vec<Option<String>> {
    let read =
        |path: &PathBuf| Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned());
    py.detach(|| paths.iter().map(read).collect())
}

fn os_error(error: &std::io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(errno) => PyOSError::new_err((errno, error.to_string())),
        None => PyOSError::new_err(error.to_string()),
    }
}
