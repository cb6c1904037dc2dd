//! Streams of pread(2) and pwrite(2): the buffered engine, direct I/O where `io_uring` is
//! refused, and the null engine.

use crate::ahead::Ahead;
use crate::buffer::Buffer;
use crate::cache;
use crate::config::{Role, StreamConfig};
use crate::failure::{Halt, Mismatch};
use crate::file::{ended_early, failed};
use crate::null::Bucket;
use crate::outcome::Tally;
use crate::progress::Shared;
use crate::usage::Usage;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// What blocks are written to and read from.
pub trait Positioned: Sync {
    /// Reads once; see pread(2).
    fn read(&self, block: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes once; see pwrite(2).
    fn write(&self, block: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
    /// What has pages to flush then.
    fn descriptor(&self) -> Option<RawFd>;
    /// Empties the cache of what the stream is about to read; returns the part of it that stayed.
    fn evict(&self, stream: &StreamConfig) -> io::Result<Option<f64>>;
}

impl Positioned for File {
    fn read(&self, block: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(block, offset)
    }

    fn write(&self, block: &[u8], offset: u64) -> io::Result<usize> {
        self.write_at(block, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.as_raw_fd())
    }

    fn evict(&self, stream: &StreamConfig) -> io::Result<Option<f64>> {
        cache::flush_and_evict(self, stream)?;
        Ok(cache::resident_fraction(
            self,
            stream.base,
            stream.file_bytes,
        ))
    }
}

impl Positioned for Bucket {
    fn read(&self, block: &mut [u8], _offset: u64) -> io::Result<usize> {
        self.transfer(block.len());
        Ok(block.len())
    }

    fn write(&self, block: &[u8], _offset: u64) -> io::Result<usize> {
        self.transfer(block.len());
        Ok(block.len())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn descriptor(&self) -> Option<RawFd> {
        None
    }

    fn evict(&self, _stream: &StreamConfig) -> io::Result<Option<f64>> {
        Ok(None)
    }
}

/// One stream of positioned I/O, by one or several threads.
pub struct PositionedStream<'a> {
    /// What the phase shares.
    pub shared: &'a Shared,
    /// Which stream this is.
    pub index: usize,
    /// What it does.
    pub stream: &'a StreamConfig,
    /// What it does it to.
    pub device: &'a dyn Positioned,
    /// Whether blocks read are checked; those of the null engine carry nothing.
    pub verify: bool,
    next: AtomicU64,
}

impl<'a> PositionedStream<'a> {
    /// A stream that has not begun.
    pub fn new(shared: &'a Shared, index: usize, device: &'a dyn Positioned, verify: bool) -> Self {
        Self {
            shared,
            index,
            stream: &shared.config.streams[index],
            device,
            verify,
            next: AtomicU64::new(0),
        }
    }

    /// Moves data until the limit, the deadline or an order to stop, one thread per buffer; then
    /// makes it durable. Times go into `tally`.
    pub fn run(
        &self,
        start: Instant,
        mut buffers: Vec<Buffer>,
        resident: Option<f64>,
        tally: &mut Tally,
    ) -> Result<(), Halt> {
        let mut last = if let [buffer] = buffers.as_mut_slice() {
            self.work(start, buffer, true, resident, tally)?
        } else {
            self.work_in_threads(start, &mut buffers, resident, tally)?
        };
        if self.stream.role == Role::Write && !self.shared.stopping() {
            last = self.sync(last, tally)?;
            // Told to stop meanwhile, the file may have been emptied to end the fsync.
            tally.synced = !self.shared.stopping();
        }
        tally.wall_s = last.duration_since(start).as_secs_f64();
        Ok(())
    }

    fn work_in_threads(
        &self,
        start: Instant,
        buffers: &mut [Buffer],
        resident: Option<f64>,
        tally: &mut Tally,
    ) -> Result<Instant, Halt> {
        let results: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = buffers
                .iter_mut()
                .map(|buffer| {
                    scope.spawn(move || {
                        let mut tally = Tally::default();
                        let before = Usage::of_this_thread();
                        let last = self.work(start, buffer, false, resident, &mut tally);
                        tally.usage = Usage::of_this_thread() - before;
                        (last, tally)
                    })
                })
                .collect();
            workers
                .into_iter()
                .map(thread::ScopedJoinHandle::join)
                .collect()
        });
        let mut end = start;
        for result in results {
            let (last, part) = result
                .map_err(|_| failed("thread", self.stream, None, &io::Error::other("panic")))?;
            tally.latencies.add(&part.latencies);
            tally.stalls.merge(&part.stalls);
            tally.usage.add(part.usage);
            tally.bytes += part.bytes;
            tally.verified_bytes += part.verified_bytes;
            if let Some(bytes) = part.cached_bytes {
                *tally.cached_bytes.get_or_insert(0.0) += bytes;
            }
            end = end.max(last?);
        }
        tally.laps = tally.bytes / self.stream.file_bytes;
        Ok(end)
    }

    fn work(
        &self,
        start: Instant,
        buffer: &mut Buffer,
        alone: bool,
        mut resident: Option<f64>,
        tally: &mut Tally,
    ) -> Result<Instant, Halt> {
        let shared = self.shared;
        let block = shared.config.block_bytes as u64;
        let limit = shared.config.bytes_per_stream.unwrap_or(u64::MAX);
        let deadline = shared.deadline(start);
        let mut last = start;
        let mut ahead = self.ahead(alone);
        while !shared.ending() && deadline.is_none_or(|deadline| last < deadline) {
            let position = self.next.fetch_add(block, Ordering::Relaxed);
            if position >= limit {
                break;
            }
            let offset = self.stream.offset(position);
            if alone && offset == self.stream.base && position > 0 {
                let before = last;
                last = self.end_lap(last, &mut resident, tally)?;
                if let Some(ahead) = &mut ahead {
                    ahead.flushed(last.duration_since(before));
                }
            }
            if self.stream.role == Role::Write {
                shared
                    .pattern
                    .fill(buffer.bytes_mut(), self.stream.file, offset);
            }
            let before = Instant::now();
            if alone {
                tally.excluded_s += before.duration_since(last).as_secs_f64();
            }
            self.transfer(buffer, offset)?;
            last = Instant::now();
            tally.latencies.record(last.duration_since(before));
            tally.stalls.note(start, before, last);
            self.count(block, resident, tally);
            if self.stream.role == Role::Read && self.verify {
                self.check(buffer.bytes(), offset)?;
                tally.verified_bytes += block;
            }
            if let Some(ahead) = &mut ahead
                && ahead.wrote(block, || self.unwritten())
            {
                let before = last;
                last = self.sync(last, tally)?;
                ahead.flushed(last.duration_since(before));
            }
        }
        Ok(last)
    }

    /// How far a stream that writes may be ahead of its disk, where that is bounded.
    fn ahead(&self, alone: bool) -> Option<Ahead> {
        let bound = self.shared.config.flush_within_s;
        bound
            .filter(|_| alone && self.stream.role == Role::Write)
            .map(Ahead::new)
    }

    fn unwritten(&self) -> Option<u64> {
        let pages = cache::unwritten_pages(self.device.descriptor()?)?;
        Some(pages * rustix::param::page_size() as u64)
    }

    /// The end of the file is reached: what was written is made durable, inside the time; what
    /// was read is evicted, outside the time, before it is read again.
    fn end_lap(
        &self,
        last: Instant,
        resident: &mut Option<f64>,
        tally: &mut Tally,
    ) -> Result<Instant, Halt> {
        tally.laps += 1;
        if self.stream.role == Role::Write {
            return self.sync(last, tally);
        }
        *resident = self
            .device
            .evict(self.stream)
            .map_err(|e| failed("evict", self.stream, None, &e))?;
        Ok(last)
    }

    fn sync(&self, last: Instant, tally: &mut Tally) -> Result<Instant, Halt> {
        let counters = &self.shared.counters[self.index];
        let before = Instant::now();
        tally.excluded_s += before.duration_since(last).as_secs_f64();
        counters.begin_sync(self.device.descriptor());
        let result = self.device.sync();
        counters.end_sync();
        let after = Instant::now();
        tally.fsync_s += after.duration_since(before).as_secs_f64();
        tally.note_sync(self.shared, before, after);
        result.map_err(|e| failed("fsync", self.stream, None, &e))?;
        Ok(after)
    }

    fn transfer(&self, buffer: &mut Buffer, offset: u64) -> Result<(), Halt> {
        let op = match self.stream.role {
            Role::Write => "write",
            _ => "read",
        };
        let length = buffer.bytes().len();
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let moved = if op == "write" {
                self.device.write(&buffer.bytes()[done..], at)
            } else {
                self.device.read(&mut buffer.bytes_mut()[done..], at)
            };
            match moved {
                Ok(0) => return Err(ended_early(self.stream, at)),
                Ok(moved) => done += moved,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(op, self.stream, Some(at), &e)),
            }
        }
        Ok(())
    }

    fn count(&self, bytes: u64, resident: Option<f64>, tally: &mut Tally) {
        let counters = &self.shared.counters[self.index];
        tally.bytes += bytes;
        if self.stream.role == Role::Write {
            counters.written.fetch_add(bytes, Ordering::Relaxed);
        } else {
            counters.read.fetch_add(bytes, Ordering::Relaxed);
            if let Some(resident) = resident {
                *tally.cached_bytes.get_or_insert(0.0) += resident * bytes as f64;
            }
        }
    }

    fn check(&self, block: &[u8], offset: u64) -> Result<(), Halt> {
        match self.shared.pattern.check(block, self.stream.file, offset) {
            None => Ok(()),
            Some(range) => Err(Halt::Mismatched(Mismatch {
                path: self.stream.path.clone(),
                offset: range.offset,
                length: range.length,
            })),
        }
    }
}
