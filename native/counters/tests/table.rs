//! All processes of a node in one call, as the kernel shows them.

use gridwright_counters::table::{Row, Table};
use std::fs;
use std::path::Path;

const PASSING: &str = "kworker";

fn put(proc: &Path, pid: u32, name: &str, started: u64, flags: u32, ticks: u64, bytes: u64) {
    let directory = proc.join(pid.to_string());
    fs::create_dir_all(&directory).expect("there is room");
    let stat = format!(
        "{pid} ({name}) S 1 1 1 0 -1 {flags} 0 0 0 0 {ticks} 1 2 3 20 0 1 0 {started} 0 10 \
         0 0 0 0 0 0 0 0 0 0 0 0 0 17 5 0 0 3 0 0\n"
    );
    let io = format!("rchar: 1\nread_bytes: {bytes}\nwrite_bytes: 7\ncancelled_write_bytes: 9\n");
    fs::write(directory.join("stat"), stat).expect("there is room");
    fs::write(directory.join("io"), io).expect("there is room");
}

fn only(table: &mut Table) -> Row {
    let rows = table.look().expect("it is there");
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].clone()
}

#[test]
fn a_process_is_told_with_what_it_used_whatever_it_is_called() {
    let proc = tempfile::tempdir().expect("there is room");
    fs::create_dir(proc.path().join("sys")).expect("there is room");
    put(proc.path(), 7, "a) S 9 (b", 11, 4_194_304, 40, 100);
    let mut table = Table::new(proc.path(), vec![PASSING.to_owned()]);
    let expected = Row {
        pid: 7,
        started: 11,
        parent: 1,
        name: "a) S 9 (b".to_owned(),
        kernel: false,
        own_ticks: 41,
        children_ticks: 5,
        pages: 10,
        cpu: 5,
        moved: Some((100, 7)),
    };
    assert_eq!(only(&mut table), expected);
    put(proc.path(), 7, "a) S 9 (b", 11, 4_194_304, 50, 300);
    let later = only(&mut table);
    assert_eq!((later.own_ticks, later.moved), (51, Some((300, 7))));
    fs::remove_file(proc.path().join("7/io")).expect("it is there");
    fs::remove_dir_all(proc.path().join("7")).expect("it is there");
    assert_eq!(table.look().expect("it is there"), []);
}

#[test]
fn threads_of_the_kernel_that_pass_on_what_others_do_are_not_asked_what_they_moved() {
    let proc = tempfile::tempdir().expect("there is room");
    put(proc.path(), 2, "kworker/0:1", 1, 0x0020_0000, 1, 100);
    put(proc.path(), 3, "md127_resync", 1, 0x0020_0000, 1, 100);
    put(proc.path(), 4, "kworker", 1, 0, 1, 100);
    let mut table = Table::new(proc.path(), vec![PASSING.to_owned(), "md".to_owned()]);
    let rows = table.look().expect("it is there");
    let asked: Vec<(u32, bool)> = rows
        .iter()
        .map(|row| (row.pid, row.moved.is_some()))
        .collect();
    assert_eq!(asked, [(2, false), (3, true), (4, true)]);
}

#[test]
fn what_is_really_there_is_seen_and_a_number_that_is_used_again_is_another_process() {
    let mut table = Table::new(Path::new("/proc"), Vec::new());
    for _ in 0..3 {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep is there");
        let rows = table.look().expect("it is there");
        let own = rows.iter().find(|row| row.pid == child.id());
        assert_eq!(
            own.map(|row| row.parent),
            Some(std::process::id()),
            "{own:?}"
        );
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        let rows = table.look().expect("it is there");
        assert!(rows.iter().all(|row| row.pid != child.id()));
    }
}
