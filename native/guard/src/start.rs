//! Starts the program of a job: what its process is, has open, and is born into.

use crate::group::Groups;
use crate::order::Order;
use crate::system::{checked, errno, open, write};
use std::ffi::{CStr, CString, OsStr, c_void};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::ptr::null;

/// Exit statuses of a program that cannot be started, as shells have them (POSIX, 2.8.2).
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;
/// Where a program is looked for if there is no PATH, as Python has it (`os.defpath`).
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";
/// `proc_pid_oom_score_adj(5)`: should memory run out, the kernel takes a job first.
const OOM_SCORE: &[u8] = b"500";

/// Why a job was not started.
#[derive(Debug)]
pub enum Failure {
    /// The system has no room for it at the moment.
    Refused {
        /// The number of the error.
        errno: i32,
        /// What the system refused.
        text: String,
    },
    /// It will never start: an exit status, and why.
    Impossible(i32, String),
}

impl Failure {
    /// What came of a file or directory that a job needs.
    fn of(path: &[u8], error: &io::Error, transient: &[i32]) -> Self {
        let number = errno(error);
        let text = format!("{}: {}", String::from_utf8_lossy(path), describe(number));
        if transient.contains(&number) {
            Self::Refused {
                errno: number,
                text,
            }
        } else {
            Self::Impossible(NOT_EXECUTABLE, format!("cannot be started: {text}"))
        }
    }
}

/// The words of the C library for an error.
fn describe(number: i32) -> String {
    // SAFETY: the result is a string, and this process has one thread.
    unsafe { CStr::from_ptr(libc::strerror(number)) }
        .to_string_lossy()
        .into_owned()
}

const BUSY: [i32; 4] = [libc::EAGAIN, libc::ENOMEM, libc::EMFILE, libc::ENFILE];
const NO_SPACE: [i32; 2] = [libc::ENOSPC, libc::EDQUOT];

/// Starts a job; the number of its first process. The log is there before the program is.
pub fn start(order: &Order, groups: &Groups) -> Result<i32, Failure> {
    let log = open_log(&order.log)?;
    for (at, directory) in order.private.iter().enumerate() {
        if let Err(error) = make(directory) {
            remove(&order.private[..at]);
            return Err(told(Failure::of(directory.to_bytes(), &error, &BUSY), &log));
        }
    }
    spawn(order, groups, &log).map_err(|failure| {
        remove(&order.private);
        told(failure, &log)
    })
}

fn open_log(path: &CStr) -> Result<OwnedFd, Failure> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND;
    // The log is on the disk of the state directory: when that is full, the job waits for space.
    let transient = [BUSY.as_slice(), &NO_SPACE].concat();
    open(path, flags, 0o600).map_err(|error| Failure::of(path.to_bytes(), &error, &transient))
}

/// Says in the log why there is nothing else in it.
fn told(failure: Failure, log: &OwnedFd) -> Failure {
    if let Failure::Impossible(_, text) = &failure {
        drop(write(log, format!("gridwright: {text}\n").as_bytes()));
    }
    failure
}

fn path_of(words: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(words.to_bytes()))
}

/// Makes a private directory; also the library that it is in, but not the file system of that.
fn make(directory: &CStr) -> io::Result<()> {
    let path = path_of(directory);
    let private = || fs::DirBuilder::new().mode(0o700).create(path);
    match (private(), path.parent()) {
        (Err(error), Some(library)) if errno(&error) == libc::ENOENT => {
            fs::create_dir(library)?;
            private()
        }
        (made, _) => made,
    }
}

/// Removes what was made for a job that did not start.
fn remove(directories: &[CString]) {
    for each in directories {
        drop(fs::remove_dir(path_of(each)));
    }
}

/// What the new process is to become. Everything is ready before it is there: it may allocate nothing.
struct Program<'a> {
    candidates: Vec<CString>,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    directory: &'a CStr,
    files: [i32; 3],
    entrance: Option<OwnedFd>,
    none: libc::sigset_t,
    /// Memory of this process, which it shares until it is the program.
    report: *mut Report,
}

/// How far the new process came.
#[derive(Clone, Copy)]
#[repr(C)]
struct Report {
    errno: i32,
    in_directory: bool,
}

fn spawn(order: &Order, groups: &Groups, log: &OwnedFd) -> Result<i32, Failure> {
    let nothing = open(c"/dev/null", libc::O_RDONLY, 0)
        .map_err(|error| Failure::of(b"/dev/null", &error, &BUSY))?;
    let cradle = groups.cradle();
    let mut report = Report {
        errno: 0,
        in_directory: false,
    };
    let pointers = |words: &[CString]| {
        words
            .iter()
            .map(|word| word.as_ptr())
            .chain([null()])
            .collect()
    };
    let mut program = Program {
        candidates: candidates(order),
        arguments: pointers(&order.command),
        environment: pointers(&order.environment),
        directory: &order.directory,
        files: [nothing.as_raw_fd(), log.as_raw_fd(), log.as_raw_fd()],
        entrance: None,
        // SAFETY: an empty set is all zeros on Linux.
        none: unsafe { std::mem::zeroed() },
        report: &raw mut report,
    };
    let born = match cradle {
        Some(cradle) => born_into(&program, &cradle).or_else(|_| {
            program.entrance = groups.entrance();
            vfork(&program)
        }),
        None => vfork(&program),
    };
    let pid = born.map_err(|error| Failure::of(order.command[0].to_bytes(), &error, &BUSY))?;
    // SAFETY: the report outlives the process, and is written before that goes on here.
    let report = unsafe { program.report.read_volatile() };
    if report.errno == 0 {
        return Ok(pid);
    }
    // SAFETY: no memory is handed over.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    Err(not_executed(order, report))
}

fn not_executed(order: &Order, report: Report) -> Failure {
    let error = io::Error::from_raw_os_error(report.errno);
    if report.in_directory {
        return Failure::of(order.directory.to_bytes(), &error, &BUSY);
    }
    match Failure::of(order.command[0].to_bytes(), &error, &BUSY) {
        Failure::Impossible(_, text) if report.errno == libc::ENOENT => {
            Failure::Impossible(NOT_FOUND, text)
        }
        other => other,
    }
}

/// The files that the program may be, in the order of the job's own PATH.
fn candidates(order: &Order) -> Vec<CString> {
    let name = order.command[0].to_bytes();
    if name.contains(&b'/') {
        return vec![order.command[0].clone()];
    }
    let path = order
        .environment
        .iter()
        .find_map(|variable| variable.to_bytes().strip_prefix(b"PATH="));
    path.unwrap_or(DEFAULT_PATH)
        .split(|byte| *byte == b':')
        .filter_map(|place| {
            let separator: &[u8] = if place.is_empty() { b"" } else { b"/" };
            CString::new([place, separator, name].concat()).ok()
        })
        .collect()
}

/// Makes the new process in a control group from its first moment on (`CLONE_INTO_CGROUP`, Linux 5.7): to move
/// it there later would hold up all other processes of the machine. Memory is shared as in `vfork`.
fn born_into(program: &Program, cradle: &OwnedFd) -> io::Result<i32> {
    let mut stack = vec![0_u128; STACK / 16];
    // SAFETY: zeros are valid; stack and program outlive the time in which the child uses this memory.
    unsafe {
        let mut how: libc::clone_args = std::mem::zeroed();
        how.flags = (libc::CLONE_VM | libc::CLONE_VFORK) as u64 | CLONE_INTO_CGROUP;
        how.exit_signal = libc::SIGCHLD as u64;
        how.cgroup = cradle.as_raw_fd() as u64;
        (how.stack, how.stack_size) = (stack.as_mut_ptr() as u64, STACK as u64);
        let result = clone3(&how, std::ptr::from_ref(program).cast_mut().cast());
        if result < 0 {
            Err(io::Error::from_raw_os_error(-result as i32))
        } else {
            Ok(result as i32)
        }
    }
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The system call: the C library has no function for it. The child calls `run` on the stack that it is given.
#[cfg(target_arch = "x86_64")]
unsafe fn clone3(how: &libc::clone_args, program: *mut c_void) -> i64 {
    let result;
    // SAFETY: as the caller promises; the child never leaves the block.
    unsafe {
        std::arch::asm!(
            "syscall", "test rax, rax", "jnz 2f",
            "xor ebp, ebp", "mov rdi, r12", "call r13", "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") how, in("rsi") size_of::<libc::clone_args>(),
            in("r12") program, in("r13") run as *const (),
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}

/// The system call: the C library has no function for it. The child calls `run` on the stack that it is given.
#[cfg(target_arch = "aarch64")]
unsafe fn clone3(how: &libc::clone_args, program: *mut c_void) -> i64 {
    let result;
    // SAFETY: as the caller promises; the child never leaves the block.
    unsafe {
        std::arch::asm!(
            "svc 0", "cbnz x0, 2f",
            "mov x29, xzr", "mov x0, x20", "blr x21", "brk 1",
            "2:",
            inlateout("x0") how => result, in("x1") size_of::<libc::clone_args>(),
            in("x8") libc::SYS_clone3, in("x20") program, in("x21") run as *const (),
        );
    }
    result
}

/// Elsewhere, the process is made outside and writes itself into the group.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn clone3(_: &libc::clone_args, _: *mut c_void) -> i64 {
    -i64::from(libc::ENOSYS)
}

const STACK: usize = 64 << 10;

/// Makes the new process without copying this one's memory: this one stands still until it is the program.
fn vfork(program: &Program) -> io::Result<i32> {
    let mut stack = vec![0_u128; STACK / 16];
    let top = stack.as_mut_ptr_range().end;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack and the program outlive the time in which the child uses this memory.
    let pid = unsafe {
        libc::clone(
            run,
            top.cast(),
            flags,
            std::ptr::from_ref(program).cast_mut().cast(),
        )
    };
    Ok(checked(i64::from(pid))? as i32)
}

extern "C" fn run(program: *mut c_void) -> i32 {
    // SAFETY: it is the program that `vfork` handed over.
    unsafe { become_job(&*program.cast::<Program>()) }
}

/// In the new process: become the program. Only system calls.
unsafe fn become_job(program: &Program) -> ! {
    // SAFETY: all pointers are to what `spawn` holds; descriptors are valid, or the call fails and is told.
    unsafe {
        // Should the guard be killed, its job is not to go on unguarded.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0, 0, 0);
        if let Some(entrance) = &program.entrance {
            libc::write(entrance.as_raw_fd(), b"0".as_ptr().cast(), 1);
        }
        libc::setpgid(0, 0);
        let score = libc::open(
            c"/proc/self/oom_score_adj".as_ptr(),
            libc::O_WRONLY | libc::O_CLOEXEC,
        );
        libc::write(score, OOM_SCORE.as_ptr().cast(), OOM_SCORE.len());
        for (at, file) in (0..).zip(&program.files) {
            libc::dup2(*file, at);
        }
        if libc::chdir(program.directory.as_ptr()) < 0 {
            leave(program, true, *libc::__errno_location());
        }
        libc::sigprocmask(
            libc::SIG_SETMASK,
            &raw const program.none,
            std::ptr::null_mut(),
        );
        let mut told = 0;
        for candidate in &program.candidates {
            libc::execve(
                candidate.as_ptr(),
                program.arguments.as_ptr(),
                program.environment.as_ptr(),
            );
            let now = *libc::__errno_location();
            // As execvp(3): what is there and cannot be run tells more than places where nothing is.
            if told == 0 || (told == libc::ENOENT || told == libc::ENOTDIR) && now != libc::ENOTDIR
            {
                told = now;
            }
        }
        leave(program, false, told)
    }
}

unsafe fn leave(program: &Program, in_directory: bool, errno: i32) -> ! {
    // SAFETY: the report is memory that the guard reads when this process has ended.
    unsafe {
        program.report.write_volatile(Report {
            errno,
            in_directory,
        });
        libc::_exit(NOT_FOUND)
    }
}
