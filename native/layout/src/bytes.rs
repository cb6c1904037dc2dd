//! Numbers out of an attribute, little-endian, which never read beyond its end.

use crate::attribute::Refusal;

/// A part of an attribute.
#[derive(Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// `length` bytes from `offset` on.
    pub fn part(self, offset: usize, length: usize) -> Result<Bytes<'a>, Refusal> {
        let end = offset.checked_add(length).ok_or(Refusal::Truncated)?;
        self.0.get(offset..end).map(Bytes).ok_or(Refusal::Truncated)
    }

    fn fixed<const N: usize>(self, offset: usize) -> Result<[u8; N], Refusal> {
        let part = self.part(offset, N)?.0;
        part.try_into().map_err(|_| Refusal::Truncated)
    }

    /// 16 bits.
    pub fn u16(self, offset: usize) -> Result<u16, Refusal> {
        self.fixed(offset).map(u16::from_le_bytes)
    }

    /// 32 bits.
    pub fn u32(self, offset: usize) -> Result<u32, Refusal> {
        self.fixed(offset).map(u32::from_le_bytes)
    }

    /// 64 bits.
    pub fn u64(self, offset: usize) -> Result<u64, Refusal> {
        self.fixed(offset).map(u64::from_le_bytes)
    }
}
