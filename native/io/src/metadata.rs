//! The metadata phase: each stream creates, stats, reads and unlinks small files in a directory
//! of its own, as jobs with many small files do. All streams start each of the four steps together.

use crate::config::StreamConfig;
use crate::failure::{Failure, Halt};
use crate::outcome::{OperationTally, Tally};
use crate::progress::Shared;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes of a small file: one page.
const FILE_BYTES: usize = 4096;
const STEPS: f64 = 4.0;

/// Runs the four steps; each lasts a quarter of the phase's seconds at most, but what was
/// created is always unlinked.
pub fn run(shared: &Shared, index: usize, tally: &mut Tally) -> Result<(), Halt> {
    let stream = &shared.config.streams[index];
    fs::create_dir(&stream.path).map_err(|e| failure("mkdir", &stream.path, &e))?;
    let start = tally.begin(shared)?;
    let step = Step {
        shared,
        index,
        stream,
        budget: shared
            .config
            .seconds
            .map(|seconds| Duration::from_secs_f64(seconds / STEPS)),
    };
    let data = [0x5a; FILE_BYTES];
    let limit = shared.config.max_files;
    let created = step.run("create", start, limit, tally, |path| create(path, &data))?;
    let next = || shared.gate.pass().ok_or(Halt::Aborted);
    step.run("stat", next()?, created, tally, |path| {
        fs::symlink_metadata(path).map(drop)
    })?;
    step.run("read", next()?, created, tally, read)?;
    let unbounded = Step {
        budget: None,
        ..step
    };
    unbounded.run("unlink", next()?, created, tally, |path| {
        fs::remove_file(path)
    })?;
    if !shared.stopping() {
        fs::remove_dir(&stream.path).map_err(|e| failure("rmdir", &stream.path, &e))?;
    }
    tally.wall_s = start.elapsed().as_secs_f64();
    Ok(())
}

fn create(path: &Path, data: &[u8]) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?
        .write_all(data)
}

fn read(path: &Path) -> io::Result<()> {
    let mut data = [0; FILE_BYTES];
    File::open(path)?.read_exact(&mut data)
}

fn failure(op: &'static str, path: &Path, error: &io::Error) -> Halt {
    Halt::Failed(Failure::new(op, path, None, error))
}

struct Step<'a> {
    shared: &'a Shared,
    index: usize,
    stream: &'a StreamConfig,
    budget: Option<Duration>,
}

impl Step<'_> {
    /// Calls `act` on file after file; returns how many.
    fn run(
        &self,
        name: &'static str,
        start: Instant,
        files: u64,
        tally: &mut Tally,
        act: impl Fn(&Path) -> io::Result<()>,
    ) -> Result<u64, Halt> {
        let counters = &self.shared.counters[self.index];
        let began = self.shared.started().unwrap_or(start);
        let mut count = 0;
        let mut seconds = 0.0;
        let mut last = start;
        while count < files
            && !self.shared.stopping()
            && self
                .budget
                .is_none_or(|budget| last.duration_since(start) < budget)
        {
            let path = self.file(count);
            let before = Instant::now();
            act(&path).map_err(|e| failure(name, &path, &e))?;
            last = Instant::now();
            tally.latencies.record(last.duration_since(before));
            tally.stalls.note(began, before, last);
            counters.operations.fetch_add(1, Ordering::Relaxed);
            count += 1;
            seconds = last.duration_since(start).as_secs_f64();
        }
        tally
            .operations
            .insert(name, OperationTally { count, seconds });
        Ok(count)
    }

    fn file(&self, number: u64) -> PathBuf {
        self.stream.path.join(format!("f{number}"))
    }
}
