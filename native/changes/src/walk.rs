//! The walk: threads read directories and ask for the status of each name; batches go to one receiver.

use crate::below::open_directory;
use crate::entry::Entry;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, RawDir, StatxFlags, makedev, statx};
use rustix::io::Errno;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Entries that go to the receiver together.
const BATCH: usize = 1000;
/// Batches that may wait for the receiver; beyond that the threads wait, so that memory stays bounded.
const MOST_BATCHES: usize = 32;
/// Directories that may wait for a thread, where a request says nothing else.
pub const MOST_WAITING: usize = 16_384;
/// Directories within each other that one thread holds open.
const DEEPEST: usize = 64;
/// Bytes of the path of a directory that is gone into: four times what a program can name at once (`PATH_MAX`).
const LONGEST: usize = 4 * 4096;
/// What one call for the names of a directory may give, in bytes.
const NAMES: usize = 32 * 1024;

/// What to walk through.
pub struct Request {
    /// The root, open.
    pub root: OwnedFd,
    /// Paths below the root that are wanted, with all below them; none are all.
    pub chosen: Vec<Vec<u8>>,
    /// Names that begin so are left out everywhere; empty leaves out none.
    pub without_prefix: Vec<u8>,
    /// This name is left out in the root.
    pub without_in_root: Vec<u8>,
    /// How many threads.
    pub threads: usize,
    /// Directories that may wait for a thread; beyond that a thread goes down by itself.
    pub most_waiting: usize,
}

/// What could not be walked through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A directory could not be read, or not to its end: why, as an errno.
    Unread(i32),
    /// Another file system is mounted there.
    OtherFileSystem,
}

/// Some of what was found. A directory comes in an earlier batch than what lies in it, or in the same one before it.
#[derive(Debug, Default)]
pub struct Batch {
    /// Names with their status.
    pub entries: Vec<Entry>,
    /// Directories, and what is wrong with them.
    pub troubles: Vec<(Vec<u8>, Trouble)>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Vec<u8>>,
    busy: usize,
}

struct Shared {
    request: Request,
    device: u64,
    queue: Mutex<Queue>,
    changed: Condvar,
    stop: AtomicBool,
    places: Vec<Mutex<Place>>,
}

/// The directory in which a thread is, and since when.
type Place = Option<(Vec<u8>, Instant)>;

/// A walk that goes on in threads of its own.
pub struct Walk {
    shared: Arc<Shared>,
    batches: Mutex<Receiver<Batch>>,
}

/// What a wait for a batch gave.
pub enum Next {
    /// Some entries, or troubles.
    Some(Batch),
    /// The wait is over, and the walk goes on.
    Waiting,
    /// All was told.
    Ended,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Walk {
    /// Start it. Fails where the root has no status, or no thread can be started.
    pub fn start(request: Request) -> std::io::Result<Self> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let root = statx(&request.root, c"", flags, StatxFlags::BASIC_STATS)?;
        let threads = request.threads.max(1);
        let shared = Arc::new(Shared {
            request,
            device: makedev(root.stx_dev_major, root.stx_dev_minor),
            queue: Mutex::new(Queue {
                waiting: vec![Vec::new()],
                busy: 0,
            }),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            places: (0..threads).map(|_| Mutex::default()).collect(),
        });
        let (sender, batches) = sync_channel(MOST_BATCHES);
        for place in 0..threads {
            let mine = Worker {
                shared: Arc::clone(&shared),
                sender: sender.clone(),
                place,
            };
            std::thread::Builder::new()
                .name(format!("walk-{place}"))
                .spawn(move || mine.work())?;
        }
        Ok(Self {
            shared,
            batches: Mutex::new(batches),
        })
    }

    /// Wait for the next batch, for at most `span`.
    pub fn next(&self, span: Duration) -> Next {
        match lock(&self.batches).recv_timeout(span) {
            Ok(batch) => Next::Some(batch),
            Err(RecvTimeoutError::Timeout) => Next::Waiting,
            Err(RecvTimeoutError::Disconnected) => Next::Ended,
        }
    }

    /// End it soon; what hangs in the kernel is left behind.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
        // Who waits for room among the batches gets it.
        while lock(&self.batches).try_recv().is_ok() {}
    }

    /// The directory in which a thread has been for longest, and for how long.
    #[must_use]
    pub fn slowest(&self) -> Option<(Vec<u8>, Duration)> {
        let places = self.shared.places.iter();
        let found = places.filter_map(|place| lock(place).clone());
        let oldest = found.min_by_key(|(_, since)| *since)?;
        Some((oldest.0, oldest.1.elapsed()))
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Worker {
    shared: Arc<Shared>,
    sender: SyncSender<Batch>,
    place: usize,
}

/// The receiver is gone, or the walk was told to stop.
struct Stopped;

#[derive(Default)]
struct Found {
    batch: Batch,
    directories: Vec<Vec<u8>>,
}

impl Found {
    fn unread(&mut self, directory: &[u8], error: Errno) {
        let trouble = Trouble::Unread(error.raw_os_error());
        self.batch.troubles.push((directory.to_owned(), trouble));
    }
}

impl Worker {
    fn work(self) {
        while let Some(directory) = self.next() {
            let mut found = Found::default();
            let done = self.walk(&directory, 0, &mut found);
            let done = done.and_then(|()| self.tell(&mut found));
            *lock(&self.shared.places[self.place]) = None;
            lock(&self.shared.queue).busy -= 1;
            self.shared.changed.notify_all();
            if done.is_err() {
                self.shared.stop.store(true, Ordering::Relaxed);
                return;
            }
        }
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut queue = lock(&self.shared.queue);
        loop {
            if self.shared.stop.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(directory) = queue.waiting.pop() {
                queue.busy += 1;
                return Some(directory);
            }
            if queue.busy == 0 {
                self.shared.changed.notify_all();
                return None;
            }
            queue = self
                .shared
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn walk(&self, directory: &[u8], depth: usize, found: &mut Found) -> Result<(), Stopped> {
        self.is_at(directory);
        if directory.len() > LONGEST {
            // Else a chain of directories takes the time and the memory of its length squared.
            found.unread(directory, Errno::NAMETOOLONG);
            return Ok(());
        }
        let opened = match open_directory(&self.shared.request.root, directory) {
            Ok(opened) => opened,
            // It went since its name was read.
            Err(Errno::NOENT) if !directory.is_empty() => return Ok(()),
            Err(error) => {
                found.unread(directory, error);
                return Ok(());
            }
        };
        let mut names = Vec::with_capacity(NAMES);
        let mut entries = RawDir::new(&opened, names.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let looked = match entry {
                Ok(entry) => self.look(&opened, directory, entry.file_name(), found),
                // It went while it was read (getdents64(2)).
                Err(Errno::NOENT) if !directory.is_empty() => break,
                Err(error) => Err(error),
            };
            match looked {
                Ok(Some(below)) => self.descend(directory, below, depth, found)?,
                Ok(None) => {}
                Err(error) => {
                    found.unread(directory, error);
                    return Ok(());
                }
            }
            if found.batch.entries.len() >= BATCH {
                self.tell(found)?;
                self.is_at(directory);
            }
        }
        Ok(())
    }

    fn is_at(&self, directory: &[u8]) {
        *lock(&self.shared.places[self.place]) = Some((directory.to_owned(), Instant::now()));
    }

    /// Note a name; gives its path where it is a directory to go into.
    fn look(
        &self,
        opened: &OwnedFd,
        directory: &[u8],
        name: &CStr,
        found: &mut Found,
    ) -> Result<Option<Vec<u8>>, Errno> {
        let bytes = name.to_bytes();
        if self.is_left_out(directory, bytes) {
            return Ok(None);
        }
        let path = joined(directory, bytes);
        let (leads, wanted) = self.is_chosen(&path);
        if !leads && !wanted {
            return Ok(None);
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let seen = match statx(opened, name, flags, StatxFlags::BASIC_STATS) {
            Ok(seen) => seen,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error),
        };
        let entry = Entry::new(path, &seen);
        let is_directory = FileType::from_raw_mode(entry.mode).is_dir();
        if is_directory && entry.device != self.shared.device {
            found
                .batch
                .troubles
                .push((entry.path, Trouble::OtherFileSystem));
            return Ok(None);
        }
        let below = (is_directory && leads).then(|| entry.path.clone());
        if wanted {
            found.batch.entries.push(entry);
        }
        Ok(below)
    }

    fn is_left_out(&self, directory: &[u8], name: &[u8]) -> bool {
        let request = &self.shared.request;
        let prefix = &request.without_prefix;
        matches!(name, b"." | b"..")
            || (!prefix.is_empty() && name.starts_with(prefix))
            || (directory.is_empty() && name == request.without_in_root)
    }

    /// Whether what is chosen lies below a path, and whether the path itself is chosen.
    fn is_chosen(&self, path: &[u8]) -> (bool, bool) {
        let chosen = &self.shared.request.chosen;
        let wanted = chosen.is_empty() || chosen.iter().any(|each| is_within(path, each));
        (
            wanted || chosen.iter().any(|each| is_within(each, path)),
            wanted,
        )
    }

    fn descend(
        &self,
        directory: &[u8],
        below: Vec<u8>,
        depth: usize,
        found: &mut Found,
    ) -> Result<(), Stopped> {
        let waiting = lock(&self.shared.queue).waiting.len() + found.directories.len();
        if waiting < self.shared.request.most_waiting || depth >= DEEPEST {
            found.directories.push(below);
            return Ok(());
        }
        self.tell(found)?;
        self.walk(&below, depth + 1, found)?;
        self.is_at(directory);
        Ok(())
    }

    /// Tell what was found, and only then let others go into its directories.
    fn tell(&self, found: &mut Found) -> Result<(), Stopped> {
        if self.shared.stop.load(Ordering::Relaxed) {
            return Err(Stopped);
        }
        let batch = std::mem::take(&mut found.batch);
        if !batch.entries.is_empty() || !batch.troubles.is_empty() {
            *lock(&self.shared.places[self.place]) = None;
            self.sender.send(batch).map_err(|_| Stopped)?;
        }
        if !found.directories.is_empty() {
            lock(&self.shared.queue)
                .waiting
                .append(&mut found.directories);
            self.shared.changed.notify_all();
        }
        Ok(())
    }
}

fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.len());
    if !directory.is_empty() {
        path.extend_from_slice(directory);
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

fn is_within(path: &[u8], other: &[u8]) -> bool {
    path.strip_prefix(other)
        .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}
