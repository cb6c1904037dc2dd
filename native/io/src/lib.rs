//! The I/O engine of Gridwright.
//!
//! A [`phase::Phase`] runs one thread per stream, one file per stream, all started on a gate, and
//! reports rates, latencies, CPU time and how much of what it read lay in the page cache.

pub mod ahead;
pub mod buffer;
pub mod cache;
pub mod config;
pub mod failure;
pub mod file;
pub mod gate;
pub mod metadata;
pub mod null;
pub mod outcome;
pub mod path_text;
pub mod pattern;
pub mod phase;
pub mod positioned;
pub mod progress;
pub mod stalls;
pub mod stream;
pub mod uring;
pub mod usage;
