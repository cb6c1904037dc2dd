//! Data that no file system can compress or deduplicate, and that can be checked byte for byte.
//!
//! A file is a sequence of 4 KiB sectors. A sector's content is a function of the seed, the
//! file's number and the sector's place: one of two random base sectors, exclusive-or a key of 64
//! bits that no other sector has. Its first 32 bytes are a stamp: file, offset, seed, and the XXH3
//! hash of these. Sectors never repeat, at any alignment, so neither compression nor
//! deduplication finds anything; and the content does not depend on the block size it was written
//! with.

use bytemuck::{cast_slice, cast_slice_mut};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of a sector; block sizes are multiples of it.
pub const SECTOR: usize = 4096;
const WORDS: usize = SECTOR / 8;
const STAMP_WORDS: usize = 4;
/// Few enough to stay in the first-level cache: making data must not cost what moving it does.
const BASE_SECTORS: usize = 2;
/// Correct bytes in a row that end a wrong range.
const RANGE_GAP: usize = 32;

/// A range of bytes that differ from what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongRange {
    /// Offset of the first wrong byte in the file.
    pub offset: u64,
    /// Bytes until 32 correct bytes in a row, or the end of the block.
    pub length: u64,
}

/// The generator and checker of a run's data; shared by all its streams.
pub struct Pattern {
    seed: u64,
    base: Vec<u64>,
}

/// One step of `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
/// OOPSLA 2014).
fn split_mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `out = base ^ key`, in the widest registers there are.
fn mask(out: &mut [u64], base: &[u64], key: u64) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as was just asked.
        unsafe { mask_avx2(out, base, key) };
        return;
    }
    mask_words(out, base, key);
}

#[inline]
fn mask_words(out: &mut [u64], base: &[u64], key: u64) {
    for (word, base) in out.iter_mut().zip(base) {
        *word = base ^ key;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn mask_avx2(out: &mut [u64], base: &[u64], key: u64) {
    mask_words(out, base, key);
}

/// Whether `got` is anything else than `base ^ key`.
fn differs(got: &[u64], base: &[u64], key: u64) -> bool {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as was just asked.
        return unsafe { differs_avx2(got, base, key) };
    }
    differs_words(got, base, key)
}

#[inline]
fn differs_words(got: &[u64], base: &[u64], key: u64) -> bool {
    let wrong = got
        .iter()
        .zip(base)
        .fold(0, |wrong, (got, base)| wrong | (got ^ base ^ key));
    wrong != 0
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn differs_avx2(got: &[u64], base: &[u64], key: u64) -> bool {
    differs_words(got, base, key)
}

impl Pattern {
    /// Prepares the base sectors of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let start = split_mix(seed);
        let base = (0..(BASE_SECTORS * WORDS) as u64)
            .map(|i| split_mix(start.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15))))
            .collect();
        Self { seed, base }
    }

    fn sector(&self, file: u64, sector: u64) -> (&[u64], u64, [u64; STAMP_WORDS]) {
        let slot = (sector as usize % BASE_SECTORS) * WORDS;
        let key = split_mix(split_mix(self.seed ^ split_mix(file)) ^ sector);
        let head = [file, sector * SECTOR as u64, self.seed];
        let hash = xxh3_64_with_seed(cast_slice(&head), self.seed);
        (
            &self.base[slot..slot + WORDS],
            key,
            [head[0], head[1], head[2], hash],
        )
    }

    /// Fills a block that will lie at `offset` of `file`.
    ///
    /// # Panics
    /// If the block or its offset is not a multiple of [`SECTOR`], or the block is not aligned to
    /// 8 bytes: the engine allows neither.
    pub fn fill(&self, block: &mut [u8], file: u64, offset: u64) {
        assert!(block.len() % SECTOR == 0 && offset % SECTOR as u64 == 0);
        let first = offset / SECTOR as u64;
        let words: &mut [u64] = cast_slice_mut(block);
        for (i, out) in words.chunks_exact_mut(WORDS).enumerate() {
            let (base, key, stamp) = self.sector(file, first + i as u64);
            mask(out, base, key);
            out[..STAMP_WORDS].copy_from_slice(&stamp);
        }
    }

    /// Checks a block read at `offset` of `file`; returns the first wrong range.
    ///
    /// # Panics
    /// As [`Pattern::fill`].
    #[must_use]
    pub fn check(&self, block: &[u8], file: u64, offset: u64) -> Option<WrongRange> {
        assert!(block.len() % SECTOR == 0 && offset % SECTOR as u64 == 0);
        let first = offset / SECTOR as u64;
        let words: &[u64] = cast_slice(block);
        for (i, got) in words.chunks_exact(WORDS).enumerate() {
            let (base, key, stamp) = self.sector(file, first + i as u64);
            let wrong = differs(&got[STAMP_WORDS..], &base[STAMP_WORDS..], key);
            if wrong || got[..STAMP_WORDS] != stamp {
                return Some(self.wrong_range(block, file, offset, i * SECTOR));
            }
        }
        None
    }

    fn wrong_range(&self, block: &[u8], file: u64, offset: u64, from: usize) -> WrongRange {
        let mut expected = vec![0u64; block.len() / 8];
        let expected: &mut [u8] = cast_slice_mut(&mut expected);
        self.fill(expected, file, offset);
        let start = (from..block.len())
            .find(|&i| block[i] != expected[i])
            .unwrap_or(from);
        let mut end = start + 1;
        let mut right = 0;
        for i in start + 1..block.len() {
            if block[i] == expected[i] {
                right += 1;
                if right == RANGE_GAP {
                    break;
                }
            } else {
                right = 0;
                end = i + 1;
            }
        }
        WrongRange {
            offset: offset + start as u64,
            length: (end - start) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn block(sectors: usize) -> Vec<u64> {
        vec![0; sectors * WORDS]
    }

    #[test]
    fn content_does_not_depend_on_the_block_size() {
        let pattern = Pattern::new(7);
        let mut whole = block(32);
        pattern.fill(cast_slice_mut(&mut whole), 3, 8 * SECTOR as u64);
        let mut one = block(1);
        for i in 0..32 {
            pattern.fill(cast_slice_mut(&mut one), 3, (8 + i as u64) * SECTOR as u64);
            assert_eq!(one, whole[i * WORDS..(i + 1) * WORDS]);
        }
    }

    #[test]
    fn no_eight_bytes_repeat() {
        let pattern = Pattern::new(1);
        let mut seen = HashSet::new();
        let mut data = block(256);
        for file in 0..2 {
            pattern.fill(cast_slice_mut(&mut data), file, 0);
            for sector in data.chunks_exact(WORDS) {
                assert!(sector[STAMP_WORDS..].iter().all(|word| seen.insert(*word)));
            }
        }
    }

    proptest! {
        #[test]
        fn one_flipped_bit_is_found_where_it_is(
            seed: u64, file: u64, at in 0usize..16 * SECTOR, bit in 0u8..8, first in 0u64..1 << 40,
        ) {
            let pattern = Pattern::new(seed);
            let offset = first * SECTOR as u64;
            let mut data = block(16);
            pattern.fill(cast_slice_mut(&mut data), file, offset);
            prop_assert_eq!(pattern.check(cast_slice(&data), file, offset), None);
            cast_slice_mut::<u64, u8>(&mut data)[at] ^= 1 << bit;
            prop_assert_eq!(
                pattern.check(cast_slice(&data), file, offset),
                Some(WrongRange { offset: offset + at as u64, length: 1 })
            );
        }

        #[test]
        fn another_place_file_or_seed_is_wrong_from_the_first_stamp(
            seed: u64, file in 0u64..1000, sector in 0u64..1 << 30,
        ) {
            let pattern = Pattern::new(seed);
            let offset = sector * SECTOR as u64;
            let mut data = block(1);
            pattern.fill(cast_slice_mut(&mut data), file, offset);
            let data: &[u8] = cast_slice(&data);
            prop_assert!(pattern.check(data, file + 1, offset).is_some());
            prop_assert!(pattern.check(data, file, offset + SECTOR as u64).is_some());
            prop_assert!(Pattern::new(seed ^ 1).check(data, file, offset).is_some());
        }
    }
}
