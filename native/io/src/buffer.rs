//! Page-aligned memory for blocks, as direct I/O needs it.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr::NonNull;
use std::slice;

/// A zeroed, page-aligned buffer, returned to the kernel when dropped.
pub struct Buffer {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the buffer owns its pages; nothing else points at them.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Maps `length` bytes and touches every page, so that no page fault falls into a timed call.
    pub fn new(length: usize) -> io::Result<Self> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::POPULATE,
            )?
        };
        let start = NonNull::new(start.cast())
            .ok_or_else(|| io::Error::other("the kernel mapped a buffer at address 0"))?;
        Ok(Self { start, length })
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `length` initialised bytes as long as `self` lives.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// The bytes, to be written to.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `bytes`; `&mut self` makes the access exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    /// Where the buffer starts, for requests that the kernel carries out later.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length and is used by nobody any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}
