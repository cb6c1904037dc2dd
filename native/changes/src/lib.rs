//! A walk through a tree of files in threads: each name with its status, streamed in batches.

pub mod below;
pub mod entry;
pub mod walk;
