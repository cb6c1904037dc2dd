//! A stream that is too far ahead of its disk flushes inside its time: on a device that counts and takes its time.

use gridwright_io::buffer::Buffer;
use gridwright_io::config::{PhaseConfig, StreamConfig};
use gridwright_io::outcome::Tally;
use gridwright_io::positioned::{Positioned, PositionedStream};
use gridwright_io::progress::Shared;
use serde_json::json;
use std::io;
use std::os::fd::RawFd;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

const BLOCK: u64 = 1 << 20;
const MIB: u64 = 1 << 20;

/// Takes writes at once and flushes them at `MIB_PER_S`; remembers how much each flush had.
#[derive(Default)]
struct SlowDisk {
    state: Mutex<(u64, Vec<u64>)>,
}

const MIB_PER_S: u64 = 2048;

impl Positioned for SlowDisk {
    fn read(&self, block: &mut [u8], _offset: u64) -> io::Result<usize> {
        Ok(block.len())
    }

    fn write(&self, block: &[u8], _offset: u64) -> io::Result<usize> {
        self.state.lock().unwrap().0 += block.len() as u64;
        Ok(block.len())
    }

    fn sync(&self) -> io::Result<()> {
        let bytes = {
            let mut state = self.state.lock().unwrap();
            let bytes = std::mem::take(&mut state.0);
            state.1.push(bytes);
            bytes
        };
        thread::sleep(Duration::from_secs_f64(
            bytes as f64 / (MIB_PER_S * MIB) as f64,
        ));
        Ok(())
    }

    fn descriptor(&self) -> Option<RawFd> {
        None
    }

    fn evict(&self, _stream: &StreamConfig) -> io::Result<Option<f64>> {
        Ok(None)
    }
}

/// What each flush of a stream of so many blocks had, in MiB; and its time in flushes and of all.
fn run(blocks: u64, within_s: Option<f64>) -> (Vec<u64>, f64, f64) {
    let config: PhaseConfig = serde_json::from_value(json!({
        "engine": "buffered", "block_bytes": BLOCK, "queue_depth": 1, "bytes_per_stream": blocks * BLOCK,
        "seconds": null, "flush_within_s": within_s, "sample_s": 1.0, "seed": 7, "verify": false,
        "max_files": 0, "no_io_uring": false, "null": null,
        "streams": [{"role": "write", "path": "none", "file": 0, "file_bytes": blocks * BLOCK}],
    }))
    .unwrap();
    let shared = Shared::new(config);
    let disk = SlowDisk::default();
    let mut tally = Tally::default();
    let buffers = vec![Buffer::new(BLOCK as usize).unwrap()];
    PositionedStream::new(&shared, 0, &disk, false)
        .run(Instant::now(), buffers, None, &mut tally)
        .ok()
        .unwrap();
    assert!(tally.synced);
    assert_eq!(tally.bytes, blocks * BLOCK);
    let flushes = disk.state.into_inner().unwrap().1;
    let in_mib = flushes.iter().map(|bytes| bytes / MIB).collect();
    (in_mib, tally.fsync_s, tally.io_seconds())
}

#[test]
fn what_is_in_memory_at_the_end_is_bounded_and_all_flushes_are_in_the_time() {
    let (flushes, fsync_s, io_s) = run(200, Some(0.001));
    assert_eq!(flushes, [32, 32, 32, 32, 32, 32, 8]);
    let least = 200.0 / MIB_PER_S as f64;
    assert!(
        fsync_s >= least && io_s >= fsync_s,
        "{fsync_s} s of {io_s} s"
    );
}

#[test]
fn without_a_bound_all_is_left_to_the_closing_fsync() {
    assert_eq!(run(200, None).0, [200]);
}

#[test]
fn a_disk_that_keeps_up_is_asked_once_how_fast_it_is() {
    assert_eq!(run(200, Some(4.0)).0, [32, 168]);
}
