//! The launcher of jobs for Python: one call that does not come back before its work is done.

use gridwright_guard::group::Places;
use gridwright_guard::launcher::{Surroundings, run};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

/// Forks guards, which start jobs; see `gridwright.schedulers.local.launcher`. The calling process must have no
/// other thread. `files` are calls, answers, records and lock. `places` are where control groups are made: of
/// version 2, whether these also hold memory, and of the memory controller of version 1; an empty string stands
/// for none. `runner` is the command of a runner, as far as the number of the file `runner_lock`.
#[pyfunction]
#[pyo3(signature = (files, places, runner_lock, runner))]
pub fn run_launcher(
    files: [i32; 4],
    places: (String, bool, String),
    runner_lock: PathBuf,
    runner: Vec<OsString>,
) {
    let [calls, answers, records, lock] = files;
    let (unified, unified_memory, memory) = places;
    run(Surroundings {
        calls,
        answers,
        records,
        lock,
        runner_lock,
        runner,
        places: Places {
            unified,
            unified_memory,
            memory,
        },
    });
}
