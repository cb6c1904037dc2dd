//! Files of processes that are read again and again: they stay open as long as descriptors are left.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many more files may stay open.
#[derive(Clone)]
pub struct Budget(Arc<AtomicUsize>);

impl Budget {
    /// One `part`-th of what this process may open, at most `most`: a quarter is left for all else that it does
    /// where one budget is half, and another one a quarter.
    #[must_use]
    pub fn of_this_process(most: usize, part: u64) -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let share = limit.map_or(most, |limit| usize::try_from(limit / part).unwrap_or(most));
        Self(Arc::new(AtomicUsize::new(share.min(most))))
    }

    fn take(&self) -> bool {
        let taken = |left: usize| left.checked_sub(1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken)
            .is_ok()
    }
}

/// A file that is read from its beginning each time.
///
/// An open file of `/proc/PID` is of that process alone: when it has ended it says so (ESRCH), whoever has its
/// number then. Files of Lustre are not kept open: an open one holds its module.
pub struct Kept {
    path: PathBuf,
    file: Option<File>,
    budget: Budget,
}

impl Kept {
    /// A file that is opened when it is read first.
    #[must_use]
    pub fn new(path: PathBuf, budget: &Budget) -> Self {
        Self {
            path,
            file: None,
            budget: budget.clone(),
        }
    }

    /// All that the file says now, up to the size of `buffer`.
    pub fn read<'a>(&mut self, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        if let Some(file) = &self.file {
            let count = file.read_at(buffer, 0)?;
            return Ok(&buffer[..count]);
        }
        let mut file = File::open(&self.path)?;
        let count = file.read(buffer)?;
        if self.budget.take() {
            self.file = Some(file);
        }
        Ok(&buffer[..count])
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.file.is_some() {
            self.budget.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}
