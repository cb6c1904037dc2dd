//! Directories opened below another one, through no symbolic link, whatever the length of their paths.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::ffi::CString;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Linux takes paths of up to 4096 bytes (`PATH_MAX`), with their NUL.
const LONGEST: usize = 4095;

/// Open a directory below `root`; the empty path is `root` itself. Its time of access stays, where
/// this user may ask for that.
pub fn open_directory(root: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    match open_with(root, path, DIRECTORY | OFlags::NOATIME) {
        Err(Errno::PERM) => open_with(root, path, DIRECTORY),
        other => other,
    }
}

fn open_with(root: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    if path.is_empty() {
        return openat(root, c".", flags, Mode::empty());
    }
    if path.len() <= LONGEST {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match openat2(root, name(path)?, flags, Mode::empty(), resolve) {
            // Linux before 5.6, and filters of containers, know no openat2.
            Err(Errno::NOSYS | Errno::PERM) => {}
            other => return other,
        }
    }
    by_names(root, path, flags)
}

fn by_names(root: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut here: Option<OwnedFd> = None;
    for each in path.split(|byte| *byte == b'/') {
        let parent = here.as_ref().map_or(root.as_fd(), AsFd::as_fd);
        here = Some(openat(parent, name(each)?, flags, Mode::empty())?);
    }
    here.ok_or(Errno::NOENT)
}

fn name(bytes: &[u8]) -> Result<CString, Errno> {
    CString::new(bytes).map_err(|_| Errno::INVAL)
}
