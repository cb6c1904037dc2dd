//! The guard of a job, from its start until nothing is left of it; then it serves another one.

use crate::group::Groups;
use crate::order::{Order, next};
use crate::record::{Cause, Phase, Record, Slot};
use crate::start::{Failure, start};
use crate::system::{Ended, Signals, errno, monotonic_ns, prctl, reap, wall_ns};
use crate::tree;
use std::ffi::CString;
use std::fs::File;
use std::time::Duration;

/// Between SIGTERM and SIGKILL for a job over its time, or that is to end.
const GRACE_NS: i64 = 5_000_000_000;
/// A process that outlives SIGKILL by this much hangs in the kernel; the job ends without it.
const GONE_NS: i64 = 10_000_000_000;
/// Between two looks at what a job uses, and between two looks for what is left of it.
const MEASURE_NS: i64 = 100_000_000;
const SOON_NS: i64 = 5_000_000;
/// The part of a core that looking may take.
const LOOK_SHARE: i64 = 100;

/// A guard, which serves one job after another.
pub struct Guard {
    slot: Slot,
    groups: Groups,
    signals: Signals,
}

/// What a guard tells of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The record says how the job ended.
    Recorded,
    /// The record could not be written, and nothing was started; the number is that of the error.
    Unrecorded(i32),
}

impl Guard {
    /// Makes this process a guard: nothing that descends from it escapes it.
    #[must_use]
    pub fn become_guard(slot: Slot, groups: Groups) -> Self {
        // SAFETY: no memory is handed over.
        unsafe { libc::setsid() };
        prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        let signals = Signals::block(&[libc::SIGCHLD, libc::SIGPIPE, libc::SIGTERM, libc::SIGUSR1]);
        slot.lock();
        Self {
            slot,
            groups,
            signals,
        }
    }

    /// Carries out orders until there are no more; tells what came of each.
    pub fn serve(mut self, orders: &mut File, tell: impl Fn(Done)) {
        while let Ok(order) = next(orders) {
            // What was meant for the job before is no business of this one.
            self.signals.forget();
            self.slot.begin(order.identity);
            // The record says whose job it is before anything of that runs.
            let done = match self.slot.write(&Record::default()) {
                Ok(()) => {
                    self.slot.unlock();
                    self.groups.set_limit(order.memory_bytes);
                    if RunningJob::run(&self, &order) {
                        self.groups.renew();
                    }
                    self.slot.lock();
                    Done::Recorded
                }
                Err(error) => Done::Unrecorded(errno(&error)),
            };
            tell(done);
        }
    }
}

/// A job that runs, under a guard.
struct RunningJob<'a> {
    guard: &'a Guard,
    record: Record,
    limit_bytes: i64,
    deadline_ns: Option<i64>,
    measure_at_ns: i64,
    main: i32,
    kill_at_ns: Option<i64>,
    killed_at_ns: Option<i64>,
}

impl<'a> RunningJob<'a> {
    /// Runs a job until nothing is left of it, and records that; or why it was not started.
    /// Whether something was killed.
    fn run(guard: &'a Guard, order: &Order) -> bool {
        name_process(order.identity);
        let began = monotonic_ns();
        let limit = (order.time_limit_ms >= 0).then_some(order.time_limit_ms);
        let mut job = Self {
            guard,
            record: Record::default(),
            limit_bytes: order.memory_bytes,
            deadline_ns: limit.map(|limit| began.saturating_add(limit.saturating_mul(1_000_000))),
            measure_at_ns: began + MEASURE_NS,
            main: 0,
            kill_at_ns: None,
            killed_at_ns: None,
        };
        match start(order, &guard.groups) {
            Ok(pid) => {
                job.main = pid;
                job.wait();
                job.record.phase = Phase::Over;
            }
            Err(failure) => job.note(failure),
        }
        job.write();
        job.killed_at_ns.is_some()
    }

    fn note(&mut self, failure: Failure) {
        let record = &mut self.record;
        record.ended_ns = wall_ns();
        match failure {
            Failure::Refused { errno, text } => {
                (record.phase, record.errno, record.text) = (Phase::Refused, errno, text);
            }
            Failure::Impossible(status, text) => {
                (record.phase, record.launch_status, record.text) = (Phase::Over, status, text);
            }
        }
    }

    /// Waits until nothing is left of the job.
    fn wait(&mut self) {
        while !self.is_over() {
            match self.guard.signals.wait(self.pause()) {
                Some(libc::SIGTERM) => self.end(Cause::Ordered, GRACE_NS),
                Some(libc::SIGUSR1) => self.kill_at_ns = Some(monotonic_ns()),
                _ => self.check(),
            }
        }
    }

    /// How long nothing needs to be done. `None`: until a signal comes.
    fn pause(&self) -> Option<Duration> {
        let now = monotonic_ns();
        let due = match self.kill_at_ns {
            Some(kill_at) if self.record.wait_status.is_some() || now >= kill_at => {
                Some(now + SOON_NS)
            }
            Some(kill_at) => Some(kill_at),
            None => [
                self.deadline_ns,
                self.measures().then_some(self.measure_at_ns),
            ]
            .into_iter()
            .flatten()
            .min(),
        };
        due.map(|at| Duration::from_nanos(u64::try_from(at - now).unwrap_or(0)))
    }

    /// Whether memory is looked at from here: what version 2 holds needs no look.
    fn measures(&self) -> bool {
        !self.guard.groups.ends_all_when_full()
    }

    fn check(&mut self) {
        let now = monotonic_ns();
        if self.kill_at_ns.is_some() || self.record.wait_status.is_some() {
            return;
        }
        if self.deadline_ns.is_some_and(|deadline| now >= deadline) {
            self.end(Cause::Time, GRACE_NS);
        } else if self.measures() && now >= self.measure_at_ns {
            self.measure();
            let took = monotonic_ns() - now;
            self.measure_at_ns = now + MEASURE_NS.max(took * LOOK_SHARE);
        }
    }

    fn measure(&mut self) {
        if self.guard.groups.holds_memory() {
            if self.guard.groups.out_of_memory() {
                self.end(Cause::Memory, 0);
            }
            return;
        }
        let used = tree::resident_bytes(&tree::below_this());
        self.record.peak_bytes = self.record.peak_bytes.max(used);
        if used > self.limit_bytes {
            self.record.excess_bytes = used;
            self.end(Cause::Memory, 0);
        }
    }

    /// Asks the job to end (SIGTERM), and has it killed after a while. One that is ending already is let be.
    fn end(&mut self, cause: Cause, grace_ns: i64) {
        if self.kill_at_ns.is_some() {
            return;
        }
        self.record.cause = cause;
        self.kill_at_ns = Some(monotonic_ns() + grace_ns);
        if grace_ns > 0 {
            // One that is stopped could not heed it.
            tree::signal_all(&self.left(), &[libc::SIGTERM, libc::SIGCONT]);
        }
    }

    /// Processes of the job, as far as they are seen.
    fn left(&self) -> Vec<i32> {
        let mut left = tree::below_this();
        left.extend(self.guard.groups.members());
        left.sort_unstable();
        left.dedup();
        left
    }

    /// Reaps, and kills what is to be killed by now; whether all has ended, or never will.
    fn is_over(&mut self) -> bool {
        let none_left = self.reap();
        if self.record.wait_status.is_some() && none_left {
            return true;
        }
        let now = monotonic_ns();
        if self.kill_at_ns.is_none_or(|at| now < at) {
            return false;
        }
        let killed_at = *self.killed_at_ns.get_or_insert(now);
        self.guard.groups.kill();
        tree::signal_all(&tree::below_this(), &[libc::SIGKILL]);
        if now - killed_at < GONE_NS {
            return false;
        }
        let numbers: Vec<String> = self.left().iter().map(ToString::to_string).collect();
        if !numbers.is_empty() {
            self.record.text = format!("processes that cannot be ended: {}", numbers.join(", "));
        }
        true
    }

    /// Takes the status of all children that have ended; whether none is left.
    fn reap(&mut self) -> bool {
        loop {
            match reap() {
                Ok(Some(ended)) => self.take(&ended),
                Err(error) if errno(&error) == libc::ECHILD => return true,
                Ok(None) | Err(_) => break,
            }
        }
        if self.record.wait_status.is_some() && self.record.phase == Phase::Running {
            // What is left may take a while to end; how the job ended is known by now.
            self.record.phase = Phase::Ended;
            self.write();
        }
        false
    }

    fn take(&mut self, ended: &Ended) {
        let ns = |time: libc::timeval| time.tv_sec * 1_000_000_000 + time.tv_usec * 1000;
        let record = &mut self.record;
        record.user_ns += ns(ended.usage.ru_utime);
        record.system_ns += ns(ended.usage.ru_stime);
        record.peak_bytes = record.peak_bytes.max(ended.usage.ru_maxrss * 1024);
        if ended.pid == self.main && record.wait_status.is_none() {
            self.first_ended(ended.status);
        }
    }

    fn first_ended(&mut self, status: i32) {
        self.record.wait_status = Some(status);
        self.record.ended_ns = wall_ns();
        if self.record.cause == Cause::Itself && self.guard.groups.out_of_memory() {
            self.record.cause = Cause::Memory;
        }
        let now = monotonic_ns();
        self.kill_at_ns = Some(self.kill_at_ns.map_or(now, |at| at.min(now + GRACE_NS)));
    }

    /// Writes the record. There is room for it, so it fails only where the disk does: it is tried again.
    fn write(&self) {
        for _ in 0..100 {
            if self.guard.slot.write(&self.record).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Has ps show which job a guard has, as far as that fits.
fn name_process([job, element, _]: [i64; 3]) {
    let index = if element < 0 {
        String::new()
    } else {
        format!("_{element}")
    };
    if let Ok(name) = CString::new(format!("guard {job}{index}")) {
        prctl(libc::PR_SET_NAME, name.as_ptr() as u64);
    }
}
