//! The launcher of jobs for Python: one call that does not come back before its work is done.

use gridwright_guard::group::Places;
use gridwright_guard::launcher::{Surroundings, run};
use pyo3::prelude::*;

/// Forks guards, which start jobs; see `gridwright.schedulers.local.launcher`. The calling process must have no
/// other thread. Control groups of version 2 are made in `unified`, for memory too if `unified_memory`, and those
/// of the memory controller of version 1 in `memory`; an empty string stands for none.
#[pyfunction]
#[pyo3(signature = (calls, answers, records, lock, unified, unified_memory, memory))]
pub fn run_launcher(
    calls: i32,
    answers: i32,
    records: i32,
    lock: i32,
    unified: String,
    unified_memory: bool,
    memory: String,
) {
    let places = Places {
        unified,
        unified_memory,
        memory,
    };
    run(Surroundings {
        calls,
        answers,
        records,
        lock,
        places,
    });
}
