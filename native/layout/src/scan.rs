//! A scan: threads walk directories and read the layout of each file by its path, without opening it.

use crate::attribute::decode;
use crate::tally::{SeenFile, Summary, Tally};
use rustix::fs::{AtFlags, CWD, StatxFlags, lgetxattr, statx};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Directories that wait; beyond that a thread goes down by itself, so that memory stays bounded.
const MOST_WAITING: usize = 16_384;
const DEEPEST: usize = 256;
/// The largest attribute that Linux lets a file have (`XATTR_SIZE_MAX`).
const LARGEST_ATTRIBUTE: usize = 65_536;
/// Holds any layout of up to 160 stripes. Linux makes and clears a buffer of the size that is asked for.
const MOST_ATTRIBUTES: usize = 4096;
/// How long threads that were told to stop have for it.
const STOP: Duration = Duration::from_millis(500);

/// What to scan, and within which limits.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where to begin; other file systems below are left out.
    pub directories: Vec<PathBuf>,
    /// The attributes to ask for, the next where one is not there: `lustre.lov`, `trusted.lov`.
    pub attributes: Vec<String>,
    /// How many threads.
    pub threads: usize,
    /// How many of the largest files are told.
    pub keep: usize,
    /// When it ends, whatever is left.
    pub limit: Duration,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<PathBuf>,
    busy: usize,
    ended: usize,
}

struct Worker {
    tally: Mutex<Tally>,
    place: Mutex<Option<PathBuf>>,
}

struct Shared {
    attributes: Vec<CString>,
    keep: usize,
    now_s: i64,
    queue: Mutex<Queue>,
    changed: Condvar,
    stop: AtomicBool,
    cut: AtomicBool,
    workers: Vec<Worker>,
}

/// A scan that goes on in threads of its own.
pub struct Scan {
    shared: Arc<Shared>,
    deadline: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scan {
    /// Start it. The roots are asked for their device in the threads, since they may hang.
    pub fn start(request: Request) -> std::io::Result<Self> {
        let attributes = request
            .attributes
            .iter()
            .map(|name| CString::new(name.as_str()));
        let threads = request.threads.max(1);
        let shared = Arc::new(Shared {
            attributes: attributes.collect::<Result<_, _>>()?,
            keep: request.keep,
            now_s: seconds_since_1970(),
            queue: Mutex::new(Queue::default()),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            workers: (0..threads)
                .map(|_| Worker {
                    tally: Mutex::default(),
                    place: Mutex::default(),
                })
                .collect(),
        });
        lock(&shared.queue).waiting = request.directories;
        for place in 0..threads {
            let mine = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("layouts-{place}"))
                .spawn(move || work(&mine, place))?;
        }
        let deadline = Instant::now() + request.limit;
        Ok(Self { shared, deadline })
    }

    /// Wait until it has ended or `span` is over; says whether it has ended.
    #[must_use]
    pub fn wait(&self, span: Duration) -> bool {
        let until = (Instant::now() + span).min(self.deadline);
        let ended = self.ended_by(until);
        if !ended && Instant::now() >= self.deadline {
            self.stop();
            let _ = self.ended_by(Instant::now() + STOP);
            return true;
        }
        ended
    }

    /// End it soon; what hangs in the kernel is left behind.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
    }

    fn ended_by(&self, until: Instant) -> bool {
        let mut queue = lock(&self.shared.queue);
        while queue.ended < self.shared.workers.len() {
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                return false;
            };
            queue = self
                .shared
                .changed
                .wait_timeout(queue, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    /// What was found; stops it where it still goes on, and names where threads hang.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.stop();
        let ended = self.ended_by(Instant::now() + STOP);
        let mut sum = Tally::default();
        let mut hanging = Vec::new();
        for worker in &self.shared.workers {
            sum.merge(&lock(&worker.tally), self.shared.keep);
            if !ended && let Some(place) = lock(&worker.place).as_ref() {
                hanging.push(place.to_string_lossy().into_owned());
            }
        }
        let complete = ended && !self.shared.cut.load(Ordering::Relaxed);
        sum.summary(complete, hanging)
    }
}

fn seconds_since_1970() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |span| i64::try_from(span.as_secs()).unwrap_or(i64::MAX))
}

fn work(shared: &Shared, place: usize) {
    let mut buffer = vec![0; LARGEST_ATTRIBUTE];
    while let Some(directory) = next(shared) {
        walk(shared, place, &directory, 0, &mut buffer);
        *lock(&shared.workers[place].place) = None;
        lock(&shared.queue).busy -= 1;
        shared.changed.notify_all();
    }
    lock(&shared.queue).ended += 1;
    shared.changed.notify_all();
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

fn walk(shared: &Shared, place: usize, directory: &Path, depth: usize, buffer: &mut [u8]) {
    let worker = &shared.workers[place];
    *lock(&worker.place) = Some(directory.to_owned());
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => return unread(worker, directory, &error.to_string()),
    };
    lock(&worker.tally).directories += 1;
    for entry in entries {
        if shared.stop.load(Ordering::Relaxed) {
            shared.cut.store(true, Ordering::Relaxed);
            return;
        }
        match entry {
            Ok(entry) => look(shared, place, &entry, depth, buffer),
            Err(error) => return unread(worker, directory, &error.to_string()),
        }
    }
}

fn look(shared: &Shared, place: usize, entry: &DirEntry, depth: usize, buffer: &mut [u8]) {
    let path = entry.path();
    match entry.file_type() {
        Ok(kind) if kind.is_dir() => descend(shared, place, path, depth, buffer),
        Ok(kind) if kind.is_file() => look_at_file(shared, place, path, buffer),
        Ok(_) => {}
        Err(error) => unread(&shared.workers[place], &path, &error.to_string()),
    }
}

fn descend(shared: &Shared, place: usize, path: PathBuf, depth: usize, buffer: &mut [u8]) {
    if is_mount_point(&path) {
        return;
    }
    let mut queue = lock(&shared.queue);
    if queue.waiting.len() < MOST_WAITING {
        queue.waiting.push(path);
        drop(queue);
        shared.changed.notify_one();
    } else {
        drop(queue);
        if depth < DEEPEST {
            walk(shared, place, &path, depth + 1, buffer);
        } else {
            unread(&shared.workers[place], &path, "too deep");
        }
    }
}

fn is_mount_point(path: &Path) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    statx(CWD, path, flags, StatxFlags::TYPE).is_ok_and(|seen| {
        seen.stx_attributes
            .contains(rustix::fs::StatxAttributes::MOUNT_ROOT)
    })
}

fn look_at_file(shared: &Shared, place: usize, path: PathBuf, buffer: &mut [u8]) {
    let worker = &shared.workers[place];
    // Without a question to each target: what the metadata server knows of size and blocks will do.
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let wanted = StatxFlags::SIZE | StatxFlags::BLOCKS | StatxFlags::MTIME | StatxFlags::BTIME;
    let seen = match statx(CWD, &path, flags, wanted) {
        Ok(seen) => seen,
        Err(Errno::NOENT) => return,
        Err(error) => return unread(worker, &path, &error.to_string()),
    };
    let length = match attribute(shared, &path, buffer) {
        Ok(Some(length)) => length,
        Ok(None) => return lock(&worker.tally).add_without_layout(seen.stx_size),
        Err(Errno::NOENT) => return,
        Err(error) => return unread(worker, &path, &error.to_string()),
    };
    match decode(&buffer[..length]) {
        Ok(layout) => {
            let born = StatxFlags::from_bits_retain(seen.stx_mask).contains(StatxFlags::BTIME);
            let file = SeenFile {
                path: String::new(),
                size_bytes: seen.stx_size,
                allocated_bytes: seen.stx_blocks.saturating_mul(512),
                modified_s: seen.stx_mtime.tv_sec,
                born_s: born.then_some(seen.stx_btime.tv_sec),
                layout,
            };
            lock(&worker.tally).add(path, file, shared.now_s, shared.keep);
        }
        Err(refusal) => unread(worker, &path, refusal.text()),
    }
}

fn attribute(shared: &Shared, path: &Path, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
    for name in &shared.attributes {
        let first = lgetxattr(path, name, &mut buffer[..MOST_ATTRIBUTES]);
        let got = match first {
            Err(Errno::RANGE) => lgetxattr(path, name, &mut *buffer),
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

fn unread(worker: &Worker, path: &Path, reason: &str) {
    lock(&worker.tally).add_unread(path.to_string_lossy().into_owned(), reason.to_owned());
}
