//! What a thread of a scan does: it walks directories and reads the layout of each file by its name, without
//! opening it.
//!
//! What a file costs is mostly the kernel's walk along its path, so each thread has a working directory of
//! its own and asks for names in it.

use crate::attribute::decode;
use crate::scan::{Shared, Worker, lock};
use crate::tally::SeenFile;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Statx, StatxFlags};
use rustix::fs::{lgetxattr, openat, statx};
use rustix::io::Errno;
use rustix::process::fchdir;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Directories that wait; beyond that a thread goes down by itself, so that memory stays bounded.
const MOST_WAITING: usize = 16_384;
const DEEPEST: usize = 256;
/// The largest attribute that Linux lets a file have (`XATTR_SIZE_MAX`).
const LARGEST_ATTRIBUTE: usize = 65_536;
/// Holds a layout of up to 20 stripes, and of up to 160. Linux makes and clears a buffer of the size that is
/// asked for, so a thread asks for more only once it has met more.
const MOST_ATTRIBUTES: usize = 512;
const WIDE_ATTRIBUTES: usize = 4096;
/// Names that Linux hands over at once: some hundreds.
const NAMES: usize = 32_768;
/// Files that wait to be taken; beyond that threads wait, so that memory stays bounded.
const MOST_LISTED: usize = 8192;
/// How often a thread that waits for that looks whether it is told to stop.
const PATIENCE: Duration = Duration::from_millis(100);

/// A thread that scans, with what it uses again for each file.
struct Scanner<'a> {
    shared: &'a Shared,
    worker: &'a Worker,
    /// Whether its working directory is its own; a sandbox may refuse that.
    moves: bool,
    attribute: Vec<u8>,
    /// How much of it is asked for at first.
    usual: usize,
}

/// A directory that is looked at: files are asked for by their names in it.
struct Here<'a> {
    directory: BorrowedFd<'a>,
    path: &'a Path,
}

impl Here<'_> {
    fn path_of(&self, name: &CStr) -> PathBuf {
        self.path.join(OsStr::from_bytes(name.to_bytes()))
    }
}

/// Scan until nothing is left, as thread `place`.
pub(crate) fn work(shared: &Shared, place: usize) {
    // SAFETY: only the working directory becomes the thread's own; its files stay those of the process.
    let moves = unsafe { unshare_unsafe(UnshareFlags::FS) }.is_ok();
    scan_all(shared, place, moves);
    lock(&shared.queue).ended += 1;
    shared.changed.notify_all();
}

fn scan_all(shared: &Shared, place: usize, moves: bool) {
    let mut scanner = Scanner {
        shared,
        worker: &shared.workers[place],
        moves,
        attribute: vec![0; LARGEST_ATTRIBUTE],
        usual: MOST_ATTRIBUTES,
    };
    while let Some(directory) = next(shared) {
        scanner.walk(&directory, 0);
        *lock(&scanner.worker.place) = None;
        lock(&shared.queue).busy -= 1;
        shared.changed.notify_all();
    }
}

fn next(shared: &Shared) -> Option<PathBuf> {
    let mut queue = lock(&shared.queue);
    loop {
        if shared.stop.load(Ordering::Relaxed) {
            if !queue.waiting.is_empty() {
                shared.cut.store(true, Ordering::Relaxed);
            }
            return None;
        }
        if let Some(directory) = queue.waiting.pop() {
            queue.busy += 1;
            return Some(directory);
        }
        if queue.busy == 0 {
            return None;
        }
        queue = shared
            .changed
            .wait(queue)
            .unwrap_or_else(PoisonError::into_inner);
    }
}

fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())
}

impl Scanner<'_> {
    fn walk(&mut self, path: &Path, depth: usize) {
        *lock(&self.worker.place) = Some(path.to_owned());
        let directory = match open(path) {
            Ok(directory) => directory,
            Err(Errno::NOTDIR) => return self.look_at_root(path),
            Err(error) => return self.unread(path, &error.to_string()),
        };
        let here = Here {
            directory: directory.as_fd(),
            path,
        };
        if let Err(error) = self.enter(&here) {
            return self.unread(path, &error.to_string());
        }
        lock(&self.worker.tally).directories += 1;
        let mut buffer: Vec<u8> = Vec::with_capacity(NAMES);
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            if self.shared.stop.load(Ordering::Relaxed) {
                self.shared.cut.store(true, Ordering::Relaxed);
                return;
            }
            match entry {
                Ok(entry) => self.look(&here, entry.file_name(), entry.file_type(), depth),
                Err(error) => return self.unread(path, &error.to_string()),
            }
        }
    }

    /// A file that was named as a place.
    fn look_at_root(&mut self, path: &Path) {
        let name = path.file_name().map(|name| CString::new(name.as_bytes()));
        let (Some(parent), Some(Ok(name))) = (path.parent(), name) else {
            return;
        };
        let directory = match open(parent) {
            Ok(directory) => directory,
            Err(error) => return self.unread(path, &error.to_string()),
        };
        let here = Here {
            directory: directory.as_fd(),
            path: parent,
        };
        match self.enter(&here) {
            Ok(()) => self.look(&here, &name, FileType::Unknown, 0),
            Err(error) => self.unread(path, &error.to_string()),
        }
    }

    fn enter(&self, here: &Here<'_>) -> Result<(), Errno> {
        if self.moves {
            fchdir(here.directory)
        } else {
            Ok(())
        }
    }

    fn look(&mut self, here: &Here<'_>, name: &CStr, kind: FileType, depth: usize) {
        if matches!(name.to_bytes(), b"." | b"..") {
            return;
        }
        match kind {
            FileType::Directory => self.descend(here, name, depth),
            FileType::RegularFile => self.look_at_file(here, name),
            FileType::Unknown => self.look_at_unknown(here, name, depth),
            _ => {}
        }
    }

    /// Some file systems do not tell in a directory what an entry is.
    fn look_at_unknown(&mut self, here: &Here<'_>, name: &CStr, depth: usize) {
        match statx(here.directory, name, QUICK, StatxFlags::TYPE) {
            Ok(seen) => {
                let kind = FileType::from_raw_mode(u32::from(seen.stx_mode));
                if kind != FileType::Unknown {
                    self.look(here, name, kind, depth);
                }
            }
            Err(Errno::NOENT) => {}
            Err(error) => self.unread(&here.path_of(name), &error.to_string()),
        }
    }

    fn descend(&mut self, here: &Here<'_>, name: &CStr, depth: usize) {
        if is_mount_point(here.directory, name) {
            return;
        }
        let path = here.path_of(name);
        let mut queue = lock(&self.shared.queue);
        if queue.waiting.len() < MOST_WAITING {
            queue.waiting.push(path);
            drop(queue);
            self.shared.changed.notify_one();
            return;
        }
        drop(queue);
        if depth >= DEEPEST {
            return self.unread(&path, "too deep");
        }
        self.walk(&path, depth + 1);
        *lock(&self.worker.place) = Some(here.path.to_owned());
        // Without it names would be looked up in the directory below.
        if let Err(error) = self.enter(here) {
            self.moves = false;
            self.unread(here.path, &error.to_string());
        }
    }

    fn look_at_file(&mut self, here: &Here<'_>, name: &CStr) {
        let seen = match statx(here.directory, name, QUICK, OF_A_FILE) {
            Ok(seen) => seen,
            Err(Errno::NOENT) => return,
            Err(error) => return self.unread(&here.path_of(name), &error.to_string()),
        };
        if seen.stx_nlink > 1 && !self.is_first_name(&seen) {
            return;
        }
        let length = match self.read_attribute(here, name) {
            Ok(Some(length)) => length,
            Ok(None) => return lock(&self.worker.tally).add_without_layout(seen.stx_size),
            Err(Errno::NOENT) => return,
            Err(error) => return self.unread(&here.path_of(name), &error.to_string()),
        };
        let layout = match decode(&self.attribute[..length]) {
            Ok(layout) => layout,
            Err(refusal) => return self.unread(&here.path_of(name), refusal.text()),
        };
        let born = StatxFlags::from_bits_retain(seen.stx_mask).contains(StatxFlags::BTIME);
        let file = SeenFile {
            path: String::new(),
            size_bytes: seen.stx_size,
            allocated_bytes: seen.stx_blocks.saturating_mul(512),
            modified_s: seen.stx_mtime.tv_sec,
            born_s: born.then_some(seen.stx_btime.tv_sec),
            layout,
        };
        if self
            .shared
            .list_from
            .is_some_and(|least| file.size_bytes >= least)
        {
            self.list(here, name, &file);
        }
        let (now_s, keep) = (self.shared.now_s, self.shared.keep);
        lock(&self.worker.tally).add(file, now_s, keep, || here.path_of(name));
    }

    fn is_first_name(&self, seen: &Statx) -> bool {
        let device = u64::from(seen.stx_dev_major) << 32 | u64::from(seen.stx_dev_minor);
        lock(&self.shared.linked).is_first((device, seen.stx_ino), seen.stx_nlink)
    }

    fn list(&self, here: &Here<'_>, name: &CStr, file: &SeenFile) {
        let Ok(path) = here.path_of(name).into_os_string().into_string() else {
            return self.unread(&here.path_of(name), "its name is no text");
        };
        let mut listed = lock(&self.shared.listed);
        while listed.len() >= MOST_LISTED && !self.shared.stop.load(Ordering::Relaxed) {
            let waited = self.shared.taken.wait_timeout(listed, PATIENCE);
            listed = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        listed.push(SeenFile {
            path,
            ..file.clone()
        });
    }

    fn read_attribute(&mut self, here: &Here<'_>, name: &CStr) -> Result<Option<usize>, Errno> {
        if self.moves {
            return self.attribute_of(name);
        }
        let path = here.path_of(name);
        self.attribute_of(path.as_path())
    }

    fn attribute_of<P: rustix::path::Arg + Copy>(
        &mut self,
        path: P,
    ) -> Result<Option<usize>, Errno> {
        for name in &self.shared.attributes {
            let first = lgetxattr(path, name, &mut self.attribute[..self.usual]);
            let got = match first {
                Err(Errno::RANGE) => {
                    self.usual = WIDE_ATTRIBUTES;
                    lgetxattr(path, name, &mut self.attribute[..])
                }
                other => other,
            };
            match got {
                Ok(length) => return Ok(Some(length)),
                Err(Errno::NODATA | Errno::NOTSUP) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn unread(&self, path: &Path, reason: &str) {
        let path = path.to_string_lossy().into_owned();
        lock(&self.worker.tally).add_unread(path, reason.to_owned());
    }
}

/// Without a question to each target: what the metadata server knows of size and blocks will do.
const QUICK: AtFlags = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::STATX_DONT_SYNC);
const OF_A_FILE: StatxFlags = StatxFlags::SIZE
    .union(StatxFlags::BLOCKS)
    .union(StatxFlags::NLINK)
    .union(StatxFlags::INO)
    .union(StatxFlags::MTIME)
    .union(StatxFlags::BTIME);

fn is_mount_point(directory: BorrowedFd<'_>, name: &CStr) -> bool {
    statx(directory, name, QUICK, StatxFlags::TYPE).is_ok_and(|seen| {
        seen.stx_attributes
            .contains(rustix::fs::StatxAttributes::MOUNT_ROOT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::Request;

    #[test]
    fn a_thread_that_may_have_no_working_directory_of_its_own_sees_the_same_files() {
        let tree = tempfile::tempdir().expect("a directory");
        for name in ["a/b/c", "a/d", "e"] {
            std::fs::create_dir_all(tree.path().join(name)).expect("a directory");
            std::fs::write(tree.path().join(name).join("file"), "x").expect("a file");
        }
        let request = Request {
            directories: vec![tree.path().to_owned(), tree.path().join("e/file")],
            attributes: vec!["user.none".to_owned()],
            threads: 1,
            keep: 4,
            limit: Duration::from_secs(9),
            list_from: None,
        };
        let before = std::env::current_dir().expect("a working directory");
        let shared = Shared::new(request, 1).expect("names without zeros");
        scan_all(&shared, 0, false);
        let tally = std::mem::take(&mut *lock(&shared.workers[0].tally));
        let found = tally.summary(true, Vec::new());
        // A file that is asked for where it is not would be passed over as gone.
        assert_eq!((found.without_layout.files, found.unread), (4, 0));
        assert_eq!(std::env::current_dir().expect("it is there"), before);
    }
}
