//! Streams of direct I/O by `io_uring`: several requests in flight from one thread, on registered
//! buffers and a registered file.

use crate::buffer::Buffer;
use crate::config::{Role, StreamConfig};
use crate::failure::{Halt, Mismatch};
use crate::file::{Allocation, ended_early, failed};
use crate::outcome::{Method, Tally};
use crate::positioned::Positioned;
use crate::progress::Shared;
use io_uring::{IoUring, opcode, squeue, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Whether `io_uring` can be used here; the error says why not (sysctl, seccomp, old kernel).
pub fn probe() -> io::Result<()> {
    IoUring::new(1).map(|_| ())
}

struct Slot {
    buffer: Buffer,
    offset: u64,
    done: usize,
    issued: Instant,
}

/// A ring with its buffers, ready to start.
pub struct Ring {
    inner: IoUring,
    slots: Vec<Slot>,
    fixed_buffers: bool,
    fixed_file: bool,
}

impl Ring {
    /// Makes a ring and registers the file and one buffer per request in flight; where the kernel
    /// refuses to register (memory lock limit), the method's note says so.
    pub fn new(file: &File, depth: usize, block: usize) -> io::Result<(Self, Method)> {
        let entries = u32::try_from(depth).unwrap_or(u32::MAX).next_power_of_two();
        // One thread submits and waits: the kernel can leave completions to that moment (6.1).
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)
            .or_else(|_| IoUring::new(entries))?;
        let now = Instant::now();
        let slots = (0..depth)
            .map(|_| {
                Buffer::new(block).map(|buffer| Slot {
                    buffer,
                    offset: 0,
                    done: 0,
                    issued: now,
                })
            })
            .collect::<io::Result<Vec<_>>>()?;
        let iovecs: Vec<_> = slots
            .iter()
            .map(|slot| libc::iovec {
                iov_base: slot.buffer.as_ptr().cast(),
                iov_len: block,
            })
            .collect();
        // SAFETY: the buffers live as long as the ring: both are fields of `Ring`, and `run`
        // returns only when no request is in flight.
        let buffers = unsafe { ring.submitter().register_buffers(&iovecs) };
        let fixed_file = ring.submitter().register_files(&[file.as_raw_fd()]).is_ok();
        let method = Method {
            calls: "io_uring".into(),
            io_uring: true,
            direct: true,
            queue_depth: depth,
            registered_buffers: buffers.is_ok(),
            registered_files: fixed_file,
            preallocated: false,
            note: buffers
                .as_ref()
                .err()
                .map(|e| format!("buffers could not be registered: {e}")),
        };
        let ring = Self {
            inner: ring,
            slots,
            fixed_buffers: buffers.is_ok(),
            fixed_file,
        };
        Ok((ring, method))
    }
}

/// One stream of direct I/O.
pub struct UringStream<'a> {
    shared: &'a Shared,
    index: usize,
    stream: &'a StreamConfig,
    file: &'a File,
    ring: Ring,
    free: Vec<usize>,
    /// Slots whose requests are in the ring but not yet with the kernel.
    fresh: Vec<usize>,
    in_flight: usize,
    position: u64,
    lap_ended: bool,
    resident: Option<f64>,
    /// Since when no request has been in flight.
    idle_since: Instant,
    last: Instant,
    start: Instant,
}

impl<'a> UringStream<'a> {
    /// A stream that starts now.
    pub fn new(
        shared: &'a Shared,
        index: usize,
        file: &'a File,
        ring: Ring,
        resident: Option<f64>,
        start: Instant,
    ) -> Self {
        let free = (0..ring.slots.len()).rev().collect();
        Self {
            shared,
            index,
            stream: &shared.config.streams[index],
            file,
            ring,
            free,
            fresh: Vec::new(),
            in_flight: 0,
            position: 0,
            lap_ended: false,
            resident,
            idle_since: start,
            last: start,
            start,
        }
    }

    /// Moves data until the limit, the deadline or an order to stop, then makes it durable.
    pub fn run(
        mut self,
        start: Instant,
        mut allocation: Option<Allocation>,
        tally: &mut Tally,
    ) -> Result<(), Halt> {
        let result = self.transfer_all(start, allocation.as_mut(), tally);
        // The kernel may still write to the buffers of requests in flight.
        while self.in_flight > 0 {
            if self.wait().is_err() {
                std::mem::forget(self.ring);
                return result;
            }
            self.in_flight -= self.ring.inner.completion().count();
        }
        result?;
        if let Some(allocation) = &allocation {
            allocation.trim(self.file, self.position);
        }
        if self.stream.role == Role::Write && !self.shared.stopping() {
            self.sync(tally)?;
            // Told to stop meanwhile, the file may have been emptied to end the fsync.
            tally.synced = !self.shared.stopping();
        }
        tally.wall_s = self.last.duration_since(start).as_secs_f64();
        Ok(())
    }

    fn transfer_all(
        &mut self,
        start: Instant,
        mut allocation: Option<&mut Allocation>,
        tally: &mut Tally,
    ) -> Result<(), Halt> {
        let limit = self.shared.config.bytes_per_stream.unwrap_or(u64::MAX);
        let deadline = self.shared.deadline(start);
        loop {
            let mut more = self.position < limit
                && !self.shared.ending()
                && deadline.is_none_or(|deadline| self.last < deadline);
            if more && self.at_lap_end() {
                if self.in_flight == 0 {
                    self.end_lap(tally)?;
                } else {
                    more = false;
                }
            }
            if more {
                self.issue(limit, allocation.as_deref_mut())?;
            }
            if self.in_flight == 0 {
                return Ok(());
            }
            self.submit(tally)?;
            self.reap(tally)?;
        }
    }

    fn at_lap_end(&self) -> bool {
        self.position > 0 && self.position % self.stream.file_bytes == 0 && !self.lap_ended
    }

    fn end_lap(&mut self, tally: &mut Tally) -> Result<(), Halt> {
        tally.laps += 1;
        self.lap_ended = true;
        if self.stream.role == Role::Write {
            return self.sync(tally);
        }
        self.resident = self
            .file
            .evict(self.stream)
            .map_err(|e| failed("evict", self.stream, None, &e))?;
        Ok(())
    }

    fn sync(&mut self, tally: &mut Tally) -> Result<(), Halt> {
        let counters = &self.shared.counters[self.index];
        let before = Instant::now();
        tally.excluded_s += before.duration_since(self.idle_since).as_secs_f64();
        counters.begin_sync(Some(self.file.as_raw_fd()));
        let result = self.file.sync_all();
        counters.end_sync();
        self.last = Instant::now();
        self.idle_since = self.last;
        tally.fsync_s += self.last.duration_since(before).as_secs_f64();
        tally.note_sync(self.shared, before, self.last);
        result.map_err(|e| failed("fsync", self.stream, None, &e))
    }

    /// Hands a request to the ring for every free slot, up to the end of the lap.
    fn issue(&mut self, limit: u64, mut allocation: Option<&mut Allocation>) -> Result<(), Halt> {
        let block = self.shared.config.block_bytes as u64;
        while self.position < limit && !self.at_lap_end() {
            let Some(slot) = self.free.pop() else {
                return Ok(());
            };
            let offset = self.stream.offset(self.position);
            if let Some(allocation) = allocation.as_deref_mut() {
                let end = offset + block - self.stream.base;
                allocation.cover(self.file, self.stream, end)?;
            }
            self.ring.slots[slot].offset = offset;
            self.ring.slots[slot].done = 0;
            if self.stream.role == Role::Write {
                let buffer = self.ring.slots[slot].buffer.bytes_mut();
                self.shared.pattern.fill(buffer, self.stream.file, offset);
            }
            self.position += block;
            self.lap_ended = false;
            self.push(slot)?;
            self.fresh.push(slot);
        }
        Ok(())
    }

    fn push(&mut self, slot: usize) -> Result<(), Halt> {
        let entry = self.entry(slot).user_data(slot as u64);
        // SAFETY: the slot's buffer stays in place, and is not touched, until its completion.
        unsafe { self.ring.inner.submission().push(&entry) }
            .map_err(|e| failed("submit", self.stream, None, &io::Error::other(e)))?;
        self.in_flight += 1;
        Ok(())
    }

    fn entry(&self, slot: usize) -> squeue::Entry {
        let Slot {
            buffer,
            offset,
            done,
            ..
        } = &self.ring.slots[slot];
        // SAFETY: `done` is less than the buffer's length: a complete block is not pushed again.
        let start = unsafe { buffer.as_ptr().add(*done) };
        let length = (buffer.bytes().len() - done) as u32;
        let at = offset + *done as u64;
        let number = slot as u16;
        let write = self.stream.role == Role::Write;
        macro_rules! entry {
            ($fd:expr) => {
                match (write, self.ring.fixed_buffers) {
                    (true, true) => opcode::WriteFixed::new($fd, start, length, number)
                        .offset(at)
                        .build(),
                    (true, false) => opcode::Write::new($fd, start, length).offset(at).build(),
                    (false, true) => opcode::ReadFixed::new($fd, start, length, number)
                        .offset(at)
                        .build(),
                    (false, false) => opcode::Read::new($fd, start, length).offset(at).build(),
                }
            };
        }
        if self.ring.fixed_file {
            entry!(types::Fixed(0))
        } else {
            entry!(types::Fd(self.file.as_raw_fd()))
        }
    }

    /// Submits what was issued and waits for at least one completion.
    fn submit(&mut self, tally: &mut Tally) -> Result<(), Halt> {
        let now = Instant::now();
        if self.in_flight == self.fresh.len() {
            tally.excluded_s += now.duration_since(self.idle_since).as_secs_f64();
        }
        for slot in self.fresh.drain(..) {
            self.ring.slots[slot].issued = now;
        }
        self.wait()
            .map_err(|e| failed("submit", self.stream, None, &e))?;
        self.last = Instant::now();
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        loop {
            match self.ring.inner.submit_and_wait(1) {
                Ok(_) => return Ok(()),
                Err(e) if e.raw_os_error() == Some(libc::EINTR) => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn reap(&mut self, tally: &mut Tally) -> Result<(), Halt> {
        let completions: Vec<(usize, i32)> = self
            .ring
            .inner
            .completion()
            .map(|entry| (entry.user_data() as usize, entry.result()))
            .collect();
        self.in_flight -= completions.len();
        if self.in_flight == 0 {
            self.idle_since = self.last;
        }
        for (slot, result) in completions {
            self.complete(slot, result, tally)?;
        }
        Ok(())
    }

    fn complete(&mut self, number: usize, result: i32, tally: &mut Tally) -> Result<(), Halt> {
        let block = self.shared.config.block_bytes;
        let slot = &mut self.ring.slots[number];
        let at = slot.offset + slot.done as u64;
        match result {
            0 => return Err(ended_early(self.stream, at)),
            n if n > 0 => slot.done += n as usize,
            e if e == -libc::EAGAIN || e == -libc::EINTR => {}
            e => {
                let op = if self.stream.role == Role::Write {
                    "write"
                } else {
                    "read"
                };
                let error = io::Error::from_raw_os_error(-e);
                return Err(failed(op, self.stream, Some(at), &error));
            }
        }
        if slot.done < block {
            return self.push(number);
        }
        tally
            .latencies
            .record(self.last.duration_since(slot.issued));
        tally.stalls.note(self.start, slot.issued, self.last);
        self.free.push(number);
        self.account(number, tally)
    }

    fn account(&mut self, number: usize, tally: &mut Tally) -> Result<(), Halt> {
        let bytes = self.shared.config.block_bytes as u64;
        let counters = &self.shared.counters[self.index];
        tally.bytes += bytes;
        if self.stream.role == Role::Write {
            counters.written.fetch_add(bytes, Ordering::Relaxed);
            return Ok(());
        }
        counters.read.fetch_add(bytes, Ordering::Relaxed);
        if let Some(resident) = self.resident {
            *tally.cached_bytes.get_or_insert(0.0) += resident * bytes as f64;
        }
        if self.shared.config.verify {
            let slot = &self.ring.slots[number];
            let found =
                self.shared
                    .pattern
                    .check(slot.buffer.bytes(), self.stream.file, slot.offset);
            if let Some(range) = found {
                return Err(Halt::Mismatched(Mismatch {
                    path: self.stream.path.clone(),
                    offset: range.offset,
                    length: range.length,
                }));
            }
            tally.verified_bytes += bytes;
        }
        Ok(())
    }
}
