//! CRC-64/NVME for Python; see `gridwright.repository.crc64`.

use crc_fast::{CrcAlgorithm, Digest, checksum_combine};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

/// From so many bytes on others may run meanwhile: fewer take less time than to let them.
const LONG: usize = 1 << 20;

/// The CRC of bytes that follow others with the CRC `before`; nobody else writes to them meanwhile.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // Python hands over what it extracted
pub fn crc64(py: Python<'_>, data: PyBuffer<u8>, before: u64) -> PyResult<u64> {
    if !data.is_c_contiguous() {
        return Err(PyBufferError::new_err("the bytes do not lie in one piece"));
    }
    let bytes = if data.len_bytes() == 0 {
        &[]
    } else {
        // SAFETY: so many bytes lie there in one piece. The buffer is held, so that they stay, and the caller
        // lets nobody write to them.
        unsafe { std::slice::from_raw_parts(data.buf_ptr().cast::<u8>(), data.len_bytes()) }
    };
    let count = || {
        // What a digest holds is the complement of the CRC, as this algorithm begins and ends with all ones.
        let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc64Nvme, !before);
        digest.update(bytes);
        digest.finalize()
    };
    Ok(if bytes.len() < LONG {
        count()
    } else {
        py.detach(count)
    })
}

/// The CRC of a whole, of the CRCs of its two halves and the bytes of the second one.
#[pyfunction]
pub fn combine_crc64(first: u64, second: u64, second_bytes: u64) -> u64 {
    checksum_combine(CrcAlgorithm::Crc64Nvme, first, second, second_bytes)
}
