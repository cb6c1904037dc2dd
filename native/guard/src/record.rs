//! The record of a job: who guards it, and how it ended.
//!
//! Records are slots of one file. Its room is taken before a job starts, and a record is written in place, by
//! one write of one sector: no space is needed for it, and a checksum tells a whole one from a torn one.

use crate::system::{checked, monotonic_ns, wall_ns};
use std::fs;
use std::io;

/// Bytes of a slot: a sector of a disk, which is written whole or not at all.
pub const SLOT: usize = 512;
const SLOT_BYTES: i64 = 512;
const MAGIC: &[u8; 8] = b"GWEXIT\0\x01";
const TEXT: usize = 208;
/// Clock, from when on an end is worth a wait for the disk.
const WORTH_A_SYNC_NS: i64 = 1_000_000_000;

/// How far a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i64)]
pub enum Phase {
    /// It is about to start, or runs.
    #[default]
    Running = 1,
    /// Its first process has ended; what that left is being ended.
    Ended = 2,
    /// Nothing of it is left, or nothing that can be ended.
    Over = 3,
    /// It was not started, since the system had no room for it at the moment.
    Refused = 4,
}

/// What ended a job, other than itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i64)]
pub enum Cause {
    /// Nothing did.
    #[default]
    Itself = 0,
    /// An order (SIGTERM to its guard).
    Ordered = 1,
    /// Its time was over.
    Time = 2,
    /// It used more memory than it may.
    Memory = 3,
}

/// All that a slot says.
#[derive(Debug, Default)]
pub struct Record {
    /// How far the job is.
    pub phase: Phase,
    /// What ended it.
    pub cause: Cause,
    /// Of its first process, as wait(2) gives it; `None` before it has ended, and where it never started.
    pub wait_status: Option<i32>,
    /// 126 or 127 where its program could not be started; the text says why.
    pub launch_status: i32,
    /// Why the system had no room.
    pub errno: i32,
    /// Bytes that it used when that was too much; 0 where the kernel held it to its limit.
    pub excess_bytes: i64,
    /// The most that its processes were seen to use together, or one of them alone.
    pub peak_bytes: i64,
    /// Processor time of all its processes that were waited for, in nanoseconds.
    pub user_ns: i64,
    /// And what the kernel took for them.
    pub system_ns: i64,
    /// When its first process ended, in nanoseconds since 1970.
    pub ended_ns: i64,
    /// What went wrong, in words.
    pub text: String,
}

/// A slot in the file of records. While its guard may start a job, it holds a lock on it (fcntl(2), `F_SETLK`).
pub struct Slot {
    file: i32,
    at: i64,
    guard: [i64; 2],
    boot: [u8; 16],
    identity: [i64; 3],
    started_ns: i64,
    began_ns: i64,
}

impl Slot {
    /// A slot by its number; this process is the guard.
    #[must_use]
    pub fn new(file: i32, number: i64, boot: [u8; 16]) -> Self {
        let pid = std::process::id();
        let guard = [i64::from(pid), start_ticks(pid).unwrap_or(-1)];
        let at = number * SLOT_BYTES;
        Self {
            file,
            at,
            guard,
            boot,
            identity: [0; 3],
            started_ns: 0,
            began_ns: 0,
        }
    }

    /// From now on, records are those of an attempt of a job that begins now.
    pub fn begin(&mut self, identity: [i64; 3]) {
        (self.identity, self.started_ns, self.began_ns) = (identity, wall_ns(), monotonic_ns());
    }

    /// Says that a job may be about to start.
    pub fn lock(&self) {
        self.set_lock(libc::F_WRLCK);
    }

    /// Says that none will before `lock`.
    pub fn unlock(&self) {
        self.set_lock(libc::F_UNLCK);
    }

    fn set_lock(&self, kind: i32) {
        // SAFETY: zeros are a valid lock, which lives as long as the call.
        unsafe {
            let mut lock: libc::flock = std::mem::zeroed();
            lock.l_type = kind as i16;
            lock.l_whence = libc::SEEK_SET as i16;
            (lock.l_start, lock.l_len) = (self.at, SLOT_BYTES);
            libc::fcntl(self.file, libc::F_SETLKW, &raw const lock);
        }
    }

    /// Writes the record. One of a job that ran for a while waits for the disk.
    pub fn write(&self, record: &Record) -> io::Result<()> {
        let bytes = self.encode(record);
        // SAFETY: the buffer is a slot long.
        let written =
            checked(
                unsafe { libc::pwrite(self.file, bytes.as_ptr().cast(), SLOT, self.at) } as i64,
            )?;
        if written != SLOT_BYTES {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if record.phase == Phase::Over && monotonic_ns() - self.began_ns > WORTH_A_SYNC_NS {
            // SAFETY: no memory is handed over.
            unsafe { libc::fdatasync(self.file) };
        }
        Ok(())
    }

    fn encode(&self, record: &Record) -> [u8; SLOT] {
        let numbers = [
            self.identity[0],
            self.identity[1],
            self.identity[2],
            record.phase as i64,
            record.cause as i64,
            self.guard[0],
            self.guard[1],
            record.wait_status.map_or(-1, i64::from),
            i64::from(record.launch_status),
            i64::from(record.errno),
            record.excess_bytes,
            record.peak_bytes,
            self.started_ns,
            self.began_ns,
            record.ended_ns,
            record.user_ns,
            record.system_ns,
            i64::try_from(text_length(&record.text)).unwrap_or(0),
        ];
        let mut bytes = [0; SLOT];
        bytes[..8].copy_from_slice(MAGIC);
        for (at, number) in numbers.iter().enumerate() {
            bytes[16 + at * 8..24 + at * 8].copy_from_slice(&number.to_le_bytes());
        }
        let boot = 16 + numbers.len() * 8;
        bytes[boot..boot + 16].copy_from_slice(&self.boot);
        let text = &record.text.as_bytes()[..text_length(&record.text)];
        bytes[boot + 16..boot + 16 + text.len()].copy_from_slice(text);
        let sum = crc32(&bytes[16..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

/// As much of a text as fits, cut between characters.
fn text_length(text: &str) -> usize {
    (0..=text.len().min(TEXT))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// When a process started, in clock ticks since boot (`proc_pid_stat(5)`, field 22).
fn start_ticks(pid: u32) -> Option<i64> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after = text.iter().rposition(|byte| *byte == b')')? + 2;
    let field = text.get(after..)?.split(|byte| *byte == b' ').nth(19)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// The identity of this boot (`proc_sys_kernel(5)`, `random/boot_id`); zeros where it is not told.
#[must_use]
pub fn boot() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits = text.trim().replace('-', "");
    u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
}

/// CRC-32 as zlib has it (ISO 3309).
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (sum >> 8) ^ CRC[((sum ^ u32::from(*byte)) & 0xff) as usize]
    })
}

const CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut sum = at as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 {
                0xedb8_8320 ^ (sum >> 1)
            } else {
                sum >> 1
            };
            bit += 1;
        }
        table[at] = sum;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(text_length(&"x".repeat(500)), TEXT);
        assert_eq!(text_length(&format!("{}é", "x".repeat(TEXT - 1))), TEXT - 1);
    }

    #[test]
    fn a_guard_knows_when_it_started() {
        assert!(start_ticks(std::process::id()).unwrap() > 0);
        assert_ne!(boot(), [0; 16]);
    }
}
