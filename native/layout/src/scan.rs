//! A scan: what it is asked for, its threads, and their sums.

use crate::tally::{SeenFile, Summary, Tally};
use crate::walk::work;
use std::collections::HashMap;
use std::ffi::{CString, NulError};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long threads that were told to stop have for it.
const STOP: Duration = Duration::from_millis(500);

/// Files with several names that are remembered, so that memory stays bounded; further ones count by names.
const MOST_LINKED: usize = 1 << 20;

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
    /// Files of at least so many bytes are listed one by one, to be taken; none where there is nothing here.
    pub list_from: Option<u64>,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) waiting: Vec<PathBuf>,
    pub(crate) busy: usize,
    pub(crate) ended: usize,
}

pub(crate) struct Worker {
    pub(crate) tally: Mutex<Tally>,
    pub(crate) place: Mutex<Option<PathBuf>>,
}

pub(crate) struct Shared {
    pub(crate) attributes: Vec<CString>,
    pub(crate) list_from: Option<u64>,
    pub(crate) listed: Mutex<Vec<SeenFile>>,
    pub(crate) taken: Condvar,
    pub(crate) keep: usize,
    pub(crate) now_s: i64,
    pub(crate) queue: Mutex<Queue>,
    pub(crate) changed: Condvar,
    pub(crate) linked: Mutex<Linked>,
    pub(crate) stop: AtomicBool,
    pub(crate) cut: AtomicBool,
    pub(crate) workers: Vec<Worker>,
}

/// Files with several names that some of them have been seen of, with how many are left.
///
/// On Lustre the inode's number is made of the file's identifier.
#[derive(Default)]
pub(crate) struct Linked(HashMap<(u64, u64), u32>);

impl Linked {
    /// Whether this is the first name of a file with `links` names.
    pub(crate) fn is_first(&mut self, file: (u64, u64), links: u32) -> bool {
        if let Some(left) = self.0.get_mut(&file) {
            *left -= 1;
            if *left == 0 {
                self.0.remove(&file);
            }
            return false;
        }
        if links > 1 && self.0.len() < MOST_LINKED {
            self.0.insert(file, links - 1);
        }
        true
    }
}

/// A scan that goes on in threads of its own.
pub struct Scan {
    shared: Arc<Shared>,
    deadline: Instant,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(request: Request, threads: usize) -> Result<Self, NulError> {
        let names = request.attributes.into_iter().map(CString::new);
        Ok(Self {
            attributes: names.collect::<Result<_, _>>()?,
            list_from: request.list_from,
            listed: Mutex::default(),
            taken: Condvar::new(),
            keep: request.keep,
            now_s: seconds_since_1970(),
            queue: Mutex::new(Queue {
                waiting: request.directories,
                ..Queue::default()
            }),
            changed: Condvar::new(),
            linked: Mutex::default(),
            stop: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            workers: (0..threads)
                .map(|_| Worker {
                    tally: Mutex::default(),
                    place: Mutex::default(),
                })
                .collect(),
        })
    }
}

impl Scan {
    /// Start it. The roots are asked for their device in the threads, since they may hang.
    pub fn start(request: Request) -> std::io::Result<Self> {
        let threads = request.threads.max(1);
        let deadline = Instant::now() + request.limit;
        let shared = Arc::new(Shared::new(request, threads)?);
        for place in 0..threads {
            let mine = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("layouts-{place}"))
                .spawn(move || work(&mine, place))?;
        }
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
        self.shared.taken.notify_all();
    }

    /// The files that were listed since the last time.
    #[must_use]
    pub fn take(&self) -> Vec<SeenFile> {
        let found = std::mem::take(&mut *lock(&self.shared.listed));
        self.shared.taken.notify_all();
        found
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
