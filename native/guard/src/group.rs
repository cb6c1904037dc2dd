//! Control groups of a job: one that none of its processes can leave, and one that holds its memory.
//!
//! In version 2 both are one group, in which each job is born. Where memory is still held by version 1, the guard
//! itself is in a group there, so that its jobs are without being moved: that would cost more than a short job.

use crate::system::{errno, open, this_process, write};
use std::ffi::CString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

const MEMBERS: &str = "cgroup.procs";
const UNIFIED_EVENTS: &str = "memory.events";
/// The kernel counts page tables and buffers of a job as its memory, too: a group of less would end any program.
/// A job that may use less is watched instead.
const LEAST: i64 = 32 << 20;

/// Where groups of jobs can be made; empty strings where none can.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// A directory of version 2, for containment.
    pub unified: String,
    /// Whether that one also holds memory.
    pub unified_memory: bool,
    /// A directory of the memory controller of version 1.
    pub memory: String,
}

impl Places {
    /// Removes the directories, as far as no process is in them.
    pub fn remove(&self) {
        for place in [&self.unified, &self.memory]
            .into_iter()
            .filter(|place| !place.is_empty())
        {
            for group in fs::read_dir(place).into_iter().flatten().flatten() {
                drop(fs::remove_dir(group.path()));
            }
            drop(fs::remove_dir(place));
        }
    }
}

/// The groups of a guard, for one job after another.
#[derive(Debug, Default)]
pub struct Groups {
    unified: Option<String>,
    memory: Option<String>,
    events: &'static str,
    limit_bytes: Option<i64>,
    /// Processes that the kernel had killed before the job.
    kills: i64,
}

impl Groups {
    /// Makes the groups of a guard. Where one cannot be made, its jobs do without it.
    #[must_use]
    pub fn make(places: &Places, name: &str) -> Self {
        let mut groups = Self::of(places, name);
        let is_one = groups.memory == groups.unified;
        groups.unified.take_if(|path| !is_made(path));
        if is_one {
            groups.memory.clone_from(&groups.unified);
        } else {
            groups.memory.take_if(|path| {
                !is_made(path) || fs::write(format!("{path}/{MEMBERS}"), "0").is_err()
            });
        }
        groups
    }

    /// Holds the next job to its memory; what was there before does not count any more.
    pub fn set_limit(&mut self, bytes: i64) {
        self.kills = self.count_kills();
        if self.limit_bytes == Some(bytes) {
            return;
        }
        self.limit_bytes = None;
        let Some(path) = &self.memory else { return };
        let (bytes, is_held) = if bytes < LEAST {
            (LEAST, false)
        } else {
            (bytes, true)
        };
        let set = |name: &str, value: &str| fs::write(format!("{path}/{name}"), value).is_ok();
        let value = bytes.to_string();
        let holds = if self.ends_all_when_full() {
            // Not there on every kernel.
            set("memory.swap.max", "0");
            set("memory.oom.group", "1");
            set("memory.max", &value)
        } else {
            // With swap is never below without.
            set("memory.memsw.limit_in_bytes", "-1");
            let holds = set("memory.limit_in_bytes", &value);
            set("memory.memsw.limit_in_bytes", &value);
            holds
        };
        self.limit_bytes = (holds && is_held).then_some(bytes);
    }

    /// The groups that a guard may have made.
    #[must_use]
    pub fn of(places: &Places, name: &str) -> Self {
        let below = |place: &String| (!place.is_empty()).then(|| format!("{place}/{name}"));
        let unified = below(&places.unified);
        let (memory, events) = if places.unified_memory {
            (unified.clone(), UNIFIED_EVENTS)
        } else {
            (below(&places.memory), "memory.oom_control")
        };
        Self {
            unified,
            memory,
            events,
            ..Self::default()
        }
    }

    /// The directory of the group that a process is born into.
    #[must_use]
    pub fn cradle(&self) -> Option<OwnedFd> {
        let path = CString::new(self.unified.as_deref()?).ok()?;
        open(&path, libc::O_RDONLY | libc::O_DIRECTORY, 0).ok()
    }

    /// The file by which a process enters the group that contains a job.
    #[must_use]
    pub fn entrance(&self) -> Option<OwnedFd> {
        let path = CString::new(format!("{}/{MEMBERS}", self.unified.as_ref()?)).ok()?;
        open(&path, libc::O_WRONLY, 0).ok()
    }

    /// Whether the kernel holds the job to its memory.
    #[must_use]
    pub fn holds_memory(&self) -> bool {
        self.limit_bytes.is_some()
    }

    /// Whether the kernel kills all of a job at once when its memory is used up: version 2 does.
    #[must_use]
    pub fn ends_all_when_full(&self) -> bool {
        self.memory.is_some() && self.memory == self.unified
    }

    /// Whether the kernel has killed a process of the job because its memory was used up.
    #[must_use]
    pub fn out_of_memory(&self) -> bool {
        self.holds_memory() && self.count_kills() > self.kills
    }

    fn count_kills(&self) -> i64 {
        let Some(path) = &self.memory else { return 0 };
        let text = fs::read_to_string(format!("{path}/{}", self.events)).unwrap_or_default();
        let mut counts = text
            .lines()
            .filter_map(|line| line.strip_prefix("oom_kill "));
        counts
            .next()
            .and_then(|count| count.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Kills all that is in the groups, in one step where the kernel can (`cgroup.kill`, Linux 5.14).
    pub fn kill(&self) {
        let at_once = self.unified.as_ref().and_then(|path| {
            let file = open(
                &CString::new(format!("{path}/cgroup.kill")).ok()?,
                libc::O_WRONLY,
                0,
            )
            .ok()?;
            write(&file, b"1").ok()
        });
        if at_once.is_none() {
            crate::tree::signal_all(&self.members(), &[libc::SIGKILL]);
        }
    }

    /// Makes the group anew in which something was killed: Linux kills what is born into it later, too, since it
    /// takes that for a process that is being made at the moment.
    pub fn renew(&mut self) {
        let Some(path) = self.unified.take() else {
            return;
        };
        if self.memory.as_ref() == Some(&path) {
            (self.memory, self.limit_bytes) = (None, None);
        }
        if fs::remove_dir(&path).is_ok() && is_made(&path) {
            if self.memory.is_none() && self.events == UNIFIED_EVENTS {
                self.memory = Some(path.clone());
            }
            self.unified = Some(path);
        }
    }

    /// Processes that are in the groups, other than this one.
    #[must_use]
    pub fn members(&self) -> Vec<i32> {
        let Some(path) = self.unified.as_ref().or(self.memory.as_ref()) else {
            return Vec::new();
        };
        let text = fs::read_to_string(format!("{path}/{MEMBERS}")).unwrap_or_default();
        let pids = text.lines().filter_map(|line| line.parse().ok());
        pids.filter(|pid| *pid > 0 && *pid != this_process())
            .collect()
    }

    /// Removes the groups; whether they are gone. One that still holds a process cannot be removed.
    #[must_use]
    pub fn remove(&self) -> bool {
        let apart = self
            .memory
            .as_ref()
            .filter(|path| Some(*path) != self.unified.as_ref());
        self.unified.iter().chain(apart).fold(true, |gone, path| {
            let removed = fs::remove_dir(path);
            gone && removed.map_or_else(|error| errno(&error) == libc::ENOENT, |()| true)
        })
    }
}

/// Makes a group, which may be left from a guard that was killed.
fn is_made(path: &str) -> bool {
    let make =
        || fs::create_dir(path).map_or_else(|error| errno(&error) == libc::EEXIST, |()| true);
    // The place may have gone with the launcher before this one.
    make()
        || (Path::new(path)
            .parent()
            .is_some_and(|place| fs::create_dir(place).is_ok())
            && make())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that stands for a hierarchy: what is written is seen, as the kernel's documents name it.
    fn places(unified_memory: bool) -> (tempfile::TempDir, Places) {
        let top = tempfile::tempdir().unwrap();
        let below = |name: &str| {
            let path = top.path().join(name);
            fs::create_dir(&path).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let places = Places {
            unified: below("unified"),
            unified_memory,
            memory: below("memory"),
        };
        (top, places)
    }

    fn read(path: Option<&String>, name: &str) -> String {
        fs::read_to_string(format!("{}/{name}", path.unwrap())).unwrap_or_default()
    }

    #[test]
    fn version_2_holds_all_of_a_job_to_its_memory() {
        let (_top, places) = places(true);
        let mut groups = Groups::make(&places, "slot-1");
        assert!(groups.ends_all_when_full() && !groups.holds_memory());
        fs::write(
            format!("{}/slot-1/memory.events", places.unified),
            "oom 4\noom_kill 3\n",
        )
        .unwrap();
        groups.set_limit(1 << 30);
        assert_eq!(read(groups.unified.as_ref(), "memory.max"), "1073741824");
        assert_eq!(read(groups.unified.as_ref(), "memory.swap.max"), "0");
        assert_eq!(read(groups.unified.as_ref(), "memory.oom.group"), "1");
        assert!(
            groups.holds_memory() && !groups.out_of_memory(),
            "what the job before had does not count"
        );
        fs::write(
            format!("{}/slot-1/memory.events", places.unified),
            "oom 4\noom_kill 4\n",
        )
        .unwrap();
        assert!(groups.out_of_memory());
        assert!(
            !places.memory.is_empty() && fs::read_dir(&places.memory).unwrap().next().is_none()
        );
    }

    #[test]
    fn version_1_has_the_guard_itself_inside() {
        let (_top, places) = places(false);
        let mut groups = Groups::make(&places, "slot-2");
        assert_eq!(read(groups.memory.as_ref(), MEMBERS), "0");
        groups.set_limit(64 << 20);
        assert_eq!(
            read(groups.memory.as_ref(), "memory.limit_in_bytes"),
            "67108864"
        );
        assert!(groups.holds_memory() && !groups.ends_all_when_full());
    }

    #[test]
    fn a_job_that_may_use_little_is_not_held_by_the_kernel() {
        let (_top, places) = places(true);
        let mut groups = Groups::make(&places, "slot-3");
        groups.set_limit(1 << 20);
        assert!(!groups.holds_memory());
        groups.set_limit(LEAST);
        assert!(groups.holds_memory());
    }

    #[test]
    fn where_no_group_can_be_made_there_is_none() {
        let gone = Places {
            unified: "/no/such/place".into(),
            unified_memory: true,
            memory: String::new(),
        };
        let mut groups = Groups::make(&gone, "slot-4");
        groups.set_limit(1 << 30);
        assert!(groups.cradle().is_none() && !groups.holds_memory() && !groups.out_of_memory());
        assert!(groups.members().is_empty() && groups.remove());
    }
}
