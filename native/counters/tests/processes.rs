//! What processes used stays with their job, whoever ends, and whoever waits for them.

use gridwright_counters::processes::{Job, Processes};
use std::fs;
use std::path::Path;

/// Writes the files of a process as /proc has them, in place: what is open reads them, too.
fn put(
    proc: &Path,
    pid: u32,
    parent: u32,
    started: u64,
    environment: &str,
    ticks: u64,
    bytes: u64,
) {
    let directory = proc.join(pid.to_string());
    fs::create_dir_all(&directory).expect("there is room");
    let stat = format!(
        "{pid} (a) b)) S {parent} 1 1 0 -1 4194304 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {started} 0 10 \
         0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 3 0 0\n"
    );
    let io = format!(
        "rchar: 1\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: {bytes}\nwrite_bytes: {bytes}\n"
    );
    for (name, text) in [
        ("stat", stat),
        ("io", io),
        ("environ", environment.to_owned()),
    ] {
        fs::write(directory.join(name), text).expect("there is room");
    }
}

fn end(proc: &Path, pid: u32) {
    fs::remove_dir_all(proc.join(pid.to_string())).expect("it is there");
}

fn only(jobs: &[Job]) -> &Job {
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    &jobs[0]
}

#[test]
fn a_process_is_of_the_job_of_its_environment_or_of_its_nearest_ancestor() {
    let proc = tempfile::tempdir().expect("there is room");
    let proc = proc.path();
    put(proc, 1, 0, 1, "HOME=/\0", 5, 5);
    put(proc, 10, 1, 2, "A=1\0SLURM_JOB_ID=7\0", 1, 100);
    put(proc, 11, 10, 3, "", 2, 20);
    put(
        proc,
        12,
        11,
        4,
        "SLURM_JOB_ID=7\0GRIDWRIGHT_JOB_ID=8_1\0",
        4,
        3,
    );
    let mut processes = Processes::new(proc);
    let jobs = processes.look().expect("it can be read");
    let told: Vec<_> = jobs
        .iter()
        .map(|job| (job.name.as_str(), job.used.ticks, job.used.read))
        .collect();
    assert_eq!(told, [("7", 3, 120), ("8_1", 4, 3)]);
    assert_eq!((jobs[0].pages, jobs[0].pids.clone()), (20, vec![10, 11]));
    // Whoever adopts it: a daemon of a job stays with it.
    end(proc, 10);
    put(proc, 11, 1, 3, "", 2, 21);
    let jobs = processes.look().expect("it can be read");
    assert_eq!((jobs[0].name.as_str(), jobs[0].used.read), ("7", 121));
}

#[test]
fn what_was_used_stays_when_processes_end() {
    let proc = tempfile::tempdir().expect("there is room");
    let proc = proc.path();
    put(proc, 10, 1, 2, "SLURM_JOB_ID=7\0", 1, 100);
    put(proc, 11, 10, 3, "", 2, 50);
    put(proc, 12, 99, 3, "SLURM_JOB_ID=7\0", 2, 30);
    let mut processes = Processes::new(proc);
    assert_eq!(
        only(&processes.look().expect("it can be read")).used.read,
        180
    );
    // Its parent waited for it, and has all of it: also what it did after the last look.
    end(proc, 11);
    put(proc, 10, 1, 2, "SLURM_JOB_ID=7\0", 4, 155);
    let jobs = processes.look().expect("it can be read");
    assert_eq!((only(&jobs).used.read, only(&jobs).used.ticks), (185, 6));
    // Somebody else waited for it.
    end(proc, 12);
    let jobs = processes.look().expect("it can be read");
    assert_eq!((only(&jobs).used.read, only(&jobs).since_look), (185, 1));
    // A parent that ignores how its children end gets nothing: the counter begins anew, and does not fall.
    put(proc, 13, 10, 9, "", 2, 40);
    assert_eq!(
        only(&processes.look().expect("it can be read")).used.read,
        225
    );
    end(proc, 13);
    let jobs = processes.look().expect("it can be read");
    assert_eq!((only(&jobs).used.read, only(&jobs).since_look), (225, 5));
    end(proc, 10);
    assert_eq!(processes.look().expect("it can be read"), []);
}

#[test]
fn a_number_that_is_used_again_is_another_process() {
    let proc = tempfile::tempdir().expect("there is room");
    let proc = proc.path();
    put(proc, 10, 1, 2, "SLURM_JOB_ID=7\0", 1, 100);
    put(proc, 20, 1, 2, "", 1, 1000);
    let mut processes = Processes::new(proc);
    assert_eq!(
        only(&processes.look().expect("it can be read")).used.read,
        100
    );
    put(proc, 20, 10, 900, "", 1, 7);
    let read: Vec<u64> = (0..31)
        .map(|_| only(&processes.look().expect("it can be read")).used.read)
        .collect();
    assert_eq!((read[0], read[30]), (100, 107));
    fs::write(proc.join("10/stat"), "nonsense").expect("it is there");
    put(proc, 20, 10, 900, "", 1, 8);
    assert_eq!(
        only(&processes.look().expect("it can be read")).used.read,
        108
    );
}

#[test]
fn what_a_line_of_processes_used_that_ended_together_is_at_the_living_one_above_them() {
    let proc = tempfile::tempdir().expect("there is room");
    let proc = proc.path();
    put(proc, 10, 1, 2, "SLURM_JOB_ID=7\0", 1, 100);
    put(proc, 11, 10, 3, "", 1, 10);
    put(proc, 12, 11, 4, "", 1, 5);
    let mut processes = Processes::new(proc);
    assert_eq!(
        only(&processes.look().expect("it can be read")).used.read,
        115
    );
    end(proc, 11);
    end(proc, 12);
    put(proc, 10, 1, 2, "SLURM_JOB_ID=7\0", 4, 118);
    let jobs = processes.look().expect("it can be read");
    assert_eq!((only(&jobs).used.read, only(&jobs).since_look), (118, 1));
}

/// What the kernel says of when a process ran.
fn ran(proc: &Path, pid: u32, schedstat: &str) {
    fs::write(proc.join(pid.to_string()).join("schedstat"), schedstat).expect("there is room");
}

#[test]
fn who_has_not_run_is_known_without_being_read_and_who_has_is_read_at_once() {
    let proc = tempfile::tempdir().expect("there is room");
    let proc = proc.path();
    put(proc, 10, 1, 2, "SLURM_JOB_ID=7\0", 1, 100);
    ran(proc, 10, "5000 1 1\n");
    let mut processes = Processes::new(proc);
    for _ in 0..4 {
        let jobs = processes.look().expect("it can be read");
        assert_eq!(only(&jobs).used.read, 100);
    }
    // No kernel says this: it shows that the long files are not read.
    put(proc, 10, 1, 2, "SLURM_JOB_ID=7\0", 9, 900);
    let jobs = processes.look().expect("it can be read");
    assert_eq!(only(&jobs).used.read, 100);
    ran(proc, 10, "6000 1 2\n");
    let jobs = processes.look().expect("it can be read");
    assert_eq!((only(&jobs).used.read, only(&jobs).used.ticks), (900, 9));
    for round in 1..40 {
        // It moves a little each time that it runs, and never uses a tick of CPU time.
        put(proc, 10, 1, 2, "SLURM_JOB_ID=7\0", 9, 900 + round);
        ran(proc, 10, &format!("{} 1 {}\n", 6000 + round, 2 + round / 3));
        let jobs = processes.look().expect("it can be read");
        assert_eq!(only(&jobs).used.read, 900 + round);
    }
    for _ in 0..3 {
        processes.look().expect("it can be read");
    }
    put(proc, 10, 1, 2, "SLURM_JOB_ID=7\0", 9, 5000);
    let seen: Vec<u64> = (0..12)
        .map(|_| only(&processes.look().expect("it can be read")).used.read)
        .collect();
    assert_eq!(
        (seen[0], seen[11]),
        (939, 5000),
        "memory is looked at again now and then"
    );
    end(proc, 10);
    assert_eq!(processes.look().expect("it can be read"), []);
}

#[test]
fn who_has_several_threads_or_a_kernel_that_does_not_count_is_read_each_time() {
    let proc = tempfile::tempdir().expect("there is room");
    let proc = proc.path();
    for (pid, schedstat, threads) in [(10, "0 0 0\n", "1"), (11, "5000 1 1\n", "2"), (12, "", "1")]
    {
        let mut processes = Processes::new(proc);
        for bytes in 0..8 {
            put(
                proc,
                pid,
                1,
                2,
                "SLURM_JOB_ID=7\0",
                1,
                if bytes < 5 { 100 } else { 100 * bytes },
            );
            if schedstat.is_empty() {
                let _ = fs::remove_file(proc.join(format!("{pid}/schedstat")));
            } else {
                ran(proc, pid, schedstat);
            }
            let stat = proc.join(format!("{pid}/stat"));
            let text = fs::read_to_string(&stat).expect("it is there");
            fs::write(
                stat,
                text.replace(" 20 0 1 0 2 ", &format!(" 20 0 {threads} 0 2 ")),
            )
            .expect("there is room");
            let jobs = processes.look().expect("it can be read");
            assert_eq!(
                only(&jobs).used.read,
                if bytes < 5 { 100 } else { 100 * bytes }
            );
        }
        end(proc, pid);
    }
}
