//! The walk finds all, in order, also where threads go down by themselves.

use gridwright_changes::walk::{Next, Request, Walk};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

fn tree(directory: &Path, depth: usize) -> usize {
    std::fs::write(directory.join("rows"), b"").unwrap();
    let below = if depth == 0 { 0 } else { 3 };
    let count: usize = (0..below)
        .map(|place| {
            let path = directory.join(format!("d{place}"));
            std::fs::create_dir(&path).unwrap();
            1 + tree(&path, depth - 1)
        })
        .sum();
    1 + count
}

fn request(place: &Path, most_waiting: usize) -> Request {
    Request {
        root: std::fs::File::open(place).unwrap().into(),
        chosen: Vec::new(),
        without_prefix: Vec::new(),
        without_in_root: Vec::new(),
        threads: 3,
        most_waiting,
    }
}

#[test]
fn all_is_told_once_and_parents_first() {
    let place = tempfile::tempdir().unwrap();
    let count = tree(place.path(), 5);
    for most_waiting in [0, 1, 5, 1000] {
        let walk = Walk::start(request(place.path(), most_waiting)).unwrap();
        let mut told = HashSet::from([Vec::new()]);
        loop {
            match walk.next(Duration::from_secs(10)) {
                Next::Some(batch) => {
                    for entry in batch.entries {
                        let end = entry.path.iter().rposition(|byte| *byte == b'/');
                        assert!(told.contains(&entry.path[..end.unwrap_or(0)]));
                        assert!(told.insert(entry.path));
                    }
                }
                Next::Waiting => panic!("it hangs"),
                Next::Ended => break,
            }
        }
        assert_eq!(told.len() - 1, count);
    }
}

#[test]
fn a_walk_that_nobody_listens_to_ends() {
    let place = tempfile::tempdir().unwrap();
    for each in 0..200 {
        std::fs::create_dir(place.path().join(format!("d{each}"))).unwrap();
        std::fs::write(place.path().join(format!("d{each}/rows")), b"").unwrap();
    }
    let walk = Walk::start(request(place.path(), 1000)).unwrap();
    assert!(matches!(walk.next(Duration::from_secs(10)), Next::Some(_)));
    walk.stop();
    // The channel closes only when each thread has ended.
    loop {
        match walk.next(Duration::from_secs(10)) {
            Next::Ended => break,
            Next::Some(_) => {}
            Next::Waiting => panic!("threads go on"),
        }
    }
}
