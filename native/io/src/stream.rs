//! One stream: prepares, waits at the gate, and runs on the engine that was asked for.

use crate::buffer::Buffer;
use crate::cache;
use crate::config::{Engine, Role};
use crate::failure::Halt;
use crate::file::{self, Allocation, failed};
use crate::metadata;
use crate::outcome::{Method, Tally};
use crate::positioned::PositionedStream;
use crate::progress::Shared;
use crate::uring::{self, Ring, UringStream};
use crate::usage::Usage;
use std::fs::File;
use std::io;

/// Runs stream `index` to its end and returns what it measured.
#[must_use]
pub fn run(shared: &Shared, index: usize) -> Tally {
    let mut tally = Tally::default();
    let result = match (shared.config.streams[index].role, shared.config.engine) {
        (Role::Metadata, _) => {
            tally.method.calls = "open, stat, read, unlink".into();
            tally.method.queue_depth = 1;
            metadata::run(shared, index, &mut tally)
        }
        (_, Engine::Null) => on_null(shared, index, &mut tally),
        (_, Engine::Buffered) => on_positioned(shared, index, false, None, &mut tally),
        (_, Engine::Direct) => on_direct(shared, index, &mut tally),
    };
    tally.end();
    match result {
        Ok(()) if tally.wall_s > 0.0 => shared.finished(tally.io_seconds()),
        Ok(()) => {}
        Err(halt) => {
            shared.stop();
            shared.gate.abort();
            // Until it failed; nothing if it failed before the start.
            let start = shared.started();
            tally.wall_s = start.map_or(0.0, |start| start.elapsed().as_secs_f64());
            tally.halt = Some(halt);
        }
    }
    tally
}

fn buffers(shared: &Shared, index: usize, count: usize) -> Result<Vec<Buffer>, Halt> {
    (0..count)
        .map(|_| Buffer::new(shared.config.block_bytes))
        .collect::<io::Result<_>>()
        .map_err(|e| failed("mmap", &shared.config.streams[index], None, &e))
}

fn on_null(shared: &Shared, index: usize, tally: &mut Tally) -> Result<(), Halt> {
    let buffers = buffers(shared, index, 1)?;
    let Some(bucket) = &shared.bucket else {
        return Err(Halt::Aborted);
    };
    tally.method.calls = "null".into();
    tally.method.queue_depth = 1;
    let start = tally.begin(shared)?;
    PositionedStream::new(shared, index, bucket, false).run(start, buffers, None, tally)
}

fn on_positioned(
    shared: &Shared,
    index: usize,
    direct: bool,
    note: Option<String>,
    tally: &mut Tally,
) -> Result<(), Halt> {
    let stream = &shared.config.streams[index];
    let file = file::open(stream, direct)?;
    let depth = if direct { shared.config.queue_depth } else { 1 };
    let allocation = preallocate(shared, index, &file, direct)?;
    let resident = resident(&file, shared, index);
    tally.method = Method {
        calls: match depth {
            1 => "pread/pwrite".into(),
            _ => format!("pread/pwrite by {depth} threads a stream"),
        },
        direct,
        queue_depth: depth,
        preallocated: allocation.as_ref().is_some_and(Allocation::works),
        note,
        ..Method::default()
    };
    let buffers = buffers(shared, index, depth)?;
    let start = tally.begin(shared)?;
    PositionedStream::new(shared, index, &file, shared.config.verify)
        .run(start, buffers, resident, tally)?;
    if let Some(allocation) = &allocation {
        allocation.trim(&file, tally.bytes);
    }
    Ok(())
}

fn on_direct(shared: &Shared, index: usize, tally: &mut Tally) -> Result<(), Halt> {
    let refused = if shared.config.no_io_uring {
        Some("io_uring was switched off".to_owned())
    } else {
        uring::probe()
            .err()
            .map(|e| format!("io_uring is refused here: {e}"))
    };
    if refused.is_some() {
        return on_positioned(shared, index, true, refused, tally);
    }
    let stream = &shared.config.streams[index];
    let file = file::open(stream, true)?;
    let allocation = preallocate(shared, index, &file, true)?;
    let resident = resident(&file, shared, index);
    let (ring, method) = Ring::new(&file, shared.config.queue_depth, shared.config.block_bytes)
        .map_err(|e| failed("io_uring", stream, None, &e))?;
    tally.method = method;
    tally.method.preallocated = allocation.as_ref().is_some_and(Allocation::works);
    let start = tally.begin(shared)?;
    UringStream::new(shared, index, &file, ring, resident, start).run(start, allocation, tally)?;
    tally.usage.add(Usage::of_kernel_workers());
    Ok(())
}

fn preallocate(
    shared: &Shared,
    index: usize,
    file: &File,
    direct: bool,
) -> Result<Option<Allocation>, Halt> {
    let stream = &shared.config.streams[index];
    if !direct || stream.role != Role::Write {
        return Ok(None);
    }
    Allocation::new(file, stream, shared.config.bytes_per_stream).map(Some)
}

fn resident(file: &File, shared: &Shared, index: usize) -> Option<f64> {
    let stream = &shared.config.streams[index];
    match stream.role {
        Role::Read => cache::resident_fraction(file, stream.base, stream.file_bytes),
        _ => None,
    }
}
