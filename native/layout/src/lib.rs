//! Layouts of Lustre files, read from their extended attribute without a process for each file.

pub mod attribute;
pub mod bytes;
pub mod scan;
pub mod tally;
mod walk;
