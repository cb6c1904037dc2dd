//! Attributes that were recorded, and attributes that somebody made to break their reader.

use gridwright_layout::attribute::{Refusal, decode};
use proptest::prelude::*;

/// `lustre.lov` of a file with two stripes of 4 MiB, recorded on Lustre 2.17.0.
const RECORDED: &str = "d00bd10b0100000002000000000000000104000002000000000040000200ffff\
0004008002000000030000000000000000000000000000000004004002000000020000000000000000000000\
01000000";

fn recorded() -> Vec<u8> {
    let digits: Vec<u8> = RECORDED.bytes().collect();
    let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A composite of `blobs`, each with its extent, all of which have objects.
fn composite(blobs: &[(u64, u64, Vec<u8>)]) -> Vec<u8> {
    let head = 32 + 48 * blobs.len();
    let mut entries = Vec::new();
    let mut data = Vec::new();
    for (place, (start, end, blob)) in blobs.iter().enumerate() {
        entries.extend_from_slice(&(place as u32 + 1).to_le_bytes());
        entries.extend_from_slice(&0x10_u32.to_le_bytes());
        entries.extend_from_slice(&start.to_le_bytes());
        entries.extend_from_slice(&end.to_le_bytes());
        entries.extend_from_slice(&((head + data.len()) as u32).to_le_bytes());
        entries.extend_from_slice(&(blob.len() as u32).to_le_bytes());
        entries.extend_from_slice(&[0; 16]);
        data.extend_from_slice(blob);
    }
    let mut all = 0x0BD6_0BD0_u32.to_le_bytes().to_vec();
    all.extend_from_slice(&((head + data.len()) as u32).to_le_bytes());
    all.extend_from_slice(&3_u32.to_le_bytes());
    all.extend_from_slice(&[0, 0]);
    all.extend_from_slice(&(blobs.len() as u16).to_le_bytes());
    all.extend_from_slice(&[0; 16]);
    all.extend(entries);
    all.extend(data);
    all
}

#[test]
fn a_recorded_file_is_read() {
    let layout = decode(&recorded()).unwrap();
    let part = &layout.components[0];
    assert_eq!((part.stripe_count, part.stripe_bytes), (2, Some(4 << 20)));
    let objects: Vec<_> = part
        .objects
        .iter()
        .map(|o| (o.ost, o.sequence, o.id))
        .collect();
    assert_eq!(objects, [(0, 0x2_8000_0400, 3), (1, 0x2_4000_0400, 2)]);
    assert!(!layout.composite && !layout.is_default && !part.released);
}

#[test]
fn every_shorter_one_is_refused_or_has_no_objects() {
    let whole = recorded();
    for length in 0..whole.len() {
        match decode(&whole[..length]) {
            Err(refusal) => assert_eq!(refusal, Refusal::Truncated),
            Ok(layout) => {
                // What a directory has: its head alone.
                assert_eq!(length, 32);
                assert!(layout.components[0].objects.is_empty());
            }
        }
    }
}

#[test]
fn the_other_byte_order_is_told() {
    let mut swapped = recorded();
    swapped[..4].reverse();
    assert_eq!(decode(&swapped), Err(Refusal::OtherByteOrder));
    assert_eq!(decode(b"no layout at all"), Err(Refusal::UnknownMagic));
}

#[test]
fn components_do_not_share_bytes() {
    let mut two = composite(&[(0, 64 << 20, recorded()), (64 << 20, u64::MAX, recorded())]);
    assert_eq!(decode(&two).unwrap().components.len(), 2);
    let first = two[32 + 24..32 + 28].to_vec();
    two[32 + 48 + 24..32 + 48 + 28].copy_from_slice(&first);
    assert_eq!(decode(&two), Err(Refusal::Inconsistent));
}

#[test]
fn a_count_beyond_the_bytes_is_refused() {
    let mut huge = recorded();
    huge[28..30].copy_from_slice(&0xfffe_u16.to_le_bytes());
    assert_eq!(decode(&huge), Err(Refusal::Truncated));
    let mut entries = composite(&[(0, u64::MAX, recorded())]);
    entries[14..16].copy_from_slice(&0xffff_u16.to_le_bytes());
    assert_eq!(decode(&entries), Err(Refusal::Truncated));
}

proptest! {
    #[test]
    fn no_bytes_break_it(
        magic in prop::sample::select(vec![1_u8, 3, 5, 6, 7, 8]),
        rest in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut bytes = vec![0xd0, 0x0b, 0xd0 | magic, 0x0b];
        bytes.extend(rest);
        if let Ok(layout) = decode(&bytes) {
            let objects: usize = layout.components.iter().map(|part| part.objects.len()).sum();
            prop_assert!(objects * 24 <= bytes.len());
        }
    }

    #[test]
    fn no_damage_breaks_it(
        place in 0_usize..400, byte in any::<u8>(), cut in 0_usize..400,
    ) {
        let mut bytes = composite(&[(0, 1 << 20, recorded()), (1 << 20, u64::MAX, recorded())]);
        let length = bytes.len();
        bytes[place % length] = byte;
        bytes.truncate(length - cut % length);
        if let Ok(layout) = decode(&bytes) {
            let objects: usize = layout.components.iter().map(|part| part.objects.len()).sum();
            prop_assert!(objects * 24 <= bytes.len());
        }
    }
}
