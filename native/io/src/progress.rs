//! What all threads of a phase share: its configuration, counters, and the order to stop.

use crate::config::PhaseConfig;
use crate::gate::Gate;
use crate::null::Bucket;
use crate::pattern::Pattern;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counters of one stream, on cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
pub struct Counters {
    /// Bytes read so far.
    pub read: AtomicU64,
    /// Bytes written so far.
    pub written: AtomicU64,
    /// Metadata operations so far.
    pub operations: AtomicU64,
    /// The stream is in its closing fsync(2).
    pub syncing: AtomicBool,
    /// The descriptor that it flushes, or `NONE`.
    flushed: Descriptor,
}

/// No descriptor.
const NONE: RawFd = -1;

struct Descriptor(AtomicI32);

impl Default for Descriptor {
    fn default() -> Self {
        Self(AtomicI32::new(NONE))
    }
}

impl Counters {
    /// Notes that the stream flushes this file, `None` for what has no pages.
    pub fn begin_sync(&self, file: Option<RawFd>) {
        self.flushed
            .0
            .store(file.unwrap_or(NONE), Ordering::Relaxed);
        self.syncing.store(true, Ordering::Relaxed);
    }

    /// Notes that the flush has ended.
    pub fn end_sync(&self) {
        self.syncing.store(false, Ordering::Relaxed);
        self.flushed.0.store(NONE, Ordering::Relaxed);
    }

    /// The descriptor of the file that is flushed at this moment. It may be closed meanwhile: only questions that
    /// change nothing may be asked of it.
    #[must_use]
    pub fn flushed(&self) -> Option<RawFd> {
        let file = self.flushed.0.load(Ordering::Relaxed);
        (self.syncing.load(Ordering::Relaxed) && file != NONE).then_some(file)
    }
}

/// When the first stream ended, and what all had done by then.
#[derive(Debug, Clone, Copy)]
pub struct First {
    /// Seconds of I/O of that stream.
    pub seconds: f64,
    /// Bytes of all streams.
    pub bytes: u64,
}

/// Shared by the threads of a phase.
pub struct Shared {
    /// What was asked.
    pub config: PhaseConfig,
    /// The data.
    pub pattern: Pattern,
    /// The volume of the null engine.
    pub bucket: Option<Bucket>,
    /// Where all streams start.
    pub gate: Gate,
    /// One entry per stream.
    pub counters: Vec<Counters>,
    /// Set by the stream that ended first.
    pub first: OnceLock<First>,
    stop: AtomicBool,
    finish: AtomicBool,
    opened: OnceLock<Instant>,
}

impl Shared {
    /// Prepares what the threads of a phase share.
    #[must_use]
    pub fn new(config: PhaseConfig) -> Self {
        let streams = config.streams.len();
        Self {
            pattern: Pattern::new(config.seed),
            bucket: config.null.map(Bucket::new),
            gate: Gate::new(streams, config.held),
            counters: (0..streams).map(|_| Counters::default()).collect(),
            first: OnceLock::new(),
            stop: AtomicBool::new(false),
            finish: AtomicBool::new(false),
            opened: OnceLock::new(),
            config,
        }
    }

    /// Waits at the gate; returns the phase's start, or `None` if a stream could not prepare.
    pub fn start(&self) -> Option<Instant> {
        let opened = self.gate.pass()?;
        Some(*self.opened.get_or_init(|| opened))
    }

    /// When the phase started, if it has.
    #[must_use]
    pub fn started(&self) -> Option<Instant> {
        self.opened.get().copied()
    }

    /// Orders all streams to end as if their time were up: what was written is made durable.
    pub fn finish(&self) {
        self.finish.store(true, Ordering::Relaxed);
    }

    /// Whether to move no more blocks.
    #[must_use]
    pub fn ending(&self) -> bool {
        self.finish.load(Ordering::Relaxed) || self.stopping()
    }

    /// Orders all streams to stop at once, after the block they are at.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether to stop at once.
    #[must_use]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// When all streams end, for a phase limited by time.
    #[must_use]
    pub fn deadline(&self, start: Instant) -> Option<Instant> {
        self.config
            .seconds
            .map(|seconds| start + Duration::from_secs_f64(seconds))
    }

    /// Bytes read and written by all streams, and metadata operations done.
    #[must_use]
    pub fn totals(&self) -> (u64, u64, u64) {
        self.counters.iter().fold((0, 0, 0), |(r, w, o), c| {
            (
                r + c.read.load(Ordering::Relaxed),
                w + c.written.load(Ordering::Relaxed),
                o + c.operations.load(Ordering::Relaxed),
            )
        })
    }

    /// Notes that a stream ended after `seconds` of I/O; the first one counts.
    pub fn finished(&self, seconds: f64) {
        self.first.get_or_init(|| {
            let (read, written, _) = self.totals();
            First {
                seconds,
                bytes: read + written,
            }
        });
    }
}
