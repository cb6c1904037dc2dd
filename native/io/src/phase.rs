//! A phase: its threads, its samples, and what came of it.

use crate::cache;
use crate::config::{PhaseConfig, Role};
use crate::file;
use crate::outcome::{PhaseOutcome, StreamName, Tally};
use crate::progress::{Counters, Shared};
use crate::stream;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What all streams had done at a moment of the phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Seconds since the start of the phase.
    pub elapsed_s: f64,
    /// Bytes read so far.
    pub read_bytes: u64,
    /// Bytes written so far.
    pub written_bytes: u64,
    /// Metadata operations so far.
    pub operations: u64,
}

#[derive(Default)]
struct Ends {
    running: Mutex<usize>,
    changed: Condvar,
}

impl Ends {
    fn one_ended(&self) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.changed.notify_all();
    }

    /// Waits until no more than `left` run or the time is up; says whether that is so.
    fn wait(&self, left: usize, timeout: Duration) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let (running, _) = self
            .changed
            .wait_timeout_while(running, timeout, |running| *running > left)
            .unwrap_or_else(PoisonError::into_inner);
        *running <= left
    }
}

/// A phase that runs. Dropped, its threads are told to stop but not waited for: a thread in a
/// hanging file system never comes back.
pub struct Phase {
    shared: Arc<Shared>,
    ends: Arc<Ends>,
    samples: Arc<Mutex<Vec<Sample>>>,
    threads: Vec<JoinHandle<Tally>>,
}

impl Phase {
    /// Starts one thread per stream, and one that samples.
    ///
    /// # Errors
    /// If the configuration is wrong, or a thread cannot be started.
    pub fn start(config: PhaseConfig) -> io::Result<Self> {
        config.validate().map_err(io::Error::other)?;
        let streams = config.streams.len();
        let shared = Arc::new(Shared::new(config));
        let ends = Arc::new(Ends {
            // One more: the phase ends when its last sample is taken.
            running: Mutex::new(streams + 1),
            changed: Condvar::new(),
        });
        let mut phase = Self {
            samples: Arc::default(),
            threads: Vec::with_capacity(streams),
            shared,
            ends,
        };
        for index in 0..streams {
            let shared = Arc::clone(&phase.shared);
            let ends = Arc::clone(&phase.ends);
            let thread = thread::Builder::new()
                .name(format!("stream-{index}"))
                .spawn(move || {
                    let tally = stream::run(&shared, index);
                    ends.one_ended();
                    tally
                })
                .inspect_err(|_| {
                    phase.shared.stop();
                    phase.shared.gate.abort();
                })?;
            phase.threads.push(thread);
        }
        phase.start_sampling()?;
        Ok(phase)
    }

    fn start_sampling(&self) -> io::Result<()> {
        let (shared, ends) = (Arc::clone(&self.shared), Arc::clone(&self.ends));
        let samples = Arc::clone(&self.samples);
        thread::Builder::new()
            .name("samples".into())
            .spawn(move || {
                sample(&shared, &ends, &samples);
                ends.one_ended();
            })
            .map(drop)
    }

    /// Whether all streams of a phase that is held are prepared and wait to be let go.
    #[must_use]
    pub fn armed(&self) -> bool {
        self.shared.gate.armed()
    }

    /// Lets the streams of a phase that is held go, all at once.
    pub fn open(&self) {
        self.shared.gate.release();
    }

    /// Waits until all streams have ended or the time is up; says whether all have ended.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        self.ends.wait(0, timeout)
    }

    /// What all streams have done so far; `elapsed_s` is 0 before the start.
    #[must_use]
    pub fn progress(&self) -> Sample {
        let elapsed = self.shared.started().map(|start| start.elapsed());
        take_sample(&self.shared, elapsed.unwrap_or_default())
    }

    /// Whether a stream is in its closing fsync(2).
    #[must_use]
    pub fn syncing(&self) -> bool {
        let counters = &self.shared.counters;
        counters.iter().any(|c| c.syncing.load(Ordering::Relaxed))
    }

    /// Pages of files in their closing fsync(2) that no device or server has yet; `None` where
    /// nothing is flushed, or the kernel does not tell of one file (before Linux 6.5).
    #[must_use]
    pub fn unwritten_pages(&self) -> Option<u64> {
        let mut pages = None;
        for file in self.shared.counters.iter().filter_map(Counters::flushed) {
            pages = Some(pages.unwrap_or(0) + cache::unwritten_pages(file)?);
        }
        pages
    }

    /// The samples taken since the first `seen`.
    #[must_use]
    pub fn samples(&self, seen: usize) -> Vec<Sample> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.get(seen..).unwrap_or_default().to_vec()
    }

    /// Ends the phase as if its time were up.
    pub fn finish(&self) {
        self.shared.finish();
    }

    /// Stops the phase at once. With `discard`, files in their closing fsync(2) are emptied, so
    /// that it has nothing left to write.
    pub fn stop(&self, discard: bool) {
        self.shared.stop();
        self.shared.gate.abandon();
        if !discard {
            return;
        }
        let shared = Arc::clone(&self.shared);
        // In a thread of its own: on a hanging file system it hangs too. If it cannot be
        // started, the fsync takes its time.
        let _ = thread::Builder::new()
            .name("discard".into())
            .spawn(move || {
                for (stream, counters) in shared.config.streams.iter().zip(&shared.counters) {
                    if stream.role == Role::Write && counters.syncing.load(Ordering::Relaxed) {
                        file::discard(stream);
                    }
                }
            });
    }

    /// What was measured.
    ///
    /// # Errors
    /// If a stream has not ended: wait for it first.
    pub fn result(mut self) -> io::Result<PhaseOutcome> {
        if !self.wait(Duration::ZERO) {
            return Err(io::Error::other("the phase has not ended"));
        }
        let threads = std::mem::take(&mut self.threads);
        let mut tallies = Vec::with_capacity(threads.len());
        for (stream, thread) in self.shared.config.streams.iter().zip(threads) {
            let name = StreamName {
                role: stream.role,
                path: stream.path.clone(),
                file_bytes: stream.file_bytes,
            };
            let tally = thread
                .join()
                .map_err(|_| io::Error::other("a stream's thread panicked"))?;
            tallies.push((name, tally));
        }
        Ok(PhaseOutcome::new(
            tallies,
            self.shared.started().is_some(),
            self.shared.stopping(),
            self.shared.first.get().copied(),
        ))
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        self.shared.stop();
        self.shared.gate.abandon();
    }
}

fn take_sample(shared: &Shared, elapsed: Duration) -> Sample {
    let (read_bytes, written_bytes, operations) = shared.totals();
    Sample {
        elapsed_s: elapsed.as_secs_f64(),
        read_bytes,
        written_bytes,
        operations,
    }
}

fn sample(shared: &Shared, ends: &Ends, samples: &Mutex<Vec<Sample>>) {
    let period = Duration::from_secs_f64(shared.config.sample_s);
    let mut start: Option<Instant> = None;
    let mut due = Duration::ZERO;
    let mut ended = false;
    while !ended {
        start = start.or_else(|| shared.started());
        let elapsed = start.map(|start| start.elapsed());
        // Before the gate opens nothing is due; look again soon.
        let left = elapsed.map_or(Duration::from_millis(1), |elapsed| {
            due = due.max(period);
            due.saturating_sub(elapsed)
        });
        ended = ends.wait(1, left);
        let Some(start) = start.or_else(|| shared.started()) else {
            continue;
        };
        let elapsed = start.elapsed();
        if ended || (due > Duration::ZERO && elapsed >= due) {
            let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
            samples.push(take_sample(shared, elapsed));
            due += period;
        }
    }
}
