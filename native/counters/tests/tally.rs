//! Whatever jobs do, the series of two looks that follow each other add up to what was moved.

use gridwright_counters::tally::{Place, Row, Tally};
use proptest::prelude::*;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A job on a target: its name, since when it is counted, and bytes that it wrote since then.
type Jobs = Vec<(String, u64, u64)>;

fn write(path: &Path, jobs: &Jobs) {
    let mut text = String::from("job_stats:\n");
    for (name, start_ns, written) in jobs {
        let start = format!(
            "{}.{:09}",
            start_ns / 1_000_000_000,
            start_ns % 1_000_000_000
        );
        writeln!(
            text,
            "- job_id:          {name}\n  start_time:      {start} secs.nsecs\n  write_bytes:     \
             {{ samples: 1, unit: bytes, min: 1, max: 1, sum: {written}, sumsq: 1 }}"
        )
        .expect("memory takes it");
    }
    fs::write(path, text).expect("the directory takes it");
}

fn places(directory: &Path, count: usize) -> Vec<Place> {
    (0..count)
        .map(|number| Place {
            component: "ost".into(),
            filesystem: "fs".into(),
            target: format!("fs-OST{number:04}"),
            path: directory.join(number.to_string()),
        })
        .collect()
}

/// What two looks say together: the sum over all series that both have, begun at the same time.
fn between(before: &[Row], after: &[Row]) -> u64 {
    let key = |row: &Row| (row.of.clone(), row.job.clone(), row.since_ns);
    let old: HashMap<_, _> = before
        .iter()
        .map(|row| (key(row), row.figures[1]))
        .collect();
    after
        .iter()
        .filter_map(|row| Some(row.figures[1] - old.get(&key(row))?))
        .sum()
}

const SECOND: u64 = 1_000_000_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn rates_of_all_series_add_up_to_what_was_moved(
        steps in prop::collection::vec(
            prop::collection::vec((0_usize..2, 0_usize..12, 0_u64..1000, 0_u8..20), 0..30), 2..8)
    ) {
        let directory = tempfile::tempdir().expect("there is room");
        let places = places(directory.path(), 2);
        let mut jobs: [Jobs; 2] = [vec![("job0".into(), 1, 500)], Vec::new()];
        let mut tally = Tally::new(3);
        for (place, jobs) in places.iter().zip(&jobs) {
            write(&place.path, jobs);
        }
        let mut before = tally.look(&places, 100 * SECOND);
        for (number, step) in steps.into_iter().enumerate() {
            let start = (100 + number as u64) * SECOND + 1;
            let mut moved = 0;
            for (target, job, bytes, what) in step {
                let name = format!("job{job}");
                let jobs = &mut jobs[target];
                if let Some(row) = jobs.iter_mut().find(|row| row.0 == name) {
                    if what == 0 && row.1 != start {
                        // It was cleared: only what came after that can be known, and nobody moved before it.
                        (row.1, row.2) = (start, 0);
                    }
                    row.2 += bytes;
                } else {
                    jobs.push((name, start, bytes));
                }
                moved += bytes;
            }
            for (place, jobs) in places.iter().zip(&jobs) {
                write(&place.path, jobs);
            }
            let after = tally.look(&places, (101 + number as u64) * SECOND);
            prop_assert!(after.jobs.len() <= 3 + 1 && after.pairs.len() <= 3 + 2);
            // A job that is cleared after it moved in this step loses that, as nobody could know it.
            let lost = moved - between(&before.pairs, &after.pairs).min(moved);
            prop_assert_eq!(between(&before.jobs, &after.jobs), moved - lost);
            prop_assert!(between(&before.pairs, &after.pairs) <= moved);
            if lost > 0 {
                prop_assert!(jobs.iter().flatten().any(|row| row.1 == start));
            }
            before = after;
        }
    }
}

#[test]
fn a_job_that_was_there_before_has_moved_nothing_and_a_new_one_all_of_it() {
    let directory = tempfile::tempdir().expect("there is room");
    let places = places(directory.path(), 1);
    let mut tally = Tally::new(100);
    write(&places[0].path, &vec![("old".into(), SECOND, 7_000)]);
    let first = tally.look(&places, 10 * SECOND);
    let now = vec![
        ("old".into(), SECOND, 7_001),
        ("new".into(), 10 * SECOND, 50),
        ("unseen".into(), 2 * SECOND, 9),
    ];
    write(&places[0].path, &now);
    let second = tally.look(&places, 20 * SECOND);
    assert_eq!(between(&first.pairs, &second.pairs), 51);
    assert_eq!(between(&first.jobs, &second.jobs), 51);
    let old = second
        .pairs
        .iter()
        .find(|row| row.job.as_deref() == Some("old"))
        .expect("it is followed");
    assert_eq!(old.figures[1], 7_001, "as Lustre counts it");
    write(
        &places[0].path,
        &vec![
            ("old".into(), 20 * SECOND, 5),
            ("new".into(), 10 * SECOND, 50),
        ],
    );
    let third = tally.look(&places, 30 * SECOND);
    assert_eq!(
        between(&second.pairs, &third.pairs),
        5,
        "it was cleared meanwhile"
    );
}

#[test]
fn a_target_that_cannot_be_read_is_told_and_goes_on_where_it_was() {
    let directory = tempfile::tempdir().expect("there is room");
    let places = places(directory.path(), 2);
    let mut tally = Tally::new(100);
    for place in &places {
        write(&place.path, &vec![("job".into(), SECOND, 10)]);
    }
    let first = tally.look(&places, 10 * SECOND);
    fs::remove_file(&places[1].path).expect("it is there");
    let second = tally.look(&places, 20 * SECOND);
    assert_eq!(second.failed[0].0, "fs-OST0001");
    assert!(second.pairs.iter().all(|row| row.of == "fs-OST0000"));
    write(&places[1].path, &vec![("job".into(), SECOND, 35)]);
    let third = tally.look(&places, 30 * SECOND);
    assert_eq!(between(&first.pairs, &third.pairs), 25);
    assert_eq!(between(&second.jobs, &third.jobs), 25);
    let fourth = tally.look(&places[..1], 40 * SECOND);
    assert!(fourth.pairs.iter().all(|row| row.of == "fs-OST0000"));
}
