//! System calls with results of Rust's, and clocks.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// What a system call gave, as a result.
pub fn checked(result: i64) -> io::Result<i64> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The number of an error of the system; 0 where it has none.
#[must_use]
pub fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

/// Opens a file that programs started from here do not inherit.
pub fn open(path: &CStr, flags: i32, mode: u32) -> io::Result<OwnedFd> {
    // SAFETY: the path is a string ended by a NUL, and the descriptor is nobody else's.
    unsafe {
        let fd = checked(i64::from(libc::open(
            path.as_ptr(),
            flags | libc::O_CLOEXEC,
            mode,
        )))?;
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

/// Writes to a file that `open` gave; whether all of it went.
pub fn write(file: &impl AsRawFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the buffer is as long as is said.
    let written =
        checked(
            unsafe { libc::write(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) } as i64,
        )?;
    if written as usize == bytes.len() {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EIO))
    }
}

/// Sends a signal to a process; one that is gone does not matter.
pub fn kill(pid: i32, signal: i32) {
    // SAFETY: no memory is handed over.
    unsafe { libc::kill(pid, signal) };
}

/// One call of prctl(2) that takes a number.
pub fn prctl(option: i32, value: u64) {
    // SAFETY: the options used here take numbers only.
    unsafe { libc::prctl(option, value, 0, 0, 0) };
}

/// A child that has ended.
pub struct Ended {
    /// Its number.
    pub pid: i32,
    /// How it ended, as wait(2) gives it.
    pub status: i32,
    /// What it used, and all below it that was waited for.
    pub usage: libc::rusage,
}

/// A child that has ended; `Ok(None)` where children are left and none has ended.
/// Fails with ECHILD where none is left.
pub fn reap() -> io::Result<Option<Ended>> {
    let mut status = 0;
    let flags = libc::WNOHANG | libc::__WALL;
    // SAFETY: zeros are a valid rusage; status and usage are variables of ours.
    let (pid, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let pid = libc::wait4(-1, &raw mut status, flags, &raw mut usage);
        (checked(i64::from(pid))? as i32, usage)
    };
    Ok((pid != 0).then_some(Ended { pid, status, usage }))
}

/// Signals that are blocked and waited for instead.
#[derive(Clone, Copy)]
pub struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks `signals`, and no others; all have their default action, so that programs started from here do.
    #[must_use]
    pub fn block(signals: &[i32]) -> Self {
        // SAFETY: a signal set is plain memory that sigemptyset makes valid; no handler is installed.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::sigaddset(&raw mut set, *signal);
            }
            libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
            Self(set)
        }
    }

    /// Waits for one of them, for at most so long (`None`: as long as it takes).
    #[must_use]
    pub fn wait(&self, longest: Option<Duration>) -> Option<i32> {
        let time = longest.map(|longest| libc::timespec {
            tv_sec: longest.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: i64::from(longest.subsec_nanos()),
        });
        let pointer = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: set and time live as long as the call.
        let signal =
            unsafe { libc::sigtimedwait(&raw const self.0, std::ptr::null_mut(), pointer) };
        (signal > 0).then_some(signal)
    }

    /// Forgets those that have come.
    pub fn forget(&self) {
        while self.wait(Some(Duration::ZERO)).is_some() {}
    }

    /// A file that can be read whenever one of them has come.
    pub fn file(&self) -> io::Result<OwnedFd> {
        // SAFETY: the set lives as long as the call, and the descriptor is nobody else's.
        unsafe {
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            let fd = checked(i64::from(libc::signalfd(-1, &raw const self.0, flags)))?;
            Ok(OwnedFd::from_raw_fd(fd as i32))
        }
    }
}

/// The number of this process.
#[must_use]
pub fn this_process() -> i32 {
    // SAFETY: no memory is handed over.
    unsafe { libc::getpid() }
}

/// Gives all signals their default action; a Python that this runs in has other ones.
pub fn forget_handlers() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: SIG_DFL is no handler; those that cannot be changed are refused.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

fn clock(which: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time is written to a variable of ours.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Nanoseconds since 1970.
#[must_use]
pub fn wall_ns() -> i64 {
    clock(libc::CLOCK_REALTIME)
}

/// Nanoseconds of the clock that is never set.
#[must_use]
pub fn monotonic_ns() -> i64 {
    clock(libc::CLOCK_MONOTONIC)
}
