//! Processes below this one: who they are, what they use, and how they are ended.

use crate::system::{kill, this_process};
use std::fs;

/// The processes right below another, also those that have ended and were not waited for
/// (`proc_pid_task(5)`, `children`).
#[must_use]
pub fn children(pid: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| {
            text.split_ascii_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// All processes below some, these included; parents first.
#[must_use]
pub fn with_descendants(mut found: Vec<i32>) -> Vec<i32> {
    let mut at = 0;
    while at < found.len() {
        let below = children(found[at]);
        found.extend(below);
        at += 1;
    }
    found
}

/// All processes below this one.
#[must_use]
pub fn below_this() -> Vec<i32> {
    with_descendants(children(this_process()))
}

/// Sends signals to processes below this one, one signal after another.
///
/// None of them can have become another process meanwhile: who waits for it is this process, or an
/// ancestor of it that is below this process and may have waited in this very moment. The kernel gives
/// numbers out in turn, so that such a number is not given to another one as soon as that.
pub fn signal_all(pids: &[i32], signals: &[i32]) {
    for signal in signals {
        for pid in pids {
            kill(*pid, *signal);
        }
    }
}

/// Memory that processes have to themselves: resident, less what they map from files (`proc_pid_statm(5)`).
#[must_use]
pub fn resident_bytes(pids: &[i32]) -> i64 {
    // SAFETY: no memory is handed over.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let pages = |pid: &i32| {
        let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        let mut fields = text.split_ascii_whitespace().skip(1).map(str::parse::<i64>);
        Some(fields.next()?.ok()? - fields.next()?.ok()?)
    };
    pids.iter().filter_map(pages).sum::<i64>() * page
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn descendants_are_found_with_what_they_hold() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 30 & read x"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        while children(pid).is_empty() {
            std::thread::yield_now();
        }
        let found = with_descendants(vec![pid]);
        assert_eq!(found.len(), 2);
        assert!(resident_bytes(&found) > 0);
        signal_all(&found, &[libc::SIGKILL]);
        shell.wait().unwrap();
    }
}
