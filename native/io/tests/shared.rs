//! Streams that share one file, and phases that are held until all nodes are ready.

use gridwright_io::config::PhaseConfig;
use gridwright_io::phase::Phase;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const BLOCK: u64 = 16 << 10;
/// Engine, requests in flight, and whether `io_uring` is refused.
const WAYS: [(&str, u64, bool); 4] = [
    ("buffered", 1, false),
    ("direct", 4, false),
    ("direct", 1, true),
    ("direct", 4, true),
];

fn here() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn file_in(directory: &TempDir, name: &str) -> PathBuf {
    directory.path().join(name)
}

/// Parts of one file, `blocks` long each, from the `first` on.
fn parts(role: &str, path: &Path, blocks: u64, numbers: std::ops::Range<u64>) -> Vec<Value> {
    let length = blocks * BLOCK;
    numbers
        .map(|number| {
            json!({"role": role, "path": path, "file": 5, "file_bytes": length,
                   "base": number * length, "shared": true})
        })
        .collect()
}

/// What one of the nodes does before all open the file.
fn make_shared(streams: &[Value]) {
    for stream in streams.iter().filter(|stream| stream["shared"] == true) {
        let path = stream["path"].as_str().unwrap();
        if stream["role"] == "write" {
            let mut options = fs::OpenOptions::new();
            options.create(true).append(true).open(path).unwrap();
        }
    }
}

fn config(way: (&str, u64, bool), streams: &[Value]) -> Value {
    json!({
        "engine": way.0, "block_bytes": BLOCK, "queue_depth": way.1, "bytes_per_stream": null,
        "seconds": 30.0, "sample_s": 0.05, "seed": 7, "verify": true, "max_files": 0,
        "no_io_uring": way.2, "null": null, "streams": streams,
    })
}

fn start(config: &Value) -> Phase {
    let config: PhaseConfig = serde_json::from_value(config.clone()).unwrap();
    Phase::start(config).unwrap()
}

fn ended(phase: Phase) -> Value {
    assert!(phase.wait(Duration::from_secs(30)), "the phase hangs");
    serde_json::to_value(phase.result().unwrap()).unwrap()
}

fn run(way: (&str, u64, bool), streams: &[Value], bytes: u64) -> Value {
    make_shared(streams);
    let mut config = config(way, streams);
    config["bytes_per_stream"] = bytes.into();
    ended(start(&config))
}

fn whole(role: &str, path: &Path, bytes: u64) -> Value {
    json!({"role": role, "path": path, "file": 5, "file_bytes": bytes})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn parts_written_together_are_the_file_that_one_stream_writes(
        count in 1u64..6, blocks in 1u64..6, way in 0usize..WAYS.len(), split in 0u64..6, laps in 1u64..3,
    ) {
        let directory = here();
        let (shared, alone) = (file_in(&directory, "shared"), file_in(&directory, "alone"));
        // Two phases, as two nodes would: the first part of the streams, then the rest.
        let split = split.min(count);
        for numbers in [split..count, 0..split] {
            if !numbers.is_empty() {
                let streams = parts("write", &shared, blocks, numbers);
                let written = run(WAYS[way], &streams, laps * blocks * BLOCK);
                prop_assert_eq!(&written["failure"], &Value::Null);
            }
        }
        run(("buffered", 1, false), &[whole("write", &alone, count * blocks * BLOCK)], count * blocks * BLOCK);
        prop_assert!(fs::read(&shared).unwrap() == fs::read(&alone).unwrap());
        let read = run(WAYS[way], &parts("read", &shared, blocks, 0..count), blocks * BLOCK);
        prop_assert_eq!(&read["mismatch"], &Value::Null);
        prop_assert_eq!(&read["verified_bytes"], &json!(count * blocks * BLOCK));
    }
}

#[test]
fn a_wrong_byte_is_found_at_its_place_in_the_shared_file() {
    for way in WAYS {
        let directory = here();
        let path = file_in(&directory, "shared");
        run(way, &parts("write", &path, 4, 0..3), 4 * BLOCK);
        let at = 4 * BLOCK + BLOCK + 77;
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 4], at).unwrap();
        drop(file);
        let read = run(way, &parts("read", &path, 4, 0..3), 4 * BLOCK);
        assert_eq!(read["mismatch"]["offset"], at, "{way:?}");
        assert_eq!(read["mismatch"]["length"], 1, "{way:?}");
    }
}

#[test]
fn a_part_beyond_the_end_of_the_file_is_a_failure() {
    let directory = here();
    let path = file_in(&directory, "shared");
    run(WAYS[0], &parts("write", &path, 2, 0..2), 2 * BLOCK);
    let read = run(WAYS[0], &parts("read", &path, 2, 2..3), 2 * BLOCK);
    let message = read["failure"]["message"].as_str().unwrap();
    assert_eq!(
        message,
        format!("the file ends at byte {} of {}", 4 * BLOCK, 6 * BLOCK)
    );
}

#[test]
fn a_stop_with_discard_leaves_the_parts_of_others_alone() {
    let directory = here();
    let path = file_in(&directory, "shared");
    run(WAYS[0], &parts("write", &path, 64, 0..2), 64 * BLOCK);
    for _ in 0..20 {
        let phase = start(&config(WAYS[0], &parts("write", &path, 64, 1..2)));
        thread::sleep(Duration::from_millis(3));
        phase.finish();
        phase.stop(true);
        ended(phase);
        let read = run(WAYS[0], &parts("read", &path, 64, 0..1), 64 * BLOCK);
        assert_eq!(read["mismatch"], Value::Null);
        assert_eq!(read["failure"], Value::Null);
    }
}

#[test]
fn a_shared_file_that_nobody_made_is_not_made_by_its_streams() {
    let directory = here();
    let path = file_in(&directory, "shared");
    let outcome = ended(start(&config(WAYS[0], &parts("write", &path, 1, 0..2))));
    assert_eq!(outcome["failure"]["errno"], libc::ENOENT);
    assert!(!path.exists());
}

#[test]
fn a_base_that_is_not_whole_blocks_is_refused() {
    let mut config = config(WAYS[0], &parts("write", Path::new("x"), 1, 0..1));
    config["streams"][0]["base"] = 1.into();
    let config: PhaseConfig = serde_json::from_value(config).unwrap();
    assert!(config.validate().unwrap_err().contains("base"));
}

fn held(directory: &TempDir) -> Phase {
    let path = file_in(directory, "held");
    let streams = parts("write", &path, 4, 0..2);
    make_shared(&streams);
    let mut config = config(WAYS[0], &streams);
    config["held"] = true.into();
    config["bytes_per_stream"] = (4 * BLOCK).into();
    start(&config)
}

fn armed(phase: &Phase) {
    let since = Instant::now();
    while !phase.armed() {
        assert!(since.elapsed() < Duration::from_secs(10), "never armed");
        thread::yield_now();
    }
}

#[test]
fn a_held_phase_moves_nothing_until_it_is_let_go() {
    let directory = here();
    let phase = held(&directory);
    armed(&phase);
    assert!(!phase.wait(Duration::from_millis(100)));
    assert_eq!(phase.progress().written_bytes, 0);
    assert!(phase.samples(0).is_empty());
    phase.open();
    let outcome = ended(phase);
    assert_eq!(outcome["written_bytes"], 8 * BLOCK);
    // The wait is nobody's I/O time.
    assert!(outcome["wall_s"].as_f64().unwrap() < 5.0);
}

#[test]
fn a_held_phase_can_be_stopped_before_it_is_let_go() {
    let directory = here();
    let phase = held(&directory);
    armed(&phase);
    phase.stop(true);
    let outcome = ended(phase);
    assert_eq!(outcome["started"], false);
    assert_eq!(outcome["bytes"], 0);
    assert_eq!(outcome["seconds_last"], Value::Null);
}

#[test]
fn a_held_phase_that_cannot_prepare_ends_by_itself() {
    let directory = here();
    let mut streams = parts("write", &file_in(&directory, "held"), 1, 0..1);
    streams.extend(parts("read", Path::new("/nowhere/at/all"), 1, 0..1));
    let mut config = config(WAYS[0], &streams);
    config["held"] = true.into();
    let outcome = ended(start(&config));
    assert_eq!(outcome["started"], false);
    assert_eq!(outcome["failure"]["op"], "open");
}

#[test]
fn percentiles_can_be_had_again_from_the_counts() {
    let directory = here();
    let outcome = run(
        WAYS[0],
        &[whole("write", &file_in(&directory, "one"), 300 * BLOCK)],
        300 * BLOCK,
    );
    let counts: Vec<(u64, u64)> =
        serde_json::from_value(outcome["latency_counts"].clone()).unwrap();
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    assert_eq!(total, 300);
    for (name, quantile) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99_9", 0.999)] {
        let rank = (quantile * total as f64).ceil() as u64;
        let mut seen = 0;
        let (value, _) = counts
            .iter()
            .find(|(_, count)| {
                seen += count;
                seen >= rank
            })
            .unwrap();
        assert_eq!(
            outcome["latency_us"][name],
            *value as f64 / 1000.0,
            "{name}"
        );
    }
    assert_eq!(
        outcome["latency_us"]["max"],
        counts.last().unwrap().0 as f64 / 1000.0
    );
}
