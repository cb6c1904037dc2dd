//! Small objects that go to a store and come from it over plain sockets, in threads that never wait for the
//! interpreter; see `gridwright.repository.s3.request_threads`.
//!
//! What is known here is success, and which refusals are final. Whatever else comes is asked for anew by who can
//! judge it.

use crc_fast::{CrcAlgorithm, Digest};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use rustix::fs::{FileType, Mode, OFlags, fremovexattr, fstat, openat};
use rustix::io::{Errno, fcntl_dupfd_cloexec, pread, pwrite};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::WithErrno;
use crate::receiving::{break_off, connected, write_all};

/// Bytes of a body that are moved at once; the head of a request or an answer has room beside them.
const PIECE: usize = 64 << 10;
const LONGEST_HEAD: usize = 32 << 10;
/// A request that takes longer lets one thread more begin.
const SLOW: Duration = Duration::from_millis(20);
/// So many ends are told at once, or as many as there are after so long.
const TOLD_AT_ONCE: usize = 16;
const TOLD_WITHIN: Duration = Duration::from_millis(3);
/// Refusals that no other try would change, which somebody has to read.
const FINAL: [&[u8]; 5] = [b"404", b"405", b"409", b"412", b"501"];

/// What a file was when it was opened: size, mtime and ctime in ns since 1970, inode.
type Stamp = (u64, i64, i64, u64);

/// How an exchange has ended: its number, one of the words of `Exchange::work`, the head of the answer or all of a
/// refusal, and the CRC-64/NVME of the body, or bytes of a slow one. Last the seconds of that, the errno of the file, or the descriptor of one that was made or is to be fetched
/// anew, which is the caller's then; else 0.
type Ended = (u64, &'static str, Vec<u8>, u64, i32);

enum Way {
    Send(Stamp),
    /// The object has this `ETag`; `makes` says that a file is made for it, without a name, in the open directory.
    Fetch {
        etag: String,
        makes: bool,
    },
}

struct Order {
    number: u64,
    head: Vec<u8>,
    file: OwnedFd,
    size: u64,
    way: Way,
}

impl Order {
    /// Makes the file that is to be fetched, where that is wanted: its owner alone may read it.
    fn make_file(&mut self) -> Result<(), Errno> {
        if matches!(self.way, Way::Fetch { makes: true, .. }) {
            let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
            self.file = openat(&self.file, ".", flags, Mode::RUSR | Mode::WUSR)?;
            // Otherwise the first change of its mode lets in whom the default ACL of the directory names.
            let _ = fremovexattr(&self.file, "system.posix_acl_access");
        }
        Ok(())
    }
}

enum Fault {
    /// Of the connection, or an answer that is neither success nor a final refusal.
    Unusual,
    /// The whole answer of a refusal that is final.
    Refused(Vec<u8>),
    /// Another object, or a file that cannot be read as it was: who asks once more finds out what it is.
    Again,
    /// No answer, or no connection, in the time that there is.
    Late,
    /// The file cannot be written.
    File(Errno),
    /// So many bytes came in so many seconds.
    Slow(u64, u64),
}

impl From<Errno> for Fault {
    fn from(error: Errno) -> Self {
        match error {
            Errno::AGAIN => Self::Late,
            _ => Self::Unusual,
        }
    }
}

#[derive(Default)]
struct Waiting {
    orders: VecDeque<Order>,
    /// Orders that have not ended, those that are worked on among them.
    at_work: usize,
    threads: usize,
    at_once: usize,
    is_closed: bool,
    /// What is to be broken off.
    sockets: Vec<RawFd>,
}

#[derive(Clone, Copy)]
struct Limits {
    connect_s: u64,
    read_s: u64,
    /// After so much waiting alone, an answer that has brought less than so many bytes is given up.
    patience: Duration,
    fewest_bytes: u64,
}

struct Shared {
    host: String,
    port: u16,
    limits: Limits,
    most: usize,
    waiting: Mutex<Waiting>,
    is_put: Condvar,
    ended: Mutex<Vec<Ended>>,
    is_ended: Condvar,
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection that `Shared::break_off` ends.
struct Connection {
    socket: OwnedFd,
    of: Arc<Shared>,
}

impl Connection {
    fn new(of: &Arc<Shared>) -> Result<Self, Fault> {
        let stream = connected(&of.host, of.port, of.limits.connect_s, of.limits.read_s)
            .map_err(|_| Fault::Late)?;
        let socket = OwnedFd::from(stream);
        let mut waiting = locked(&of.waiting);
        if waiting.is_closed {
            return Err(Fault::Unusual);
        }
        waiting.sockets.push(socket.as_raw_fd());
        drop(waiting);
        Ok(Self {
            socket,
            of: Arc::clone(of),
        })
    }

    fn send(&self, mut data: &[u8]) -> Result<(), Errno> {
        while !data.is_empty() {
            match send(&self.socket, data, SendFlags::NOSIGNAL) {
                Ok(count) => data = &data[count..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(
        &self,
        room: &mut [u8],
        flags: RecvFlags,
        bounds: &mut Bounds,
    ) -> Result<usize, Fault> {
        let since = Instant::now();
        loop {
            match recv(&self.socket, &mut *room, flags) {
                Ok((0, _)) => return Err(Fault::Unusual),
                Ok((got, _)) => {
                    bounds.got(got, since.elapsed())?;
                    return Ok(got);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let number = self.socket.as_raw_fd();
        locked(&self.of.waiting)
            .sockets
            .retain(|each| *each != number);
    }
}

/// How much an answer has brought, and how long was waited for it.
struct Bounds {
    limits: Limits,
    waited: Duration,
    bytes: u64,
}

impl Bounds {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            waited: Duration::ZERO,
            bytes: 0,
        }
    }

    fn got(&mut self, count: usize, waited: Duration) -> Result<(), Fault> {
        self.bytes += count as u64;
        self.waited += waited;
        if self.waited <= self.limits.patience {
            return Ok(());
        }
        if self.bytes < self.limits.fewest_bytes {
            return Err(Fault::Slow(self.bytes, self.waited.as_secs()));
        }
        *self = Self::new(self.limits);
        Ok(())
    }
}

/// What counts of the head of an answer.
#[derive(Default)]
struct Head {
    length: Option<u64>,
    etag: Option<String>,
    ends: bool,
    is_encoded: bool,
}

impl Head {
    fn parse(lines: &[u8]) -> Result<Self, Fault> {
        let text = std::str::from_utf8(lines).map_err(|_| Fault::Unusual)?;
        let mut found = Self::default();
        for line in text.split("\r\n").skip(1) {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => {
                    found.length = Some(value.parse().map_err(|_| Fault::Unusual)?);
                }
                "etag" => found.etag = Some(value.trim_matches('"').to_owned()),
                "connection" => found.ends |= value.eq_ignore_ascii_case("close"),
                "transfer-encoding" | "content-encoding" => found.is_encoded = true,
                _ => {}
            }
        }
        Ok(found)
    }
}

/// One thread's room, and its connection to the store.
struct Exchange {
    of: Arc<Shared>,
    connection: Option<Connection>,
    buffer: Vec<u8>,
}

impl Exchange {
    fn carry_out(&mut self, order: &Order) -> Result<(Vec<u8>, u64), Fault> {
        if self.connection.is_some() {
            // The store may have ended a connection that waited; a new one tells.
            match self.over_connection(order) {
                Err(Fault::Unusual) => self.connection = None,
                made => return made,
            }
        }
        self.connection = Some(Connection::new(&self.of)?);
        self.over_connection(order)
    }

    fn over_connection(&mut self, order: &Order) -> Result<(Vec<u8>, u64), Fault> {
        let connection = self.connection.take().ok_or(Fault::Unusual)?;
        let mut bounds = Bounds::new(self.of.limits);
        let sent = match &order.way {
            Way::Send(stamp) => send_body(&connection, order, *stamp, &mut self.buffer)?,
            Way::Fetch { .. } => {
                connection.send(&order.head)?;
                0
            }
        };
        let (end, filled) = receive_head(&connection, &mut self.buffer, &mut bounds)?;
        let is_refused = is_refused(&self.buffer)?;
        let lines = self.buffer[..end - 4].to_vec();
        let head = Head::parse(&lines)?;
        let mut ends = head.ends || head.is_encoded;
        if is_refused {
            let length = head.length.and_then(|length| usize::try_from(length).ok());
            let whole = end.saturating_add(length.unwrap_or(usize::MAX));
            if head.is_encoded || !(filled..=self.buffer.len()).contains(&whole) {
                return Err(Fault::Again);
            }
            let mut at = filled;
            while at < whole {
                at += connection.receive(
                    &mut self.buffer[at..whole],
                    RecvFlags::WAITALL,
                    &mut bounds,
                )?;
            }
            if !ends {
                self.connection = Some(connection);
            }
            return Err(Fault::Refused(self.buffer[..whole].to_vec()));
        }
        let crc = match &order.way {
            Way::Send(_) if head.etag.as_deref().unwrap_or("").is_empty() => {
                return Err(Fault::Again);
            }
            Way::Send(_) => {
                ends |= head.length.unwrap_or(0) != (filled - end) as u64;
                sent
            }
            Way::Fetch { etag, .. } => {
                let rest = (filled - end) as u64;
                if head.length != Some(order.size)
                    || head.etag.as_ref() != Some(etag)
                    || head.is_encoded
                    || rest > order.size
                {
                    return Err(Fault::Again);
                }
                self.buffer.copy_within(end..filled, 0);
                receive_body(
                    &connection,
                    order,
                    filled - end,
                    &mut self.buffer,
                    &mut bounds,
                )?
            }
        };
        if !ends {
            self.connection = Some(connection);
        }
        Ok((lines, crc))
    }

    fn work(&mut self) {
        while let Some(mut order) = next(&self.of) {
            let since = Instant::now();
            let made = order.make_file().map_err(Fault::File);
            let (word, head, sum, value) = match made.and_then(|()| self.carry_out(&order)) {
                Ok((head, crc)) => ("done", head, crc, 0),
                Err(Fault::Refused(answer)) => ("refused", answer, 0, 0),
                Err(Fault::Again) => ("anew", Vec::new(), 0, 0),
                Err(Fault::Unusual | Fault::Late) => ("unusual", Vec::new(), 0, 0),
                Err(Fault::Slow(bytes, seconds)) => (
                    "slow",
                    Vec::new(),
                    bytes,
                    i32::try_from(seconds).unwrap_or(i32::MAX),
                ),
                Err(Fault::File(error)) => ("file", Vec::new(), 0, error.raw_os_error()),
            };
            let Order {
                number, file, way, ..
            } = order;
            let last = match (word, way) {
                ("anew" | "unusual" | "refused", Way::Fetch { .. })
                | ("done", Way::Fetch { makes: true, .. }) => file.into_raw_fd(),
                // Whoever is told of the end may do with the file what he likes.
                (_, _) => {
                    drop(file);
                    value
                }
            };
            let mut waiting = locked(&self.of.waiting);
            waiting.at_work -= 1;
            let is_last = waiting.at_work == 0;
            if since.elapsed() > SLOW {
                waiting.at_once = (waiting.at_once + 1).min(self.of.most);
            }
            drop(waiting);
            let mut ended = locked(&self.of.ended);
            ended.push((number, word, head, sum, last));
            if is_last || matches!(ended.len(), 1 | TOLD_AT_ONCE) {
                self.of.is_ended.notify_one();
            }
        }
    }
}

fn next(of: &Shared) -> Option<Order> {
    let mut waiting = locked(&of.waiting);
    loop {
        if waiting.is_closed {
            return None;
        }
        if let Some(order) = waiting.orders.pop_front() {
            return Some(order);
        }
        waiting = of
            .is_put
            .wait(waiting)
            .unwrap_or_else(PoisonError::into_inner);
    }
}

/// Sends a request with a file as its body, which nothing has changed before the last byte leaves.
fn send_body(
    connection: &Connection,
    order: &Order,
    stamp: Stamp,
    buffer: &mut [u8],
) -> Result<u64, Fault> {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    let (mut filled, mut at) = (order.head.len(), 0);
    buffer[..filled].copy_from_slice(&order.head);
    loop {
        let room = (buffer.len() - filled) as u64;
        let wanted = usize::try_from(room.min(order.size - at)).unwrap_or(0);
        let piece = &mut buffer[filled..filled + wanted];
        read_all(&order.file, piece, at)?;
        digest.update(piece);
        at += wanted as u64;
        if at == order.size && stamp_of(&order.file) != Some(stamp) {
            return Err(Fault::Again);
        }
        connection.send(&buffer[..filled + wanted])?;
        if at == order.size {
            return Ok(digest.finalize());
        }
        filled = 0;
    }
}

fn read_all(file: &OwnedFd, mut piece: &mut [u8], mut at: u64) -> Result<(), Fault> {
    while !piece.is_empty() {
        match pread(file, &mut *piece, at) {
            Ok(0) => return Err(Fault::Again),
            Ok(got) => {
                piece = &mut piece[got..];
                at += got as u64;
            }
            Err(Errno::INTR) => {}
            Err(_) => return Err(Fault::Again),
        }
    }
    Ok(())
}

/// As `content.FileContent.open_file` has it, of a file; `None` for anything else.
fn stamp_of(file: &OwnedFd) -> Option<Stamp> {
    let found = fstat(file).ok()?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return None;
    }
    let in_ns = |seconds: i64, ns: u64| {
        let found = i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        i64::try_from(found.clamp(-i128::from(i64::MAX), i128::from(i64::MAX))).unwrap_or(i64::MAX)
    };
    #[allow(clippy::useless_conversion)] // Types of `struct stat` differ between machines
    Some((
        u64::try_from(found.st_size).ok()?,
        in_ns(
            found.st_mtime.into(),
            u64::try_from(found.st_mtime_nsec).ok()?,
        ),
        in_ns(
            found.st_ctime.into(),
            u64::try_from(found.st_ctime_nsec).ok()?,
        ),
        found.st_ino.into(),
    ))
}

/// Receives the head of an answer: where its body begins, and how much is in the buffer.
fn receive_head(
    connection: &Connection,
    buffer: &mut [u8],
    bounds: &mut Bounds,
) -> Result<(usize, usize), Fault> {
    let mut filled = 0_usize;
    loop {
        let seen = filled.saturating_sub(3);
        filled += connection.receive(&mut buffer[filled..], RecvFlags::empty(), bounds)?;
        let found = buffer[seen..filled]
            .windows(4)
            .position(|each| each == b"\r\n\r\n");
        if let Some(place) = found {
            return Ok((seen + place + 4, filled));
        }
        if filled > LONGEST_HEAD {
            return Err(Fault::Unusual);
        }
    }
}

/// Whether an answer is a final refusal, where it is no success. Fails for all others.
fn is_refused(head: &[u8]) -> Result<bool, Fault> {
    let status = head
        .strip_prefix(b"HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .ok_or(Fault::Unusual)?;
    match status {
        b"200" => Ok(false),
        _ if FINAL.contains(&status) => Ok(true),
        _ => Err(Fault::Unusual),
    }
}

/// Writes a body into the file, of which the buffer has the beginning.
fn receive_body(
    connection: &Connection,
    order: &Order,
    mut filled: usize,
    buffer: &mut [u8],
    bounds: &mut Bounds,
) -> Result<u64, Fault> {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    let mut at = 0;
    loop {
        let left = order.size - at;
        let wanted = usize::try_from(left.min(PIECE as u64)).unwrap_or(PIECE);
        while filled < wanted {
            filled +=
                connection.receive(&mut buffer[filled..wanted], RecvFlags::WAITALL, bounds)?;
        }
        // More than a piece may have come with the head.
        let piece = usize::try_from(left.min(filled as u64)).unwrap_or(filled);
        digest.update(&buffer[..piece]);
        write_all(&buffer[..piece], at, |some, at| {
            pwrite(&order.file, some, at)
        })
        .map_err(Fault::File)?;
        at += piece as u64;
        if at == order.size {
            return Ok(digest.finalize());
        }
        filled = 0;
    }
}

/// Sends and fetches small objects at one store, up to `most` of them at once.
#[pyclass(module = "gridwright._native", frozen)]
pub struct SmallExchanges(Arc<Shared>);

#[pymethods]
impl SmallExchanges {
    /// Threads begin with what is put: `threads` are how many at first, and at most, as each request that is slow
    /// lets one more begin. `limits` are seconds for a connection and for each wait, then as many seconds of waiting
    /// as an answer has for so many bytes.
    #[new]
    fn new(
        host: String,
        port: u16,
        limits: (u64, u64, f64, u64),
        threads: (usize, usize),
    ) -> PyResult<Self> {
        let (connect_s, read_s, patience_s, fewest_bytes) = limits;
        let patience = Duration::try_from_secs_f64(patience_s)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self(Arc::new(Shared {
            host,
            port,
            limits: Limits {
                connect_s,
                read_s,
                patience,
                fewest_bytes,
            },
            most: threads.1,
            waiting: Mutex::new(Waiting {
                at_once: threads.0,
                ..Waiting::default()
            }),
            is_put: Condvar::new(),
            ended: Mutex::default(),
            is_ended: Condvar::new(),
        })))
    }

    /// Has the request `head` sent with an open file of this size and stamp as its body. Raises `OSError`.
    fn send(&self, number: u64, head: &[u8], file: RawFd, stamp: Stamp) -> PyResult<()> {
        self.put(number, head, file, stamp.0, Way::Send(stamp))
    }

    /// Has an object of this size and `ETag` written into an open, empty file, or into one that is made without a
    /// name in an open directory. Raises `OSError`.
    fn fetch(
        &self,
        number: u64,
        head: &[u8],
        place: (RawFd, bool),
        object: (u64, String),
    ) -> PyResult<()> {
        let (file, makes) = place;
        let (size, etag) = object;
        self.put(number, head, file, size, Way::Fetch { etag, makes })
    }

    /// Waits for exchanges that have ended; none where all were broken off. Several are told at once: who tells
    /// of each takes turns at the interpreter with who begins others.
    fn take(&self, py: Python<'_>) -> Vec<Ended> {
        py.detach(|| {
            let of = &self.0;
            let ended = of
                .is_ended
                .wait_while(locked(&of.ended), |ended| {
                    ended.is_empty() && !locked(&of.waiting).is_closed
                })
                .unwrap_or_else(PoisonError::into_inner);
            let (mut ended, _) = of
                .is_ended
                .wait_timeout_while(ended, TOLD_WITHIN, |ended| {
                    let waiting = locked(&of.waiting);
                    ended.len() < TOLD_AT_ONCE && waiting.at_work > 0 && !waiting.is_closed
                })
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *ended)
        })
    }

    /// Ends all of them; none is begun any more.
    fn break_off(&self) {
        let mut waiting = locked(&self.0.waiting);
        waiting.is_closed = true;
        waiting.orders.clear();
        for each in &waiting.sockets {
            // Who closes it takes it off the list before, under the same lock.
            break_off(*each);
        }
        drop(waiting);
        self.0.is_put.notify_all();
        // Whoever is about to wait holds this lock.
        drop(locked(&self.0.ended));
        self.0.is_ended.notify_all();
    }
}

impl SmallExchanges {
    fn put(&self, number: u64, head: &[u8], file: RawFd, size: u64, way: Way) -> PyResult<()> {
        if file < 0 || head.len() > LONGEST_HEAD {
            return Err(PyOSError::new_err_from(Errno::INVAL.into()));
        }
        // SAFETY: the caller keeps it open during this call.
        let file = fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(file) }, 0)
            .map_err(|error| PyOSError::new_err_from(error.into()))?;
        let order = Order {
            number,
            head: head.to_vec(),
            file,
            size,
            way,
        };
        let mut waiting = locked(&self.0.waiting);
        waiting.orders.push_back(order);
        waiting.at_work += 1;
        if waiting.threads < waiting.at_once.min(waiting.at_work) {
            let of = Arc::clone(&self.0);
            let begun = std::thread::Builder::new()
                .name("objects".into())
                .stack_size(256 << 10)
                .spawn(move || {
                    let buffer = vec![0; PIECE + LONGEST_HEAD];
                    Exchange {
                        of,
                        connection: None,
                        buffer,
                    }
                    .work();
                });
            match begun {
                Ok(_) => waiting.threads += 1,
                Err(_) if waiting.threads > 0 => {}
                Err(error) => {
                    waiting.orders.pop_back();
                    waiting.at_work -= 1;
                    return Err(PyOSError::new_err_from(error));
                }
            }
        }
        drop(waiting);
        self.0.is_put.notify_one();
        Ok(())
    }
}
