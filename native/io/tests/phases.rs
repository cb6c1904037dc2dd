//! Phases as a caller sees them: what is written is read back right, and every way out is clean.

use gridwright_io::config::PhaseConfig;
use gridwright_io::outcome::PhaseOutcome;
use gridwright_io::phase::{Phase, Sample};
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const BLOCK: u64 = 64 << 10;
const FILE: u64 = 16 * BLOCK;

/// One phase to be; everything has a default that suits a small test.
struct Plan {
    config: Value,
}

fn stream(role: &str, path: &Path, file: u64) -> Value {
    json!({"role": role, "path": path, "file": file, "file_bytes": FILE})
}

impl Plan {
    fn new(engine: &str, streams: impl Into<Value>) -> Self {
        let streams: Value = streams.into();
        Self {
            config: json!({
                "engine": engine, "block_bytes": BLOCK, "queue_depth": 1, "bytes_per_stream": FILE,
                "seconds": null, "sample_s": 0.05, "seed": 7, "verify": true, "max_files": 50,
                "no_io_uring": false, "null": null, "streams": streams,
            }),
        }
    }

    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.config[key] = value.into();
        self
    }

    fn start(&self) -> Phase {
        let config: PhaseConfig = serde_json::from_value(self.config.clone()).unwrap();
        Phase::start(config).unwrap()
    }

    fn run(&self) -> Value {
        ended(self.start())
    }
}

fn ended(phase: Phase) -> Value {
    assert!(phase.wait(Duration::from_secs(30)), "the phase hangs");
    let outcome: PhaseOutcome = phase.result().unwrap();
    serde_json::to_value(outcome).unwrap()
}

fn here() -> TempDir {
    // Not in /tmp, which may be a tmpfs: direct I/O and eviction are of a disk.
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn paths(directory: &TempDir, count: usize) -> Vec<PathBuf> {
    (0..count)
        .map(|number| directory.path().join(format!("stream-{number}.dat")))
        .collect()
}

fn streams(role: &str, paths: &[PathBuf]) -> Vec<Value> {
    (0..).zip(paths).map(|(n, p)| stream(role, p, n)).collect()
}

fn write(paths: &[PathBuf]) {
    let outcome = Plan::new("buffered", streams("write", paths)).run();
    assert_eq!(outcome["failure"], Value::Null, "{outcome}");
}

/// The ways to move data: engine, requests in flight, and whether `io_uring` is refused.
const WAYS: [(&str, u64, bool); 5] = [
    ("buffered", 1, false),
    ("direct", 1, false),
    ("direct", 8, false),
    ("direct", 1, true),
    ("direct", 8, true),
];

fn on(way: (&str, u64, bool), streams: Vec<Value>) -> Plan {
    Plan::new(way.0, streams)
        .with("queue_depth", way.1)
        .with("no_io_uring", way.2)
}

#[test]
fn every_engine_writes_and_every_engine_verifies_it() {
    for writer in WAYS {
        let directory = here();
        let files = paths(&directory, 2);
        let written = on(writer, streams("write", &files)).run();
        assert_eq!(written["failure"], Value::Null, "{writer:?}: {written}");
        assert_eq!(written["written_bytes"], 2 * FILE);
        assert_eq!(written["synced"], true);
        assert!(written["seconds_last"].as_f64() >= written["seconds_first"].as_f64());
        assert_eq!(written["streams"][0]["file_bytes"], FILE);
        for reader in WAYS {
            let read = on(reader, streams("read", &files)).run();
            assert_eq!(read["mismatch"], Value::Null, "{writer:?}, {reader:?}");
            assert_eq!(read["read_bytes"], 2 * FILE);
            assert_eq!(read["verified_bytes"], 2 * FILE);
            assert_eq!(read["method"]["direct"], reader.0 == "direct");
        }
    }
}

#[test]
fn all_engines_write_the_same_bytes() {
    let directory = here();
    let files = paths(&directory, WAYS.len());
    for (way, file) in WAYS.iter().zip(&files) {
        on(*way, vec![stream("write", file, 3)]).run();
    }
    let first = fs::read(&files[0]).unwrap();
    assert_eq!(first.len() as u64, FILE);
    for (way, file) in WAYS.iter().zip(&files).skip(1) {
        assert!(
            fs::read(file).unwrap() == first,
            "{way:?} wrote other bytes"
        );
    }
}

#[test]
fn the_block_size_does_not_change_the_bytes() {
    let directory = here();
    let files = paths(&directory, 3);
    for (block, file) in [4096, 64 << 10, 1 << 20].into_iter().zip(&files) {
        let plan = Plan::new("buffered", vec![stream("write", file, 3)]);
        plan.with("block_bytes", block).run();
    }
    let first = fs::read(&files[0]).unwrap();
    assert!(files.iter().all(|file| fs::read(file).unwrap() == first));
}

#[test]
fn a_refused_io_uring_is_said_and_what_was_used_instead() {
    let directory = here();
    let files = paths(&directory, 1);
    let refused = on(("direct", 4, true), streams("write", &files)).run();
    let method = &refused["method"];
    assert_eq!(method["io_uring"], false);
    assert_eq!(method["queue_depth"], 4);
    assert!(method["calls"].as_str().unwrap().contains("4 threads"));
    assert!(method["note"].as_str().unwrap().contains("io_uring"));
    let used = on(("direct", 4, false), streams("write", &files)).run();
    if used["method"]["io_uring"] == true {
        assert_eq!(used["method"]["registered_files"], true);
    } else {
        assert!(used["method"]["note"].is_string(), "a fallback says why");
    }
}

#[test]
fn a_flipped_byte_is_found_at_its_file_and_offset() {
    for way in WAYS {
        for at in [0, 12_345, FILE - 1] {
            let directory = here();
            let files = paths(&directory, 2);
            write(&files);
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&files[1])
                .unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1], at).unwrap();
            drop(file);
            let outcome = on(way, streams("read", &files)).run();
            let wrong = &outcome["mismatch"];
            assert_eq!(wrong["path"], files[1].to_str().unwrap(), "{way:?}");
            assert_eq!(wrong["offset"], at, "{way:?}");
            assert_eq!(wrong["length"], 1);
            for stream in outcome["streams"].as_array().unwrap() {
                assert!(
                    stream["seconds"].as_f64().unwrap() >= 0.0,
                    "{way:?}: {stream}"
                );
            }
        }
    }
}

#[test]
fn data_of_another_file_or_seed_is_wrong_from_its_first_byte() {
    let directory = here();
    let files = paths(&directory, 2);
    write(&files);
    fs::copy(&files[0], &files[1]).unwrap();
    let copied = Plan::new("buffered", streams("read", &files)).run();
    assert_eq!(copied["mismatch"]["path"], files[1].to_str().unwrap());
    assert_eq!(copied["mismatch"]["offset"], 0);
    let other_seed = Plan::new("buffered", streams("read", &files[..1]))
        .with("seed", 8)
        .run();
    // A stamp begins with file and offset, which are right; the seed follows.
    assert_eq!(other_seed["mismatch"]["offset"], 16);
}

#[test]
fn a_small_file_is_gone_over_again_and_stays_whole() {
    for way in WAYS {
        let directory = here();
        let files = paths(&directory, 2);
        let long = 5 * FILE + 3 * BLOCK;
        let written = on(way, streams("write", &files))
            .with("bytes_per_stream", long)
            .run();
        assert_eq!(written["written_bytes"], 2 * long, "{way:?}");
        assert_eq!(fs::metadata(&files[0]).unwrap().len(), FILE);
        assert!(written["streams"][0]["laps"].as_u64().unwrap() >= 5);
        let read = on(way, streams("read", &files))
            .with("bytes_per_stream", long)
            .run();
        assert_eq!(read["verified_bytes"], 2 * long, "{way:?}: {read}");
    }
}

#[test]
fn a_read_begins_with_nothing_in_the_cache_lap_after_lap() {
    let directory = here();
    let files = paths(&directory, 1);
    write(&files);
    assert!(fs::read(&files[0]).unwrap().len() as u64 == FILE);
    let long = 4 * FILE;
    let read = Plan::new("buffered", streams("read", &files))
        .with("bytes_per_stream", long)
        .run();
    if let Some(cached) = read["cached_fraction"].as_f64() {
        assert!(cached < 0.05, "{cached} of what was read was in the cache");
    }
}

#[test]
fn a_phase_by_time_ends_and_is_durable() {
    let directory = here();
    let files = paths(&directory, 2);
    let outcome = Plan::new("buffered", streams("write", &files))
        .with("bytes_per_stream", Value::Null)
        .with("seconds", 0.3)
        .run();
    assert_eq!(outcome["stopped"], false);
    assert_eq!(outcome["synced"], true);
    assert!(outcome["wall_s"].as_f64().unwrap() >= 0.3);
}

#[test]
fn an_order_to_stop_is_heeded_within_a_second() {
    for way in WAYS {
        let directory = here();
        let files = paths(&directory, 2);
        let plan = on(way, streams("write", &files))
            .with("bytes_per_stream", Value::Null)
            .with("seconds", 60.0);
        let phase = plan.start();
        assert!(!phase.wait(Duration::from_millis(200)));
        let told = Instant::now();
        phase.stop(true);
        assert!(phase.wait(Duration::from_secs(5)), "{way:?} goes on");
        let took = told.elapsed();
        assert!(took < Duration::from_secs(1), "{way:?} took {took:?}");
        let outcome = ended(phase);
        assert_eq!(outcome["stopped"], true);
        assert_eq!(outcome["synced"], false);
        assert_eq!(outcome["failure"], Value::Null);
    }
}

#[test]
fn finish_ends_a_phase_as_its_time_would() {
    let directory = here();
    let files = paths(&directory, 1);
    let phase = Plan::new("buffered", streams("write", &files))
        .with("bytes_per_stream", Value::Null)
        .with("seconds", 60.0)
        .start();
    assert!(!phase.wait(Duration::from_millis(100)));
    phase.finish();
    let outcome = ended(phase);
    assert_eq!(outcome["stopped"], false);
    assert_eq!(outcome["synced"], true);
}

#[test]
fn samples_rise_and_the_last_one_is_the_whole() {
    let directory = here();
    let files = paths(&directory, 2);
    for bytes in [BLOCK, 4 * FILE] {
        let phase = Plan::new("buffered", streams("write", &files))
            .with("bytes_per_stream", bytes)
            .start();
        assert!(phase.wait(Duration::from_secs(30)));
        // As soon as the phase has ended, its last sample is there, however short it was.
        let samples: Vec<Sample> = phase.samples(0);
        let last = samples.last().expect("a phase that ended has a sample");
        assert_eq!(last.written_bytes, 2 * bytes);
        for pair in samples.windows(2) {
            assert!(pair[0].elapsed_s < pair[1].elapsed_s);
            assert!(pair[0].written_bytes <= pair[1].written_bytes);
        }
        assert!(phase.samples(samples.len()).is_empty());
        assert_eq!(phase.progress().written_bytes, 2 * bytes);
    }
}

#[test]
fn a_missing_file_fails_all_streams_and_hangs_none() {
    for way in WAYS {
        let directory = here();
        let files = paths(&directory, 4);
        write(&files);
        fs::remove_file(&files[2]).unwrap();
        let outcome = on(way, streams("read", &files)).run();
        assert_eq!(outcome["started"], false, "{way:?}");
        assert_eq!(outcome["failure"]["errno"], libc::ENOENT);
        assert_eq!(outcome["failure"]["op"], "open");
        assert_eq!(outcome["failure"]["path"], files[2].to_str().unwrap());
        assert_eq!(outcome["bytes"], 0);
        for figure in [
            "seconds_first",
            "seconds_last",
            "wall_s",
            "latency_us",
            "cached_fraction",
        ] {
            assert_eq!(outcome[figure], Value::Null, "{figure} was not measured");
        }
    }
}

#[test]
fn a_short_file_says_where_it_ends() {
    for way in WAYS {
        let directory = here();
        let files = paths(&directory, 1);
        write(&files);
        let file = OpenOptions::new().write(true).open(&files[0]).unwrap();
        file.set_len(FILE / 2).unwrap();
        let outcome = on(way, streams("read", &files)).run();
        let message = outcome["failure"]["message"].as_str().unwrap();
        assert_eq!(
            message,
            format!("the file ends at byte {} of {FILE}", FILE / 2)
        );
        assert_eq!(outcome["failure"]["offset"], FILE / 2);
    }
}

#[test]
fn a_full_device_is_enospc_with_file_and_offset() {
    // Always full, and on every Linux; see full(4).
    let outcome = Plan::new("buffered", vec![stream("write", Path::new("/dev/full"), 0)]).run();
    let failure = &outcome["failure"];
    assert_eq!(failure["errno"], libc::ENOSPC);
    assert_eq!(failure["op"], "write");
    assert_eq!(failure["offset"], 0);
    assert_eq!(failure["path"], "/dev/full");
    assert_eq!(outcome["synced"], false);
}

#[test]
fn one_stream_that_fails_stops_the_others() {
    let directory = here();
    let files = paths(&directory, 3);
    let mut all = streams("write", &files);
    all.push(stream("write", Path::new("/dev/full"), 9));
    let outcome = Plan::new("buffered", all)
        .with("bytes_per_stream", Value::Null)
        .with("seconds", 60.0)
        .run();
    assert_eq!(outcome["failure"]["errno"], libc::ENOSPC);
    assert_eq!(outcome["stopped"], true);
    assert!(outcome["wall_s"].as_f64().unwrap() < 30.0);
}

#[test]
fn a_link_is_not_followed() {
    let directory = here();
    let files = paths(&directory, 1);
    let precious = directory.path().join("precious");
    fs::write(&precious, "mine").unwrap();
    std::os::unix::fs::symlink(&precious, &files[0]).unwrap();
    let outcome = Plan::new("buffered", streams("write", &files)).run();
    assert_eq!(outcome["failure"]["errno"], libc::ELOOP);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
}

#[test]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let directory = here();
    let files = paths(&directory, 1);
    write(&files);
    let mode = File::open(&files[0])
        .unwrap()
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0);
}

#[test]
fn half_may_read_while_half_write() {
    let directory = here();
    let files = paths(&directory, 4);
    write(&files[..2]);
    let mut all = streams("read", &files[..2]);
    all.extend((2..4).map(|n| stream("write", &files[n], n as u64)));
    let outcome = Plan::new("buffered", all).run();
    assert_eq!(outcome["failure"], Value::Null);
    assert_eq!(outcome["read_bytes"], 2 * FILE);
    assert_eq!(outcome["written_bytes"], 2 * FILE);
}

#[test]
fn metadata_creates_stats_reads_and_unlinks_as_many_files() {
    let directory = here();
    let places = [directory.path().join("a"), directory.path().join("b")];
    let outcome = Plan::new("buffered", streams("metadata", &places))
        .with("bytes_per_stream", Value::Null)
        .run();
    assert_eq!(outcome["failure"], Value::Null, "{outcome}");
    for step in ["create", "stat", "read", "unlink"] {
        assert_eq!(outcome["operations"][step]["count"], 100, "{step}");
        assert!(outcome["operations"][step]["seconds"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(outcome["bytes"], 0);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn metadata_by_time_removes_all_that_it_made() {
    let directory = here();
    let places = [directory.path().join("a")];
    let outcome = Plan::new("buffered", streams("metadata", &places))
        .with("bytes_per_stream", Value::Null)
        .with("seconds", 0.2)
        .with("max_files", 10_000_000)
        .run();
    let created = &outcome["operations"]["create"]["count"];
    assert!(created.as_u64().unwrap() > 0);
    assert_eq!(&outcome["operations"]["unlink"]["count"], created);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn metadata_in_a_place_that_is_taken_fails_and_hangs_none() {
    let directory = here();
    let places = [directory.path().join("a"), directory.path().join("b")];
    fs::create_dir(&places[1]).unwrap();
    let outcome = Plan::new("buffered", streams("metadata", &places)).run();
    assert_eq!(outcome["failure"]["errno"], libc::EEXIST);
    assert_eq!(outcome["failure"]["op"], "mkdir");
}

#[test]
fn the_null_engine_moves_bytes_at_its_rate_and_touches_no_file() {
    let nowhere = PathBuf::from("/nowhere/at/all");
    let volume = json!({
        "burst_bytes_per_s": 64.0e6, "steady_bytes_per_s": null, "bucket_bytes": 0.0, "delay_s": 0.0,
    });
    let outcome = Plan::new("null", vec![stream("write", &nowhere, 0)])
        .with("null", volume)
        .with("bytes_per_stream", 32_000_000 / BLOCK * BLOCK)
        .run();
    assert_eq!(outcome["failure"], Value::Null);
    assert_eq!(outcome["method"]["calls"], "null");
    assert!(
        outcome["wall_s"].as_f64().unwrap() >= 0.49,
        "faster than the volume"
    );
}

#[test]
fn a_wrong_configuration_is_refused_before_a_thread_starts() {
    let nowhere = vec![stream("write", Path::new("/nowhere"), 0)];
    for (key, value) in [
        ("block_bytes", json!(1000)),
        ("queue_depth", json!(0)),
        ("streams", json!([])),
        ("sample_s", json!(0.0)),
        ("engine", json!("null")),
    ] {
        let plan = Plan::new("buffered", nowhere.clone()).with(key, value);
        let config: PhaseConfig = serde_json::from_value(plan.config).unwrap();
        assert!(Phase::start(config).is_err(), "{key}");
    }
}

#[test]
fn a_result_is_not_given_before_the_end() {
    let directory = here();
    let files = paths(&directory, 1);
    let phase = Plan::new("buffered", streams("write", &files))
        .with("bytes_per_stream", Value::Null)
        .with("seconds", 60.0)
        .start();
    assert!(phase.result().is_err());
}

#[test]
fn a_request_that_takes_seconds_is_a_stall_with_its_place_and_length() {
    let outcome = Plan::new("null", vec![stream("write", Path::new("/nowhere"), 0)])
        .with("bytes_per_stream", 2 * BLOCK)
        .with(
            "null",
            json!({"burst_bytes_per_s": null, "steady_bytes_per_s": null, "bucket_bytes": 0.0, "delay_s": 3.2}),
        )
        .run();
    let stalls = outcome["streams"][0]["stalls"].as_array().unwrap();
    assert_eq!(stalls.len(), 2, "{outcome}");
    for (stall, begin) in stalls.iter().zip([0.0, 3.2]) {
        assert!((stall["start_s"].as_f64().unwrap() - begin).abs() < 0.5);
        assert!((stall["seconds"].as_f64().unwrap() - 3.2).abs() < 0.5);
    }
}
