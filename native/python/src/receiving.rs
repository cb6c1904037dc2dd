//! Requests over a plain socket, without the interpreter: bodies of answers are received, counted and written to
//! a file piece by piece; see `gridwright.repository.s3.plain`.

use crc_fast::{CrcAlgorithm, Digest};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyOSError};
use pyo3::prelude::*;
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, StatxFlags, fallocate, fstatvfs, open, statx,
};
use rustix::io::{Errno, pwrite};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, SendFlags, Shutdown, connect_unspec, recv, send, shutdown};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};
use std::time::{Duration, Instant};

use crate::WithErrno;

/// What buffers and offsets of direct writes are multiples of; most kernels ask for less.
const BLOCK: usize = 4096;
/// A call ends after so many bytes or so long a wait: somebody may want to know how far it is.
const LONG_BYTES: u64 = 4 << 20;
const LONG: Duration = Duration::from_secs(1);

/// Of one call: bytes in the buffer that are not written, where they belong, the CRC of all before, bytes
/// received, seconds of waiting for them, and the errno of the file, or 0.
type Received = (usize, u64, u64, u64, f64, i32);

/// A body on its way.
struct Body<'a> {
    socket: BorrowedFd<'a>,
    /// The file, and the same open for direct writes.
    file: BorrowedFd<'a>,
    direct: Option<BorrowedFd<'a>>,
    buffer: &'a mut [u8],
    filled: usize,
    at: u64,
    end: u64,
    crc: u64,
    received: u64,
    waited: Duration,
}

impl Body<'_> {
    /// Moves some of it, which is all that is left where that is little. Fails as the connection does.
    fn go_on(&mut self) -> Result<i32, Errno> {
        let until = self.end.min(self.at + LONG_BYTES);
        while self.at < until && self.waited < LONG {
            let wanted = usize::try_from(self.end - self.at)
                .map_or(self.buffer.len(), |left| left.min(self.buffer.len()));
            if self.filled < wanted {
                self.receive(wanted)?;
                continue;
            }
            let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc64Nvme, !self.crc);
            digest.update(&self.buffer[..wanted]);
            if let Err(error) = self.write(wanted) {
                return Ok(error.raw_os_error());
            }
            self.crc = digest.finalize();
            self.at += wanted as u64;
            self.filled = 0;
        }
        Ok(0)
    }

    /// The kernel waits until all is there, or as long as the socket says.
    fn receive(&mut self, wanted: usize) -> Result<(), Errno> {
        let since = Instant::now();
        let room = &mut self.buffer[self.filled..wanted];
        let got = match recv(self.socket, room, RecvFlags::WAITALL) {
            Ok((got, _)) => got,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.waited += since.elapsed();
        if got == 0 {
            return Err(Errno::CONNRESET);
        }
        self.filled += got;
        self.received += got as u64;
        Ok(())
    }

    fn write(&self, wanted: usize) -> Result<(), Errno> {
        write_all(&self.buffer[..wanted], self.at, |piece, at| {
            let fits =
                (piece.as_ptr() as usize | piece.len()) % BLOCK == 0 && at % BLOCK as u64 == 0;
            match self
                .direct
                .filter(|_| fits)
                .map(|direct| pwrite(direct, piece, at))
            {
                // What this kernel does not write directly it writes as ever.
                None | Some(Err(Errno::INVAL)) => pwrite(self.file, piece, at),
                Some(written) => written,
            }
        })
    }
}

/// Writes a piece of a file, which begins at `at`, by calls that may each write less.
pub fn write_all(
    mut piece: &[u8],
    mut at: u64,
    write: impl Fn(&[u8], u64) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    while !piece.is_empty() {
        match write(piece, at) {
            Ok(count) => {
                piece = &piece[count..];
                at += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Moves some of a body, up to the byte `end` of a file, and says how far it has come.
///
/// `buffer` has `filled` bytes already, which belong to `at`; it is filled as a whole before it is written.
/// `files` are the file and, where that is not -1, the same open for direct writes. Raises `OSError` of the
/// connection.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // Python hands over what it extracted
#[allow(clippy::too_many_arguments)]
pub fn receive_into_file(
    py: Python<'_>,
    socket: RawFd,
    buffer: PyBuffer<u8>,
    filled: usize,
    files: (RawFd, RawFd),
    at: u64,
    end: u64,
    crc: u64,
) -> PyResult<Received> {
    let length = buffer.len_bytes();
    if !buffer.is_c_contiguous() || buffer.readonly() || filled > length || at > end {
        return Err(PyBufferError::new_err("it is no room for a body"));
    }
    let (file, direct) = files;
    if socket < 0 || file < 0 {
        return Err(PyOSError::new_err_from(Errno::BADF.into()));
    }
    // SAFETY: so many bytes lie there in one piece, may be written, and stay while the buffer is held. One thread
    // uses them, which is in this call; it keeps the descriptors open, too.
    let mut body = unsafe {
        Body {
            socket: BorrowedFd::borrow_raw(socket),
            file: BorrowedFd::borrow_raw(file),
            direct: (direct >= 0).then(|| BorrowedFd::borrow_raw(direct)),
            buffer: std::slice::from_raw_parts_mut(buffer.buf_ptr().cast::<u8>(), length),
            filled,
            at,
            end,
            crc,
            received: 0,
            waited: Duration::ZERO,
        }
    };
    let errno = py
        .detach(|| body.go_on())
        .map_err(|error| PyOSError::new_err_from(error.into()))?;
    let waited_s = body.waited.as_secs_f64();
    Ok((
        body.filled,
        body.at,
        body.crc,
        body.received,
        waited_s,
        errno,
    ))
}

/// Makes a connection, in so many seconds for each address of the host; its socket waits for `patience_s` each time.
///
/// Whatever closes it, a kill too, resets it (`SO_LINGER` of 0, socket(7)): some stores take a body that ends early, by
/// a FIN, for a whole object.
pub fn connected(
    host: &str,
    port: u16,
    connect_s: u64,
    patience_s: u64,
) -> std::io::Result<TcpStream> {
    let mut failure = Errno::HOSTUNREACH.into();
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, Duration::from_secs(connect_s)) {
            Ok(stream) => {
                let patience = Some(Duration::from_secs(patience_s));
                stream.set_nodelay(true)?;
                set_socket_linger(&stream, Some(Duration::ZERO))?;
                stream.set_read_timeout(patience)?;
                stream.set_write_timeout(patience)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Ends a connection under whoever waits for it, by a reset where the kernel lets others do that.
///
/// Linux 6.4 to 6.6 refuses it while somebody waits (`tcp_disconnect`); both ends are shut down there.
#[pyfunction]
pub fn break_off(socket: RawFd) {
    if socket < 0 {
        return;
    }
    // SAFETY: the caller keeps it open during this call.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    if connect_unspec(socket).is_err() {
        let _ = shutdown(socket, Shutdown::Both);
    }
}

/// The descriptor of such a connection. Raises `OSError`.
#[pyfunction]
pub fn connect(
    py: Python<'_>,
    host: &str,
    port: u16,
    connect_s: u64,
    patience_s: u64,
) -> PyResult<RawFd> {
    py.detach(|| connected(host, port, connect_s, patience_s))
        .map(IntoRawFd::into_raw_fd)
        .map_err(PyOSError::new_err_from)
}

/// Sends all of a request, and receives the beginning of the answer: how many bytes, 0 at the end of the
/// connection, and seconds of waiting for them. Raises `OSError`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // Python hands over what it extracted
pub fn ask(
    py: Python<'_>,
    socket: RawFd,
    request: &[u8],
    buffer: PyBuffer<u8>,
) -> PyResult<(usize, f64)> {
    if !buffer.is_c_contiguous() || buffer.readonly() || socket < 0 {
        return Err(PyBufferError::new_err("it is no room for an answer"));
    }
    // SAFETY: as in `receive_into_file`.
    let (socket, room) = unsafe {
        (
            BorrowedFd::borrow_raw(socket),
            std::slice::from_raw_parts_mut(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes()),
        )
    };
    py.detach(|| {
        let mut left = request;
        while !left.is_empty() {
            match send(socket, left, SendFlags::NOSIGNAL) {
                Ok(count) => left = &left[count..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        let since = Instant::now();
        loop {
            match recv(socket, &mut *room, RecvFlags::empty()) {
                Ok((got, _)) => return Ok((got, since.elapsed().as_secs_f64())),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    })
    .map_err(|error| PyOSError::new_err_from(error.into()))
}

/// Opens an empty file once more, to write it past the page cache, and takes the room for it; -1 where the kernel
/// does not say that it can do so (`STATX_DIOALIGN` of statx(2), Linux 6.1), and where less is free: ext4 would take
/// all that there is before it said no. Raises `OSError` where a quota or others take the room meanwhile.
#[pyfunction]
pub fn open_direct(py: Python<'_>, file: RawFd, size: u64) -> PyResult<RawFd> {
    if file < 0 {
        return Err(PyOSError::new_err_from(Errno::BADF.into()));
    }
    // SAFETY: the caller keeps it open.
    let open_file = unsafe { BorrowedFd::borrow_raw(file) };
    py.detach(|| {
        let can =
            statx(open_file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).is_ok_and(|found| {
                let fits = |align: u32| align > 0 && BLOCK % align as usize == 0;
                found.stx_mask & StatxFlags::DIOALIGN.bits() != 0
                    && fits(found.stx_dio_mem_align)
                    && fits(found.stx_dio_offset_align)
            });
        let has_room = fstatvfs(open_file)
            .is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) > size);
        if !can || !has_room {
            return Ok(-1);
        }
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let Ok(direct) = open(format!("/proc/self/fd/{file}"), flags, Mode::empty()) else {
            return Ok(-1);
        };
        match fallocate(&direct, FallocateFlags::empty(), 0, size) {
            Err(error @ (Errno::NOSPC | Errno::DQUOT)) => Err(error),
            // Without it, writes to one file take turns.
            _ => Ok(direct.into_raw_fd()),
        }
    })
    .map_err(|error| PyOSError::new_err_from(error.into()))
}
