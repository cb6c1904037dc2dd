//! What a stream and a phase measured.

use crate::config::{Engine, Role};
use crate::failure::{Failure, Halt, Mismatch};
use crate::progress::{First, Shared};
use crate::stalls::{Stall, Stalls};
use crate::usage::Usage;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Latencies above an hour are counted as an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Latencies in nanoseconds, to three digits.
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3);
        Self(histogram.expect("the bounds are constants that hdrhistogram accepts"))
    }
}

impl Latencies {
    /// Records one request.
    pub fn record(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(LONGEST_NS);
        self.0.saturating_record(ns.max(1));
    }

    /// Adds another thread's.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds, the only thing that `add` can complain of.
        let _ = self.0.add(&other.0);
    }

    /// How many requests took how long: the longest time of each step of the histogram in
    /// nanoseconds, and its count. Those of several nodes can be put together from these.
    #[must_use]
    pub fn counts(&self) -> Vec<(u64, u64)> {
        self.0
            .iter_recorded()
            .map(|step| {
                let longest = self.0.highest_equivalent(step.value_iterated_to());
                (longest, step.count_at_value())
            })
            .collect()
    }

    /// Percentiles in microseconds, or `None` if nothing was recorded.
    #[must_use]
    pub fn percentiles(&self) -> Option<Percentiles> {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / 1000.0;
        (!self.0.is_empty()).then(|| Percentiles {
            p50: at(0.50),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            max: self.0.max() as f64 / 1000.0,
        })
    }
}

/// Microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
#[allow(missing_docs)]
pub struct Percentiles {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub max: f64,
}

/// How a stream's calls were made.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a record of independent facts"
)]
pub struct Method {
    /// The calls, such as `io_uring` or `pread/pwrite`.
    pub calls: String,
    /// Whether `io_uring` was used.
    pub io_uring: bool,
    /// Whether the page cache was bypassed.
    pub direct: bool,
    /// Requests in flight per stream.
    pub queue_depth: usize,
    /// Whether buffers were registered with the kernel.
    pub registered_buffers: bool,
    /// Whether the file was registered with the kernel.
    pub registered_files: bool,
    /// Whether space was allocated before it was written to.
    pub preallocated: bool,
    /// Why something else was used than asked.
    pub note: Option<String>,
}

/// One kind of metadata operation of one stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct OperationTally {
    /// How many.
    pub count: u64,
    /// How long, in seconds.
    pub seconds: f64,
}

/// What one stream measured.
#[derive(Default)]
pub struct Tally {
    /// How its calls were made.
    pub method: Method,
    /// Latency of each request.
    pub latencies: Latencies,
    /// CPU time and switches since the start of the phase.
    pub usage: Usage,
    began: Option<Usage>,
    /// Bytes moved.
    pub bytes: u64,
    /// From the start of the phase to the end of the stream.
    pub wall_s: f64,
    /// Of it, time in which no request was in flight: the data was made or checked, or the
    /// cache emptied.
    pub excluded_s: f64,
    /// Of it, the closing fsync(2) and those at the end of a lap.
    pub fsync_s: f64,
    /// Whether the closing fsync(2) was done.
    pub synced: bool,
    /// Times the stream has reached the end of its file.
    pub laps: u64,
    /// Bytes read that were in the page cache when their lap began, as far as known.
    pub cached_bytes: Option<f64>,
    /// Bytes checked.
    pub verified_bytes: u64,
    /// Metadata operations by name.
    pub operations: BTreeMap<&'static str, OperationTally>,
    /// Requests that took seconds.
    pub stalls: Stalls,
    /// Why the stream ended early, if it did.
    pub halt: Option<Halt>,
}

impl Tally {
    /// Waits at the gate, and begins to count CPU time: what preparing cost is not the phase's.
    pub fn begin(&mut self, shared: &Shared) -> Result<Instant, Halt> {
        let start = shared.start().ok_or(Halt::Aborted)?;
        self.began = Some(Usage::of_this_thread());
        Ok(start)
    }

    /// Ends the count of CPU time.
    pub fn end(&mut self) {
        if let Some(began) = self.began {
            self.usage.add(Usage::of_this_thread() - began);
        }
    }

    /// Notes an fsync(2) that took seconds. After direct writes there is nothing left to write
    /// but what the file system's own client kept; after others it takes as long as it takes.
    pub fn note_sync(&mut self, shared: &Shared, before: Instant, after: Instant) {
        if let (Engine::Direct, Some(start)) = (shared.config.engine, shared.started()) {
            self.stalls.note(start, before, after);
        }
    }

    /// Seconds of I/O.
    #[must_use]
    pub fn io_seconds(&self) -> f64 {
        self.wall_s - self.excluded_s
    }
}

/// What one stream measured, for the record.
#[derive(Debug, Serialize)]
pub struct StreamOutcome {
    role: &'static str,
    #[serde(with = "crate::path_text")]
    path: PathBuf,
    bytes: u64,
    seconds: f64,
    wall_s: f64,
    excluded_s: f64,
    fsync_s: f64,
    synced: bool,
    laps: u64,
    file_bytes: u64,
    stalls: Vec<Stall>,
}

/// One kind of metadata operation of all streams.
#[derive(Debug, Default, Serialize)]
pub struct OperationOutcome {
    count: u64,
    seconds: f64,
}

/// What a phase measured. Times in seconds; absent figures are `None`.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct PhaseOutcome {
    pub started: bool,
    pub stopped: bool,
    pub bytes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub bytes_first: Option<u64>,
    pub seconds_first: Option<f64>,
    pub seconds_last: Option<f64>,
    pub wall_s: Option<f64>,
    pub fsync_s: f64,
    pub synced: bool,
    pub latency_us: Option<Percentiles>,
    pub latency_counts: Vec<(u64, u64)>,
    pub cpu_user_s: f64,
    pub cpu_system_s: f64,
    pub voluntary_switches: i64,
    pub involuntary_switches: i64,
    pub cached_fraction: Option<f64>,
    pub verified_bytes: u64,
    pub operations: BTreeMap<&'static str, OperationOutcome>,
    pub method: Method,
    pub failure: Option<Failure>,
    pub mismatch: Option<Mismatch>,
    pub streams: Vec<StreamOutcome>,
}

/// Identifies a stream in the record.
pub struct StreamName {
    /// What it did.
    pub role: Role,
    /// Its file.
    pub path: PathBuf,
    /// Bytes of its file at most.
    pub file_bytes: u64,
}

impl PhaseOutcome {
    /// Puts the streams' tallies together. `started` and `stopped` say whether the gate opened
    /// and whether the phase was told to stop; `first` is what the first stream to end saw.
    #[must_use]
    pub fn new(
        tallies: Vec<(StreamName, Tally)>,
        started: bool,
        stopped: bool,
        first: Option<First>,
    ) -> Self {
        let mut latencies = Latencies::default();
        let mut usage = Usage::default();
        let mut cached: Option<f64> = None;
        let mut outcome = Self::empty(started, stopped);
        for (name, mut tally) in tallies {
            latencies.add(&tally.latencies);
            usage.add(tally.usage);
            outcome.bytes += tally.bytes;
            outcome.verified_bytes += tally.verified_bytes;
            outcome.fsync_s = outcome.fsync_s.max(tally.fsync_s);
            if started {
                outcome.seconds_last = Some(longer(outcome.seconds_last, tally.io_seconds()));
                outcome.wall_s = Some(longer(outcome.wall_s, tally.wall_s));
            }
            match name.role {
                Role::Read => outcome.read_bytes += tally.bytes,
                Role::Write => {
                    outcome.written_bytes += tally.bytes;
                    outcome.synced &= tally.synced;
                }
                Role::Metadata => {}
            }
            if let Some(bytes) = tally.cached_bytes {
                *cached.get_or_insert(0.0) += bytes;
            }
            for (operation, tally) in &tally.operations {
                let entry = outcome.operations.entry(operation).or_default();
                entry.count += tally.count;
                entry.seconds = entry.seconds.max(tally.seconds);
            }
            match tally.halt.take() {
                Some(Halt::Failed(failure)) => {
                    outcome.failure.get_or_insert(failure);
                }
                Some(Halt::Mismatched(mismatch)) => {
                    outcome.mismatch.get_or_insert(mismatch);
                }
                Some(Halt::Aborted) | None => {}
            }
            if outcome.method.calls.is_empty() {
                outcome.method.clone_from(&tally.method);
            }
            outcome.streams.push(StreamOutcome::new(name, tally));
        }
        outcome.cached_fraction = cached
            .filter(|_| outcome.read_bytes > 0)
            .map(|bytes| bytes / outcome.read_bytes as f64);
        outcome.latency_us = latencies.percentiles();
        outcome.latency_counts = latencies.counts();
        outcome.cpu_user_s = usage.user_s;
        outcome.cpu_system_s = usage.system_s;
        outcome.voluntary_switches = usage.voluntary_switches;
        outcome.involuntary_switches = usage.involuntary_switches;
        if let Some(first) = first {
            outcome.seconds_first = Some(first.seconds);
            outcome.bytes_first = Some(first.bytes);
        }
        outcome
    }

    fn empty(started: bool, stopped: bool) -> Self {
        Self {
            started,
            stopped,
            bytes: 0,
            read_bytes: 0,
            written_bytes: 0,
            bytes_first: None,
            seconds_first: None,
            seconds_last: None,
            wall_s: None,
            fsync_s: 0.0,
            synced: true,
            latency_us: None,
            latency_counts: Vec::new(),
            cpu_user_s: 0.0,
            cpu_system_s: 0.0,
            voluntary_switches: 0,
            involuntary_switches: 0,
            cached_fraction: None,
            verified_bytes: 0,
            operations: BTreeMap::new(),
            method: Method::default(),
            failure: None,
            mismatch: None,
            streams: Vec::new(),
        }
    }
}

fn longer(longest: Option<f64>, seconds: f64) -> f64 {
    longest.map_or(seconds, |longest| longest.max(seconds))
}

impl StreamOutcome {
    fn new(name: StreamName, tally: Tally) -> Self {
        Self {
            role: match name.role {
                Role::Write => "write",
                Role::Read => "read",
                Role::Metadata => "metadata",
            },
            path: name.path,
            bytes: tally.bytes,
            seconds: tally.io_seconds(),
            wall_s: tally.wall_s,
            excluded_s: tally.excluded_s,
            fsync_s: tally.fsync_s,
            synced: tally.synced,
            laps: tally.laps,
            file_bytes: if tally.bytes > name.file_bytes {
                name.file_bytes
            } else {
                tally.bytes
            },
            stalls: tally.stalls.into_vec(),
        }
    }
}
