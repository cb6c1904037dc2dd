//! A walk through a tree of files, as Python iterates over it.

use gridwright_changes::below::open_directory;
use gridwright_changes::entry::Entry;
use gridwright_changes::walk::{Batch, MOST_WAITING, Next, Request, Trouble, Walk};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The status of a name, not followed, under the names that `os.stat_result` has.
#[pyclass(module = "gridwright._native", frozen)]
pub struct WalkedFile(Entry);

#[pymethods]
impl WalkedFile {
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.path)
    }
    #[getter]
    fn st_mode(&self) -> u32 {
        self.0.mode
    }
    #[getter]
    fn st_ino(&self) -> u64 {
        self.0.inode
    }
    #[getter]
    fn st_dev(&self) -> u64 {
        self.0.device
    }
    #[getter]
    fn st_rdev(&self) -> u64 {
        self.0.special
    }
    #[getter]
    fn st_nlink(&self) -> u32 {
        self.0.links
    }
    #[getter]
    fn st_uid(&self) -> u32 {
        self.0.uid
    }
    #[getter]
    fn st_gid(&self) -> u32 {
        self.0.gid
    }
    #[getter]
    fn st_size(&self) -> u64 {
        self.0.size
    }
    #[getter]
    fn st_blocks(&self) -> u64 {
        self.0.blocks
    }
    #[getter]
    fn st_atime_ns(&self) -> i128 {
        self.0.atime_ns
    }
    #[getter]
    fn st_mtime_ns(&self) -> i128 {
        self.0.mtime_ns
    }
    #[getter]
    fn st_ctime_ns(&self) -> i128 {
        self.0.ctime_ns
    }
}

/// Files, and directories that could not be walked through: path, and an errno or `None` for another file system.
type Batched<'py> = (Vec<WalkedFile>, Vec<(Bound<'py, PyBytes>, Option<i32>)>);

/// A walk that goes on in threads of its own.
#[pyclass(module = "gridwright._native", frozen)]
pub struct TreeWalk(Walk);

#[pymethods]
impl TreeWalk {
    /// Starts a walk below the open directory `root`; `OSError` where it cannot be begun.
    #[new]
    fn new(
        py: Python<'_>,
        root: i32,
        chosen: Vec<Vec<u8>>,
        without_prefix: Vec<u8>,
        without_in_root: Vec<u8>,
        threads: usize,
    ) -> PyResult<Self> {
        if root < 0 {
            return Err(PyValueError::new_err("no open directory"));
        }
        py.detach(|| {
            // SAFETY: the caller keeps its descriptor open during this call; the walk has one of its own.
            let root = unsafe { BorrowedFd::borrow_raw(root) }.try_clone_to_owned()?;
            let root = open_directory(&root, b"")?;
            Walk::start(Request {
                root,
                chosen,
                without_prefix,
                without_in_root,
                threads,
                most_waiting: MOST_WAITING,
            })
        })
        .map(Self)
        .map_err(|error| match error.raw_os_error() {
            Some(errno) => PyOSError::new_err((errno, error.to_string())),
            None => PyOSError::new_err(error.to_string()),
        })
    }

    /// The next batch; an empty one where `seconds` are over before, and `None` when all was told.
    fn next<'py>(&self, py: Python<'py>, seconds: f64) -> PyResult<Option<Batched<'py>>> {
        let span = Duration::try_from_secs_f64(seconds)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let batch = match py.detach(|| self.0.next(span)) {
            Next::Ended => return Ok(None),
            Next::Waiting => Batch::default(),
            Next::Some(batch) => batch,
        };
        let troubles = batch.troubles.iter().map(|(path, trouble)| {
            let errno = match trouble {
                Trouble::Unread(errno) => Some(*errno),
                Trouble::OtherFileSystem => None,
            };
            (PyBytes::new(py, path), errno)
        });
        let troubles = troubles.collect();
        let files = batch.entries.into_iter().map(WalkedFile).collect();
        Ok(Some((files, troubles)))
    }

    /// Where a thread has been for longest, and for how many seconds; `None` where none is under way.
    fn slowest<'py>(&self, py: Python<'py>) -> Option<(Bound<'py, PyBytes>, f64)> {
        let (path, span) = self.0.slowest()?;
        Some((PyBytes::new(py, &path), span.as_secs_f64()))
    }

    /// Ends it soon.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }
}
