//! Opening a stream's file, and allocating its space ahead of direct writes.

use crate::cache;
use crate::config::{Role, StreamConfig};
use crate::failure::{Failure, Halt};
use rustix::fs::FallocateFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// Space is allocated in steps of this many bytes where a stream's end is not known.
const STEP: u64 = 1 << 30;

/// Wraps an error of a stream's file.
#[must_use]
pub fn failed(op: &'static str, stream: &StreamConfig, offset: Option<u64>, e: &io::Error) -> Halt {
    Halt::Failed(Failure::new(op, &stream.path, offset, e))
}

/// Opens the stream's file: emptied or new for writing, or a shared one as it is; flushed, evicted and at least
/// `file_bytes` long for reading.
pub fn open(stream: &StreamConfig, direct: bool) -> Result<File, Halt> {
    let mut flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
    if direct {
        flags |= libc::O_DIRECT;
    }
    let mut options = OpenOptions::new();
    options.custom_flags(flags).mode(0o600);
    match stream.role {
        // A shared file is there, made by one node: where several nodes make one at a time,
        // clients through FUSE answer EEXIST. Others may have allocated its space by now.
        Role::Write if stream.shared => options.write(true),
        Role::Write => options.write(true).create(true).truncate(true),
        Role::Read | Role::Metadata => options.read(true),
    };
    let file = options
        .open(&stream.path)
        .map_err(|e| failed("open", stream, None, &e))?;
    if stream.role == Role::Read {
        let length = file
            .metadata()
            .map_err(|e| failed("stat", stream, None, &e))?
            .len();
        if length < stream.end() {
            return Err(ended_early(stream, length));
        }
        cache::flush_and_evict(&file, stream).map_err(|e| failed("evict", stream, None, &e))?;
    }
    Ok(file)
}

/// The file ends before the bytes it should have.
#[must_use]
pub fn ended_early(stream: &StreamConfig, at: u64) -> Halt {
    let message = format!("the file ends at byte {at} of {}", stream.end());
    failed("read", stream, Some(at), &io::Error::other(message))
}

/// Space allocated ahead of a stream of direct writes, so that they extend no file: an extending
/// direct write takes the inode's lock, and `io_uring` has to hand it to a worker.
/// Bytes are counted from where the stream's part of the file begins.
pub struct Allocation {
    until: u64,
    limit: u64,
    works: bool,
    base: u64,
    shared: bool,
}

impl Allocation {
    /// Allocates the first part: all of it where the end is known.
    pub fn new(file: &File, stream: &StreamConfig, bytes: Option<u64>) -> Result<Self, Halt> {
        let limit = bytes.map_or(stream.file_bytes, |bytes| bytes.min(stream.file_bytes));
        let first = if bytes.is_some() {
            limit
        } else {
            STEP.min(limit)
        };
        let mut allocation = Self {
            until: 0,
            limit,
            works: true,
            base: stream.base,
            shared: stream.shared,
        };
        allocation.extend(file, stream, first)?;
        Ok(allocation)
    }

    /// Whether the file system can allocate.
    #[must_use]
    pub fn works(&self) -> bool {
        self.works
    }

    /// Makes sure that the first `end` bytes are allocated.
    pub fn cover(&mut self, file: &File, stream: &StreamConfig, end: u64) -> Result<(), Halt> {
        if !self.works || end <= self.until {
            return Ok(());
        }
        self.extend(file, stream, (self.until + STEP).min(self.limit).max(end))
    }

    fn extend(&mut self, file: &File, stream: &StreamConfig, until: u64) -> Result<(), Halt> {
        let length = until - self.until;
        let from = self.base + self.until;
        match rustix::fs::fallocate(file, FallocateFlags::empty(), from, length) {
            Ok(()) => self.until = until,
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.works = false,
            Err(e) => return Err(failed("fallocate", stream, Some(from), &e.into())),
        }
        Ok(())
    }

    /// Gives back what was allocated beyond `bytes`; in a shared file another's part may follow.
    pub fn trim(&self, file: &File, bytes: u64) {
        if self.works && !self.shared && bytes < self.until {
            // The file is removed soon, or its size is stated in the manifest: not worth failing.
            let _ = file.set_len(bytes);
        }
    }
}

/// Empties a stream's file, or its part of a shared one, so that an fsync(2) has nothing to write.
pub fn discard(stream: &StreamConfig) {
    let Ok(file) = OpenOptions::new().write(true).open(&stream.path) else {
        return;
    };
    // What cannot be emptied is flushed: that takes its time.
    if stream.shared {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&file, hole, stream.base, stream.file_bytes);
    } else {
        let _ = file.set_len(0);
    }
}
