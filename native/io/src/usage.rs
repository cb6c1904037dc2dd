//! CPU time and context switches of a thread, and of the kernel workers that serve it.

use std::fs;
use std::ops::Sub;

/// What a thread used, see getrusage(2).
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Seconds in user mode.
    pub user_s: f64,
    /// Seconds in the kernel.
    pub system_s: f64,
    /// Switches because the thread waited.
    pub voluntary_switches: i64,
    /// Switches because its time was up.
    pub involuntary_switches: i64,
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            user_s: self.user_s - earlier.user_s,
            system_s: self.system_s - earlier.system_s,
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
        }
    }
}

impl Usage {
    /// Adds another thread's.
    pub fn add(&mut self, other: Self) {
        self.user_s += other.user_s;
        self.system_s += other.system_s;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
    }

    /// Of the calling thread, so far.
    #[must_use]
    pub fn of_this_thread() -> Self {
        // SAFETY: rusage is plain data, for which all zeros are a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is a valid place for the kernel to write to.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
        Self {
            user_s: seconds(usage.ru_utime),
            system_s: seconds(usage.ru_stime),
            voluntary_switches: usage.ru_nvcsw,
            involuntary_switches: usage.ru_nivcsw,
        }
    }

    /// Of the `io_uring` workers that the kernel started for the calling thread (named
    /// `iou-wrk-TID`), in the resolution of /proc/PID/task/TID/stat: 10 ms.
    #[must_use]
    pub fn of_kernel_workers() -> Self {
        let mut total = Self::default();
        let name = format!("iou-wrk-{}", rustix::thread::gettid().as_raw_nonzero());
        let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
        let Ok(tasks) = fs::read_dir("/proc/self/task") else {
            return total;
        };
        for stat in tasks
            .flatten()
            .filter_map(|task| fs::read_to_string(task.path().join("stat")).ok())
        {
            let Some((head, tail)) = stat.rsplit_once(')') else {
                continue;
            };
            if !head.ends_with(&name) {
                continue;
            }
            // Fields 14 and 15 of proc_pid_stat(5); the third is the first after the name.
            let fields: Vec<f64> = tail
                .split_whitespace()
                .map(|field| field.parse().unwrap_or(0.0))
                .collect();
            total.user_s += fields.get(11).copied().unwrap_or(0.0) / ticks_per_s;
            total.system_s += fields.get(12).copied().unwrap_or(0.0) / ticks_per_s;
        }
        total
    }
}
