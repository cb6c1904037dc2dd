//! Counters that a kernel tells in files: what processes of each job used, what Lustre's servers count.
//!
//! A file is read whole, in one call for all that are wanted, so that a sample of hundreds of processes and
//! targets takes milliseconds. Nothing is changed, and no process is started.

pub mod job_stats;
pub mod kept;
pub mod processes;
pub mod stats;
pub mod table;
pub mod tally;
