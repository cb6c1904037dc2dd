//! The launcher: a small process that forks guards, so that this costs little.
//!
//! It serves one runner. When that is gone it forks no more, and stays until its guards have ended: it is the
//! subreaper above them, and ends what a guard that is killed leaves. Where the runner was killed, and nobody has
//! started another, it does, since a command that is part of a job could start one only below that job.

use crate::group::{Groups, Places};
use crate::guard::{Done, Guard};
use crate::record::{Slot, boot};
use crate::system::{Signals, checked, errno, forget_handlers, prctl, reap, this_process, write};
use crate::tree;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// What is told to the runner: one of these, the slot of the guard, and a number.
#[derive(Clone, Copy)]
#[repr(i64)]
enum Answer {
    /// The record says how the job ended.
    Recorded = 1,
    /// The guard was killed, and is gone; the number is its status. Nothing of its job is left.
    Lost = 2,
    /// No guard could be made; the number is that of the error.
    NotForked = 3,
    /// The guard could not write its record, and has started nothing; the number is that of the error.
    Unrecorded = 4,
}

/// Files that the runner hands over, and where groups can be made.
pub struct Surroundings {
    /// A socket (`SOCK_SEQPACKET`): each message is the slot of a new guard, with the pipe that its orders come by.
    pub calls: i32,
    /// Answers go here, 24 bytes each.
    pub answers: i32,
    /// The file of records.
    pub records: i32,
    /// A lock that is held as long as a guard may be made that has no lock on its slot yet.
    pub lock: i32,
    /// The lock of runners, and the command that starts one: the number of the locked file is its last word.
    pub runner_lock: PathBuf,
    /// The words before that.
    pub runner: Vec<OsString>,
    /// Control groups.
    pub places: Places,
}

/// A process that outlives SIGKILL by this much hangs in the kernel.
const GONE: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_millis(5);
/// Between two tries to start a runner.
const AGAIN_MS: i32 = 500;

struct Launcher {
    calls: Option<OwnedFd>,
    answers: OwnedFd,
    records: i32,
    lock: Option<OwnedFd>,
    runner_lock: PathBuf,
    runner: Vec<OsString>,
    /// Whether the runner was killed, and another is to be started.
    is_orphaned: bool,
    /// The one that was started.
    successor: Option<i32>,
    places: Places,
    /// The slot of each, by process.
    guards: HashMap<i32, i64>,
    boot: [u8; 16],
}

/// Serves the runner until it is gone and all guards have ended.
///
/// This is to be called once, in a process without threads, for it forks.
pub fn run(given: Surroundings) {
    forget_handlers();
    prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
    for file in [given.calls, given.answers, given.records, given.lock] {
        // SAFETY: no memory is handed over. Jobs are to inherit none of them.
        unsafe { libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: the descriptors are this process's own, and nothing else closes them.
    let owned = |file| unsafe { OwnedFd::from_raw_fd(file) };
    let mut launcher = Launcher {
        calls: Some(owned(given.calls)),
        answers: owned(given.answers),
        records: given.records,
        lock: Some(owned(given.lock)),
        runner_lock: given.runner_lock,
        runner: given.runner,
        is_orphaned: false,
        successor: None,
        places: given.places,
        guards: HashMap::new(),
        boot: boot(),
    };
    // A runner that is gone (SIGPIPE), or a terminal, is no reason to end.
    let heard = [
        libc::SIGCHLD,
        libc::SIGPIPE,
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGHUP,
    ];
    let Ok(bell) = Signals::block(&heard).file() else {
        return;
    };
    while launcher.calls.is_some() || !launcher.guards.is_empty() {
        let (call, child) = launcher.wait(&bell);
        if child {
            launcher.reap(&bell);
        }
        if call {
            launcher.serve();
        }
        if launcher.is_orphaned && !launcher.guards.is_empty() {
            launcher.start_runner();
        }
    }
    launcher.places.remove();
}

impl Launcher {
    /// Waits for a call, or for the end of a child.
    fn wait(&self, bell: &OwnedFd) -> (bool, bool) {
        let calls = self.calls.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let watch = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut watched = [watch(calls), watch(bell.as_raw_fd())];
        let longest = if self.is_orphaned { AGAIN_MS } else { -1 };
        // SAFETY: the array is as long as is said.
        unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as u64, longest) };
        (watched[0].revents != 0, watched[1].revents != 0)
    }

    /// Makes a guard that is called for. Where none will be any more, lets go of the lock.
    fn serve(&mut self) {
        match self.calls.as_ref().map(next_call) {
            Some(Ok(Call::Guard(slot, orders))) => self.launch(slot, orders),
            Some(Ok(Call::Goodbye)) => (self.calls, self.lock) = (None, None),
            _ => (self.calls, self.lock, self.is_orphaned) = (None, None, true),
        }
    }

    /// Starts another runner, unless there is one: then its lock is taken.
    fn start_runner(&mut self) {
        let Ok(lock) = File::options()
            .read(true)
            .write(true)
            .open(&self.runner_lock)
        else {
            return;
        };
        // SAFETY: no memory is handed over.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return;
        }
        let Some((program, words)) = self.runner.split_first() else {
            return;
        };
        let file = lock.as_raw_fd();
        let mut command = Command::new(program);
        command.args(words).arg(file.to_string()).current_dir("/");
        // SAFETY: only system calls, on what the process has.
        unsafe {
            command.pre_exec(move || {
                libc::setsid();
                libc::fcntl(file, libc::F_SETFD, 0);
                Ok(())
            });
        }
        if let Ok(child) = command.spawn() {
            self.successor = i32::try_from(child.id()).ok();
            self.is_orphaned = false;
        }
    }

    fn launch(&mut self, slot: i64, orders: OwnedFd) {
        // SAFETY: this process has no threads, so that its copy may go on with anything.
        match checked(i64::from(unsafe { libc::fork() })) {
            Ok(0) => {
                self.guard(slot, orders);
                // SAFETY: it ends here, without what the program that called has registered for its end.
                unsafe { libc::_exit(0) };
            }
            Ok(pid) => {
                self.guards.insert(pid as i32, slot);
            }
            Err(error) => self.answer(Answer::NotForked, slot, errno(&error)),
        }
    }

    /// In the new process: be a guard.
    fn guard(&mut self, number: i64, orders: OwnedFd) {
        self.calls = None;
        let slot = Slot::new(self.records, number, self.boot);
        let guard = Guard::become_guard(slot, Groups::make(&self.places, &group_name(number)));
        self.lock = None;
        guard.serve(&mut File::from(orders), |done| match done {
            Done::Recorded => self.answer(Answer::Recorded, number, 0),
            Done::Unrecorded(errno) => self.answer(Answer::Unrecorded, number, errno),
        });
    }

    fn answer(&self, answer: Answer, slot: i64, number: i32) {
        let mut bytes = [0; 24];
        for (at, number) in [answer as i64, slot, i64::from(number)].iter().enumerate() {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&number.to_le_bytes());
        }
        drop(write(&self.answers, &bytes));
    }

    /// Takes the status of all children that have ended, and ends what a guard that was killed has left.
    fn reap(&mut self, bell: &OwnedFd) {
        let mut told = [0_u8; 1024];
        // SAFETY: the buffer is as long as is said.
        unsafe { libc::read(bell.as_raw_fd(), told.as_mut_ptr().cast(), told.len()) };
        let mut lost = Vec::new();
        while let Ok(Some(ended)) = reap() {
            let Some(slot) = self.guards.remove(&ended.pid) else {
                continue;
            };
            let groups = Groups::of(&self.places, &group_name(slot));
            // A guard that was done is a member of some itself, and cannot remove those.
            if ended.status != 0 || !groups.remove() {
                lost.push((slot, ended.status, groups));
            }
        }
        if lost.is_empty() {
            return;
        }
        self.end_strays(&lost);
        lost.retain(|(_, status, _)| *status != 0);
        for (slot, status, _) in lost {
            self.answer(Answer::Lost, slot, status);
        }
    }

    /// Ends all that is below this process and below no guard.
    fn end_strays(&self, lost: &[(i64, i32, Groups)]) {
        let since = Instant::now();
        while since.elapsed() < GONE {
            for (_, _, groups) in lost {
                groups.kill();
            }
            let strays = self.strays();
            tree::signal_all(&tree::with_descendants(strays.clone()), &[libc::SIGKILL]);
            for pid in strays {
                // SAFETY: the status is not asked for.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) };
            }
            let removed = lost.iter().filter(|(_, _, groups)| groups.remove()).count();
            if removed == lost.len() && self.strays().is_empty() {
                return;
            }
            std::thread::sleep(SOON);
        }
    }

    fn strays(&self) -> Vec<i32> {
        let mut children = tree::children(this_process());
        children.retain(|pid| !self.guards.contains_key(pid) && self.successor != Some(*pid));
        children
    }
}

/// The name of the groups of a guard.
fn group_name(slot: i64) -> String {
    format!("slot-{slot}")
}

/// What a runner sends.
enum Call {
    /// A guard is called for: its slot, and where its orders come from.
    Guard(i64, OwnedFd),
    /// The runner ends in good order.
    Goodbye,
}

/// What the runner sends next; an error where it is gone.
fn next_call(calls: &OwnedFd) -> io::Result<Call> {
    let mut slot = [0_u8; 8];
    let mut control = [0_u64; 8];
    // SAFETY: all buffers live as long as the call, and are as long as is said; the descriptor that comes is
    // nobody else's.
    unsafe {
        let mut part = libc::iovec {
            iov_base: slot.as_mut_ptr().cast(),
            iov_len: slot.len(),
        };
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let length =
            checked(
                libc::recvmsg(calls.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) as i64,
            )?;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        if length > 0 && head.is_null() {
            return Ok(Call::Goodbye);
        }
        if length != 8 || head.is_null() || (*head).cmsg_type != libc::SCM_RIGHTS {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let orders = libc::CMSG_DATA(head).cast::<i32>().read_unaligned();
        Ok(Call::Guard(
            i64::from_le_bytes(slot),
            OwnedFd::from_raw_fd(orders),
        ))
    }
}
