//! The guard of a job, and the launcher that forks one for each job.
//!
//! A guard starts its job, holds it to its limits, and waits until nothing is left of it: it is the subreaper
//! of all that descends from the job, and where there are control groups the job has one of its own. It writes
//! how the job ended into a record that has its room on the disk before the job starts, so that neither the
//! death of whoever ordered the job nor a full disk loses it.
//!
//! None of these processes has threads, and none returns to the program that called [`launcher::run`].

pub mod group;
pub mod guard;
pub mod launcher;
pub mod order;
pub mod record;
pub mod start;
pub mod system;
pub mod tree;
