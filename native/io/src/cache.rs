//! How much of a file lies in the page cache, and how to get it out.

use crate::config::StreamConfig;
use rustix::fs::Advice;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

/// cachestat(2), Linux 6.5; the same number on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;
/// mincore(2) is asked about this many bytes at a time.
const WINDOW: u64 = 1 << 30;

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// `struct cachestat` of linux/mman.h.
#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Writes the file's dirty pages and asks the kernel to drop those of the stream's part: of a
/// shared file, others may be reading theirs.
pub fn flush_and_evict(file: &File, stream: &StreamConfig) -> io::Result<()> {
    file.sync_data()?;
    let length = if stream.shared {
        NonZeroU64::new(stream.file_bytes)
    } else {
        None
    };
    rustix::fs::fadvise(file, stream.base, length, Advice::DontNeed)?;
    Ok(())
}

/// The part of `bytes` of the file from `base` on that is in the page cache, 0 to 1; by
/// cachestat(2), else by mincore(2). `None` where neither answers.
#[must_use]
pub fn resident_fraction(file: &File, base: u64, bytes: u64) -> Option<f64> {
    if bytes == 0 {
        return None;
    }
    let page = rustix::param::page_size() as u64;
    let pages = bytes.div_ceil(page);
    let cached =
        cached_pages(file, base, bytes).or_else(|_| resident_pages(file, base, bytes, page));
    cached
        .ok()
        .map(|cached| (cached as f64 / pages as f64).min(1.0))
}

fn cached_pages(file: &File, base: u64, bytes: u64) -> io::Result<u64> {
    cache_stat(file.as_raw_fd(), base, bytes).map(|stat| stat.cached)
}

/// Pages of an open file that no device or server has yet: dirty, or on their way. `None` where the kernel has no
/// cachestat(2), which asks the page cache alone and hangs on no file system.
#[must_use]
pub fn unwritten_pages(file: RawFd) -> Option<u64> {
    // To the end of the file.
    cache_stat(file, 0, 0)
        .ok()
        .map(|stat| stat.dirty + stat.writeback)
}

fn cache_stat(file: RawFd, base: u64, bytes: u64) -> io::Result<CacheStat> {
    let range = Range {
        offset: base,
        length: bytes,
    };
    let mut stat = CacheStat::default();
    // SAFETY: both structs have the kernel's layout and live through the call.
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, file, &raw const range, &raw mut stat, 0u32) };
    if result == 0 {
        Ok(stat)
    } else {
        Err(io::Error::last_os_error())
    }
}

fn resident_pages(file: &File, base: u64, bytes: u64, page: u64) -> io::Result<u64> {
    let mut resident = 0;
    let mut offset: u64 = 0;
    while offset < bytes {
        let length = WINDOW.min(bytes - offset) as usize;
        let mut flags = vec![0u8; (length as u64).div_ceil(page) as usize];
        // SAFETY: a new shared read-only mapping that is never read, only asked about.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                libc::off_t::try_from(base + offset).map_err(io::Error::other)?,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping covers `length` bytes and `flags` has one byte for each page of it.
        let result = unsafe { libc::mincore(start, length, flags.as_mut_ptr()) };
        let error = io::Error::last_os_error();
        // SAFETY: the mapping was made above and nobody else knows it.
        unsafe { libc::munmap(start, length) };
        if result != 0 {
            return Err(error);
        }
        resident += flags.iter().filter(|flag| **flag & 1 == 1).count() as u64;
        offset += length as u64;
    }
    Ok(resident)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Role;
    use std::io::Write;

    fn part(base: u64, file_bytes: u64, shared: bool) -> StreamConfig {
        StreamConfig {
            role: Role::Read,
            path: "part".into(),
            file: 0,
            file_bytes,
            base,
            shared,
        }
    }

    #[test]
    fn both_ways_of_asking_agree_and_eviction_is_seen() {
        let bytes = 8 << 20;
        let mut file = tempfile::tempfile_in(".").unwrap();
        file.write_all(&vec![1; bytes]).unwrap();
        let page = rustix::param::page_size() as u64;
        let by_mincore = resident_pages(&file, 0, bytes as u64, page).unwrap();
        assert_eq!(by_mincore, bytes as u64 / page);
        if let Ok(by_cachestat) = cached_pages(&file, 0, bytes as u64) {
            assert_eq!(by_cachestat, by_mincore);
        }
        flush_and_evict(&file, &part(0, bytes as u64, false)).unwrap();
        let fraction = resident_fraction(&file, 0, bytes as u64).unwrap();
        assert!(fraction < 0.05, "{fraction} of the file is still cached");
    }

    #[test]
    fn pages_of_a_file_are_unwritten_until_its_own_fsync_whatever_others_write() {
        let bytes = 8 << 20;
        let mut file = tempfile::tempfile_in(".").unwrap();
        let mut other = tempfile::tempfile_in(".").unwrap();
        file.write_all(&vec![1; bytes]).unwrap();
        let Some(unwritten) = unwritten_pages(file.as_raw_fd()) else {
            return; // Linux before 6.5.
        };
        assert!(unwritten > 0);
        file.sync_all().unwrap();
        other.write_all(&vec![1; bytes]).unwrap();
        assert_eq!(unwritten_pages(file.as_raw_fd()), Some(0));
    }

    #[test]
    fn of_a_shared_file_only_the_streams_own_part_is_evicted() {
        let half = 4 << 20;
        let mut file = tempfile::tempfile_in(".").unwrap();
        file.write_all(&vec![1; 2 * half]).unwrap();
        let half = half as u64;
        flush_and_evict(&file, &part(half, half, true)).unwrap();
        assert!(resident_fraction(&file, 0, half).unwrap() > 0.95);
        assert!(resident_fraction(&file, half, half).unwrap() < 0.05);
    }
}
