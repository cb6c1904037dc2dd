//! What the processes of each job have used: CPU time, memory, bytes to and from storage, waits for I/O.
//!
//! A process belongs to the job that its environment names, or to that of its nearest ancestor that has one,
//! and stays with it whoever adopts it. Linux adds what a process used to the parent that waits for it, so the
//! sum over a job's processes rises only, as long as its processes are waited for by others of the same job.
//! What one used that somebody else waits for (the first process of a job) is kept here, as it was seen last.

use crate::kept::{Budget, Kept};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What schedulers set for jobs: Gridwright's own for those that it handed in, Slurm's for all.
const NAMES: [&[u8]; 2] = [b"GRIDWRIGHT_JOB_ID=", b"SLURM_JOB_ID="];
const LONGEST_NAME: usize = 64;
const MOST_ENVIRONMENT: u64 = 1 << 17;
/// A process gets its environment with the program that it becomes, so a new one is looked at again.
const LOOKS: u8 = 2;
/// Looks after which a process of no job is looked at again: its number may be another one's by then. Numbers are
/// given out in turn, so that one that is seen in each look is seldom another one's.
const AGAIN: u32 = 30;
/// How often a job is read again at most where its processes end all the time.
const ROUNDS: usize = 8;
const MOST_OPEN: usize = 8192;
/// Looks after which a process that has not run is read in whole again: the kernel may have taken memory from it.
const REFRESH: u32 = 10;
/// Of /proc/PID/stat behind the name, as far as they are read.
const FIELDS: usize = 40;
/// ESRCH: what an open file of a process says that has ended.
const NO_PROCESS: i32 = 3;
/// `PF_KTHREAD` of linux/sched.h, in the flags of /proc/PID/stat.
pub(crate) const KERNEL_THREAD: u64 = 0x0020_0000;

/// What a process, and those that it waited for, used; times in ticks of the kernel.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// CPU time.
    pub ticks: u64,
    /// Waiting for block I/O (delay accounting, where it is switched on); of the process's first thread alone.
    pub delay_ticks: u64,
    /// Bytes read from storage.
    pub read: u64,
    /// Bytes written to storage.
    pub written: u64,
}

impl Used {
    fn plus(self, other: Self) -> Self {
        Self {
            ticks: self.ticks.saturating_add(other.ticks),
            delay_ticks: self.delay_ticks.saturating_add(other.delay_ticks),
            read: self.read.saturating_add(other.read),
            written: self.written.saturating_add(other.written),
        }
    }

    fn fell_below(self, before: Self) -> Self {
        Self {
            ticks: before.ticks.saturating_sub(self.ticks),
            delay_ticks: before.delay_ticks.saturating_sub(self.delay_ticks),
            read: before.read.saturating_sub(self.read),
            written: before.written.saturating_sub(self.written),
        }
    }
}

/// A job as it was seen in one look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its number, as its scheduler has it.
    pub name: String,
    /// Sums that never fall.
    pub used: Used,
    /// Whether the bytes are known: those of another user's processes are not, without root.
    pub told: bool,
    /// The look in which its counters began, or began anew.
    pub since_look: u32,
    /// Memory in pages.
    pub pages: u64,
    /// Processes that wait in the kernel and cannot be interrupted (state D), as they do for I/O.
    pub waiting: u32,
    /// Its processes.
    pub pids: Vec<u32>,
}

struct Seen {
    started: u64,
    parent: u32,
    kernel: bool,
    job: Option<Arc<str>>,
    looks: u8,
    last: Used,
    told: bool,
    pages: u64,
    waiting: bool,
    stat: Kept,
    io: Kept,
    rest: Rest,
}

/// Tells of a process that sleeps that it has not run since, by one short file in place of two long ones.
///
/// `/proc/PID/schedstat` has the time that a thread ran and how often: who has not run has used nothing and moved
/// nothing. It is of the first thread alone, so others are read in whole, as are those that did something in the
/// look before.
struct Rest {
    file: Kept,
    /// What it said when the process had done nothing for a look.
    said: Option<Vec<u8>>,
    /// Whether it did nothing between the last two times that it was read in whole.
    still: bool,
    /// The look in which it was read in whole last.
    read_in: u32,
}

impl Rest {
    /// What the file says now, where it can tell anything; it says zeros where nobody counts (`sched_info`).
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<Vec<u8>>> {
        let text = self.file.read(buffer)?;
        Ok((!text.starts_with(b"0 ")).then(|| text.to_vec()))
    }
}

#[derive(Default)]
struct Sums {
    /// Of processes that ended and that no process of the job waited for.
    ended: Used,
    last: Used,
    since_look: u32,
}

/// Follows the processes of a node.
pub struct Processes {
    proc: PathBuf,
    look: u32,
    seen: HashMap<u32, Seen>,
    sums: HashMap<Arc<str>, Sums>,
    budget: Budget,
    buffer: Vec<u8>,
}

struct Status {
    started: u64,
    parent: u32,
    kernel: bool,
    /// A letter of `proc_pid_stat(5)`.
    state: u8,
    threads: u64,
    ticks: u64,
    delay_ticks: u64,
    pages: u64,
}

impl Processes {
    /// Those that `proc`, such as `/proc`, shows.
    #[must_use]
    pub fn new(proc: &Path) -> Self {
        Self {
            proc: proc.to_owned(),
            look: 0,
            seen: HashMap::new(),
            sums: HashMap::new(),
            budget: Budget::of_this_process(MOST_OPEN, 2),
            buffer: vec![0; 4096],
        }
    }

    /// All jobs that can be seen now.
    pub fn look(&mut self) -> io::Result<Vec<Job>> {
        self.look += 1;
        let there = pids_in(&self.proc)?;
        let mut gone: Vec<u32> = self
            .seen
            .keys()
            .copied()
            .filter(|pid| !there.contains(pid))
            .collect();
        for pid in &there {
            if !self.seen.contains_key(pid) {
                self.meet(*pid);
            }
        }
        self.name_all();
        gone.extend(self.read_members(|_| true));
        self.bury(&gone);
        Ok(self.jobs())
    }

    /// Looks at a process for the first time.
    fn meet(&mut self, pid: u32) {
        let directory = self.proc.join(pid.to_string());
        let mut stat = Kept::new(directory.join("stat"), &self.budget);
        let Some(status) = stat.read(&mut self.buffer).ok().and_then(parse_status) else {
            return;
        };
        let seen = Seen {
            started: status.started,
            parent: status.parent,
            kernel: status.kernel,
            job: None,
            looks: 0,
            last: Used::default(),
            told: false,
            pages: 0,
            waiting: false,
            // Only processes of jobs stay open.
            stat: Kept::new(directory.join("stat"), &self.budget),
            io: Kept::new(directory.join("io"), &self.budget),
            rest: Rest {
                file: Kept::new(directory.join("schedstat"), &self.budget),
                said: None,
                still: false,
                read_in: 0,
            },
        };
        self.seen.insert(pid, seen);
    }

    /// Finds the job of each process that has none yet: its own first, then that of an ancestor.
    fn name_all(&mut self) {
        let mut unnamed: Vec<u32> = Vec::new();
        let mut strangers = Vec::new();
        for (pid, seen) in &self.seen {
            if seen.kernel || seen.job.is_some() {
                continue;
            }
            if seen.looks >= LOOKS && (self.look + pid) % AGAIN == 0 {
                strangers.push(*pid);
            } else if seen.looks < LOOKS {
                unnamed.push(*pid);
            }
        }
        for pid in strangers {
            let old = self.seen[&pid].started;
            self.seen.remove(&pid);
            self.meet(pid);
            if let Some(seen) = self.seen.get_mut(&pid) {
                if seen.started == old {
                    seen.looks = LOOKS;
                }
                unnamed.push(pid);
            }
        }
        for pid in &unnamed {
            if self.seen[pid].looks < LOOKS {
                let name = job_in_environment(&self.proc, *pid);
                let job = name.map(|name| self.shared(&name));
                if let Some(seen) = self.seen.get_mut(pid) {
                    seen.looks += 1;
                    seen.job = job;
                }
            }
        }
        for pid in unnamed {
            if self.seen[&pid].job.is_none() {
                let job = self.job_of_ancestor(pid);
                if let Some(seen) = self.seen.get_mut(&pid) {
                    seen.job = job;
                }
            }
        }
    }

    fn shared(&self, name: &str) -> Arc<str> {
        self.sums
            .get_key_value(name)
            .map_or_else(|| Arc::from(name), |(shared, _)| shared.clone())
    }

    fn job_of_ancestor(&self, pid: u32) -> Option<Arc<str>> {
        let mut passed = HashSet::from([pid]);
        let mut at = self.seen.get(&pid)?.parent;
        while passed.insert(at) {
            let seen = self.seen.get(&at)?;
            if seen.job.is_some() {
                return seen.job.clone();
            }
            at = seen.parent;
        }
        None
    }

    /// Reads all processes of wanted jobs; those that have ended meanwhile are told.
    ///
    /// Parents come before their children: one that ends in between is then in neither, and not in both.
    fn read_members(&mut self, wanted: impl Fn(&Arc<str>) -> bool) -> Vec<u32> {
        let mut order: Vec<(u64, u32)> = self
            .seen
            .iter()
            .filter(|(_, seen)| seen.job.as_ref().is_some_and(&wanted))
            .map(|(pid, seen)| (seen.started, *pid))
            .collect();
        order.sort_unstable();
        let mut ended = Vec::new();
        for (_, pid) in order {
            let Some(seen) = self.seen.get_mut(&pid) else {
                continue;
            };
            if !read_member(seen, self.look, &mut self.buffer) {
                ended.push(pid);
            }
        }
        ended
    }

    /// Leaves out processes that have ended: what they used is at the parent that waited for them, or is kept
    /// where none of their job is left to have waited.
    ///
    /// A job of which a process ended is read again, until none ends meanwhile: a parent that is read after its
    /// child may have it already. Where a parent has ended as well, it is taken to have waited before that, and
    /// its own parent has both; where it had not, the sum falls, and begins anew.
    fn bury(&mut self, gone: &[u32]) {
        let mut dead: HashMap<u32, Seen> = HashMap::new();
        let mut ended: Vec<u32> = gone.to_vec();
        for _ in 0..ROUNDS {
            let mut moved: HashSet<Arc<str>> = HashSet::new();
            for pid in &ended {
                if let Some(seen) = self.seen.remove(pid) {
                    moved.extend(seen.job.clone());
                    dead.insert(*pid, seen);
                }
            }
            if moved.is_empty() {
                break;
            }
            ended = self.read_members(|job| moved.contains(job));
        }
        for (pid, one) in &dead {
            let waited_for = self.heir(&dead, *pid);
            let Some(job) = &one.job else { continue };
            if let Some(sums) = self.sums.get_mut(job) {
                // A wait for I/O is added to no parent.
                let left = if waited_for {
                    Used {
                        delay_ticks: one.last.delay_ticks,
                        ..Used::default()
                    }
                } else {
                    one.last
                };
                sums.ended = sums.ended.plus(left);
            }
        }
    }

    /// Whether a living process of the same job has what a dead one used: its parent, or that one's, and so on.
    fn heir(&self, dead: &HashMap<u32, Seen>, pid: u32) -> bool {
        let Some((job, mut at)) = dead
            .get(&pid)
            .and_then(|one| Some((one.job.as_ref()?, one.parent)))
        else {
            return false;
        };
        let mut passed = HashSet::from([pid]);
        while passed.insert(at) {
            if let Some(seen) = self.seen.get(&at) {
                return seen.job.as_ref() == Some(job);
            }
            match dead.get(&at) {
                Some(seen) if seen.job.as_ref() == Some(job) => at = seen.parent,
                _ => return false,
            }
        }
        false
    }

    fn jobs(&mut self) -> Vec<Job> {
        let mut found: BTreeMap<Arc<str>, Job> = BTreeMap::new();
        for (pid, seen) in &self.seen {
            let Some(name) = &seen.job else { continue };
            let job = found.entry(name.clone()).or_insert_with(|| Job {
                name: name.to_string(),
                used: Used::default(),
                told: true,
                since_look: self.look,
                pages: 0,
                waiting: 0,
                pids: Vec::new(),
            });
            job.used = job.used.plus(seen.last);
            job.told &= seen.told;
            job.pages += seen.pages;
            job.waiting += u32::from(seen.waiting);
            job.pids.push(*pid);
        }
        self.sums.retain(|name, _| found.contains_key(name));
        for (name, job) in &mut found {
            job.pids.sort_unstable();
            let look = self.look;
            let sums = self.sums.entry(name.clone()).or_insert_with(|| Sums {
                since_look: look,
                ..Sums::default()
            });
            let mut used = job.used.plus(sums.ended);
            let fallen = used.fell_below(sums.last);
            if fallen != Used::default() {
                // A parent that does not wait for its children (SIGCHLD ignored) gets nothing of theirs.
                sums.ended = sums.ended.plus(fallen);
                sums.since_look = look;
                used = used.plus(fallen);
            }
            sums.last = used;
            job.used = used;
            job.since_look = sums.since_look;
        }
        found.into_values().collect()
    }
}

fn read_member(seen: &mut Seen, look: u32, buffer: &mut [u8]) -> bool {
    let mut said = None;
    if seen.rest.still {
        match seen.rest.read(buffer) {
            Ok(text) => said = text,
            // It has ended; where there is no such file, it is read in whole.
            Err(error) if error.raw_os_error() == Some(NO_PROCESS) => return false,
            Err(_) => {}
        }
        if said.is_some() && said == seen.rest.said && look - seen.rest.read_in < REFRESH {
            return true;
        }
    }
    let before = seen.last;
    let Some(sleeps_alone) = read_whole(seen, buffer) else {
        return false;
    };
    let first = seen.rest.read_in == 0;
    seen.rest.read_in = look;
    seen.rest.still = sleeps_alone && !first && seen.last == before;
    // What it says was read before all else: who ran meanwhile says another thing in the next look.
    seen.rest.said = if seen.rest.still { said } else { None };
    true
}

/// Reads what a process has used, and whether it sleeps and has one thread; none where it has ended.
fn read_whole(seen: &mut Seen, buffer: &mut [u8]) -> Option<bool> {
    let status = parse_status(seen.stat.read(buffer).ok()?)?;
    // Of one that is waited for just now (X), the parent may have all already.
    if status.started != seen.started || matches!(status.state, b'X' | b'x') {
        return None;
    }
    seen.parent = status.parent;
    seen.pages = status.pages;
    seen.waiting = status.state == b'D';
    seen.last.ticks = status.ticks;
    seen.last.delay_ticks = status.delay_ticks;
    match seen.io.read(buffer) {
        Ok(text) => {
            if let Some((read, written)) = moved(text) {
                (seen.last.read, seen.last.written, seen.told) = (read, written, true);
            }
        }
        // Not allowed, and that stays so until it becomes another program.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => seen.told = false,
        Err(_) => return None,
    }
    Some(status.state == b'S' && status.threads == 1)
}

pub(crate) fn pids_in(proc: &Path) -> io::Result<HashSet<u32>> {
    let mut found = HashSet::new();
    for entry in fs::read_dir(proc)? {
        if let Some(pid) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        {
            found.insert(pid);
        }
    }
    Ok(found)
}

/// Bytes that /proc/PID/io tells as read from and written to storage.
pub(crate) fn moved(text: &[u8]) -> Option<(u64, u64)> {
    let read = number_behind(text, b"\nread_bytes: ")?;
    Some((read, number_behind(text, b"\nwrite_bytes: ")?))
}

/// What stands behind the name in /proc/PID/stat, word by word.
pub(crate) fn fields_of(text: &[u8]) -> Option<[&str; FIELDS]> {
    let text = std::str::from_utf8(text).ok()?;
    let mut fields = [""; FIELDS];
    for (field, word) in fields.iter_mut().zip(text.split_ascii_whitespace()) {
        *field = word;
    }
    Some(fields)
}

/// The fields of /proc/PID/stat (`proc_pid_stat(5)`); a name may hold anything, also brackets.
fn parse_status(text: &[u8]) -> Option<Status> {
    let closed = text.iter().rposition(|byte| *byte == b')')?;
    let fields = fields_of(text.get(closed + 2..)?)?;
    let number = |at: usize| fields[at].parse::<u64>().ok();
    let mut ticks = 0_u64;
    for at in 11..15 {
        // Of children that were waited for, Linux may print a number that is not one of ours (signed).
        ticks = ticks.saturating_add(number(at).unwrap_or(0));
    }
    Some(Status {
        started: number(19)?,
        parent: number(1)? as u32,
        kernel: number(6)? & KERNEL_THREAD != 0,
        state: *fields[0].as_bytes().first()?,
        threads: number(17)?,
        ticks,
        delay_ticks: number(39).unwrap_or(0),
        pages: number(21)?,
    })
}

fn number_behind(text: &[u8], name: &[u8]) -> Option<u64> {
    let at = text.windows(name.len()).position(|part| part == name)? + name.len();
    let digits = text[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    std::str::from_utf8(&text[at..at + digits])
        .ok()?
        .parse()
        .ok()
}

fn job_in_environment(proc: &Path, pid: u32) -> Option<String> {
    let mut text = Vec::new();
    let file = fs::File::open(proc.join(pid.to_string()).join("environ")).ok()?;
    file.take(MOST_ENVIRONMENT).read_to_end(&mut text).ok()?;
    NAMES.iter().find_map(|name| {
        let word = text
            .split(|byte| *byte == 0)
            .find(|word| word.starts_with(name))?;
        let value = String::from_utf8_lossy(&word[name.len()..]);
        let value: String = value.chars().take(LONGEST_NAME).collect();
        (!value.is_empty()).then_some(value)
    })
}
