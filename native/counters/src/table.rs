//! All processes of a node, with what each used so far: one call for all of them, each second.

use crate::kept::{Budget, Kept};
use crate::processes::{KERNEL_THREAD, fields_of, moved, pids_in};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

const MOST_OPEN: usize = 16_384;

/// A process as `/proc/PID/stat` shows it (`proc_pid_stat(5)`); times in ticks of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its number.
    pub pid: u32,
    /// The tick at which it started: numbers are used again.
    pub started: u64,
    /// Its parent.
    pub parent: u32,
    /// Its name, of at most 15 letters.
    pub name: String,
    /// Whether it is a thread of the kernel.
    pub kernel: bool,
    /// CPU time of its own.
    pub own_ticks: u64,
    /// CPU time of children that have ended and were waited for.
    pub children_ticks: u64,
    /// Memory in pages.
    pub pages: u64,
    /// The CPU it ran on last.
    pub cpu: u32,
    /// Bytes read from and written to storage; None where nobody may tell, or nobody asked.
    pub moved: Option<(u64, u64)>,
}

struct Files {
    stat: Kept,
    io: Kept,
}

/// Follows all processes of a node.
pub struct Table {
    proc: PathBuf,
    passing: Vec<String>,
    files: HashMap<u32, Files>,
    budget: Budget,
    buffer: Vec<u8>,
}

impl Table {
    /// Those that `proc`, such as `/proc`, shows. Of threads of the kernel whose name begins with one of `passing`
    /// it is not asked what they moved.
    #[must_use]
    pub fn new(proc: &Path, passing: Vec<String>) -> Self {
        Self {
            proc: proc.to_owned(),
            passing,
            files: HashMap::new(),
            budget: Budget::of_this_process(MOST_OPEN, 4),
            buffer: vec![0; 4096],
        }
    }

    /// All processes that can be seen now; one that ends meanwhile is left out.
    pub fn look(&mut self) -> io::Result<Vec<Row>> {
        let there = pids_in(&self.proc)?;
        self.files.retain(|pid, _| there.contains(pid));
        let mut rows: Vec<Row> = there.iter().filter_map(|pid| self.row(*pid)).collect();
        rows.sort_unstable_by_key(|row| row.pid);
        Ok(rows)
    }

    fn row(&mut self, pid: u32) -> Option<Row> {
        let known = self.files.contains_key(&pid);
        let found = self.read(pid);
        if found.is_none() && self.files.remove(&pid).is_some() && known {
            // Another process may have the number of one that ended, whose open files say that it is gone.
            return self.read(pid);
        }
        found
    }

    fn read(&mut self, pid: u32) -> Option<Row> {
        let Self {
            proc,
            files,
            budget,
            buffer,
            passing,
        } = self;
        let own = files.entry(pid).or_insert_with(|| {
            let directory = proc.join(pid.to_string());
            Files {
                stat: Kept::new(directory.join("stat"), budget),
                io: Kept::new(directory.join("io"), budget),
            }
        });
        let mut row = parse(pid, own.stat.read(buffer).ok()?)?;
        let asked = !row.kernel
            || row.name.contains("_resync")
            || !passing.iter().any(|each| row.name.starts_with(each));
        if asked {
            row.moved = own.io.read(buffer).ok().and_then(moved);
        }
        Some(row)
    }
}

fn parse(pid: u32, text: &[u8]) -> Option<Row> {
    let opened = text.iter().position(|byte| *byte == b'(')?;
    let closed = text.iter().rposition(|byte| *byte == b')')?;
    let name = String::from_utf8_lossy(text.get(opened + 1..closed)?).into_owned();
    let fields = fields_of(text.get(closed + 2..)?)?;
    let number = |at: usize| fields[at].parse::<u64>().ok();
    // Of children that were waited for, Linux may print a number that is not one of ours (signed).
    let waited = |at: usize| number(at).unwrap_or(0);
    Some(Row {
        pid,
        started: number(19)?,
        parent: number(1)? as u32,
        name,
        kernel: number(6)? & KERNEL_THREAD != 0,
        own_ticks: number(11)?.saturating_add(number(12)?),
        children_ticks: waited(13).saturating_add(waited(14)),
        pages: number(21)?,
        cpu: number(36)? as u32,
        moved: None,
    })
}
