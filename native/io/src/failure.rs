//! What went wrong, with the call, the file and the place.

use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// A call that failed. The Python side turns `errno` into advice.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Failure {
    /// The operation: `open`, `write`, `read`, `fsync`, …
    pub op: &'static str,
    /// The file.
    #[serde(with = "crate::path_text")]
    pub path: PathBuf,
    /// Where in the file, if the call had a place.
    pub offset: Option<u64>,
    /// The number of the error, see errno(3); 0 if the kernel gave none.
    pub errno: i32,
    /// The system's text for it.
    pub message: String,
}

impl Failure {
    /// Wraps an error of `op` on `path`.
    #[must_use]
    pub fn new(op: &'static str, path: &Path, offset: Option<u64>, error: &io::Error) -> Self {
        Self {
            op,
            path: path.to_owned(),
            offset,
            errno: error.raw_os_error().unwrap_or(0),
            message: error.to_string(),
        }
    }
}

/// Bytes read that are not the bytes written.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Mismatch {
    /// The file.
    #[serde(with = "crate::path_text")]
    pub path: PathBuf,
    /// Offset of the first wrong byte.
    pub offset: u64,
    /// Length of the wrong range within its block.
    pub length: u64,
}

/// How a stream ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// A call failed.
    Failed(Failure),
    /// Verification found wrong bytes.
    Mismatched(Mismatch),
    /// Another stream failed before this one started.
    Aborted,
}
