//! What a walk tells of a name.

use rustix::fs::{Statx, StatxTimestamp, makedev};

/// A name below the root, and its status, not followed.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Below the root, without a leading slash; any bytes but NUL.
    pub path: Vec<u8>,
    /// `st_mode`, with the type.
    pub mode: u32,
    /// `st_uid`.
    pub uid: u32,
    /// `st_gid`.
    pub gid: u32,
    /// `st_size`, in bytes.
    pub size: u64,
    /// `st_blocks`, of 512 bytes.
    pub blocks: u64,
    /// Last access, in nanoseconds since 1970.
    pub atime_ns: i128,
    /// Last change of the content, in nanoseconds since 1970.
    pub mtime_ns: i128,
    /// Last change of content or attributes, in nanoseconds since 1970.
    pub ctime_ns: i128,
    /// `st_ino`.
    pub inode: u64,
    /// `st_nlink`.
    pub links: u32,
    /// `st_dev`.
    pub device: u64,
    /// `st_rdev`, of a device file.
    pub special: u64,
}

impl Entry {
    pub(crate) fn new(path: Vec<u8>, seen: &Statx) -> Self {
        Self {
            path,
            mode: u32::from(seen.stx_mode),
            uid: seen.stx_uid,
            gid: seen.stx_gid,
            size: seen.stx_size,
            blocks: seen.stx_blocks,
            atime_ns: nanoseconds(seen.stx_atime),
            mtime_ns: nanoseconds(seen.stx_mtime),
            ctime_ns: nanoseconds(seen.stx_ctime),
            inode: seen.stx_ino,
            links: seen.stx_nlink,
            device: makedev(seen.stx_dev_major, seen.stx_dev_minor),
            special: makedev(seen.stx_rdev_major, seen.stx_rdev_minor),
        }
    }
}

fn nanoseconds(time: StatxTimestamp) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}
