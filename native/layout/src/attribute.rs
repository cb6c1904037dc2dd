//! The attribute `lustre.lov` (`trusted.lov` on servers): over which targets the bytes of a file lie.
//!
//! Forms, fields and constants are those of Lustre's `lustre_user.h` (2.17): `lov_user_md_v1` and `_v3`,
//! `lov_comp_md_v1`, `lov_foreign_md`. All are little-endian; a server of the other order is refused by name.
//! Attributes come from disks that others write, so nothing is read beyond their end, and no more is
//! allocated than they are long.

use crate::bytes::Bytes;
use serde::Serialize;

const V1: u32 = 0x0BD1_0BD0;
const V3: u32 = 0x0BD3_0BD0;
/// As V3, with the targets that a user wants.
const SPECIFIC: u32 = 0x0BD5_0BD0;
const COMPOSITE: u32 = 0x0BD6_0BD0;
const FOREIGN: u32 = 0x0BD7_0BD0;
/// As COMPOSITE, with components that extend themselves.
const SELF_EXTENDING: u32 = 0x0BD8_0BD0;
const KNOWN: [u32; 6] = [V1, V3, SPECIFIC, COMPOSITE, FOREIGN, SELF_EXTENDING];

const V1_BYTES: usize = 32;
const POOL_BYTES: usize = 16;
const OBJECT_BYTES: usize = 24;
const COMPOSITE_BYTES: usize = 32;
const ENTRY_BYTES: usize = 48;
const FOREIGN_BYTES: usize = 16;

const PATTERN_RAID0: u32 = 0x1;
const PATTERN_MDT: u32 = 0x100;
const PATTERN_OVERSTRIPED: u32 = 0x200;
const PATTERN_RELEASED: u32 = 0x8000_0000;
const PATTERN_HOLE: u32 = 0x4000_0000;
/// As a stripe count: all targets.
const ALL: u16 = 0xffff;
/// An extension's size is kept in KiB (`SEL_UNIT_SIZE`).
const EXTENSION_UNIT: u64 = 1024;
const FLAG_INIT: u32 = 0x10;
const FLAG_EXTENSION: u32 = 0x40;
/// Words of `lcme_flags`, as `lfs getstripe` prints them, in its order.
const FLAGS: [(u32, &str); 7] = [
    (FLAG_INIT, "init"),
    (0x1, "stale"),
    (0x2, "prefrd"),
    (0x4, "prefwr"),
    (0x8, "offline"),
    (0x20, "nosync"),
    (FLAG_EXTENSION, "extension"),
];

/// Why bytes are no layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// It ends before what it announces.
    Truncated,
    /// It begins with a number that no layout begins with.
    UnknownMagic,
    /// It was written by a machine of the other byte order.
    OtherByteOrder,
    /// A component ends before it begins, or parts of it lie outside or on others.
    Inconsistent,
}

impl Refusal {
    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Truncated => "it ends before what it announces",
            Self::UnknownMagic => "it is no layout of a release that is known",
            Self::OtherByteOrder => "it is of the other byte order",
            Self::Inconsistent => "its components contradict each other",
        }
    }
}

/// A stripe: an object on a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Object {
    /// Index of the target.
    pub ost: u32,
    /// Sequence of its identifier.
    pub sequence: u64,
    /// Number of it in the sequence.
    pub id: u64,
}

/// A part of a file.
#[allow(clippy::struct_excessive_bools)] // Each is a bit of the pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Component {
    /// Where it begins, in bytes.
    pub start: u64,
    /// Where it ends; none for the end of the file.
    pub end: Option<u64>,
    /// Stripes; -1 is all targets, 0 with data on the metadata server.
    pub stripe_count: i32,
    /// Bytes on one target before the next; none where nothing is said of it.
    pub stripe_bytes: Option<u64>,
    /// By how much one that extends itself grows.
    pub extension_bytes: Option<u64>,
    /// The pool of targets.
    pub pool: Option<String>,
    /// Whether its data lie on the metadata server.
    pub on_metadata_server: bool,
    /// Whether a target may have several of its stripes.
    pub overstriped: bool,
    /// Whether the data are in the archive only.
    pub released: bool,
    /// Whether objects are lost.
    pub hole: bool,
    /// Which copy of the file it belongs to; 0 where there is one only.
    pub mirror: u32,
    /// Such as init and stale.
    pub flags: Vec<&'static str>,
    /// Its objects; none before it is first written.
    pub objects: Vec<Object>,
}

/// A layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// Components in their order; none of a foreign one.
    pub components: Vec<Component>,
    /// Whether components have identifiers of their own.
    pub composite: bool,
    /// Its generation; none of a plain one, where the attribute has none.
    pub generation: Option<u32>,
    /// The type number of a file whose data Lustre does not hold.
    pub foreign: Option<u32>,
    /// A directory that has none of its own: pattern 0.
    pub is_default: bool,
}

/// The layout in an attribute.
pub fn decode(attribute: &[u8]) -> Result<Layout, Refusal> {
    let bytes = Bytes(attribute);
    let magic = bytes.u32(0)?;
    match magic {
        COMPOSITE | SELF_EXTENDING => composite(bytes),
        FOREIGN => foreign(bytes),
        _ if KNOWN.contains(&magic) => plain(bytes),
        _ if KNOWN.contains(&magic.swap_bytes()) => Err(Refusal::OtherByteOrder),
        _ => Err(Refusal::UnknownMagic),
    }
}

fn foreign(bytes: Bytes<'_>) -> Result<Layout, Refusal> {
    bytes.part(FOREIGN_BYTES, bytes.u32(4)? as usize)?;
    Ok(Layout {
        components: Vec::new(),
        composite: false,
        generation: None,
        foreign: Some(bytes.u32(8)?),
        is_default: false,
    })
}

fn plain(bytes: Bytes<'_>) -> Result<Layout, Refusal> {
    // A directory's default, and what tools hand to new files, have no objects behind the head.
    let has_objects = bytes.0.len() > head_bytes(bytes.u32(0)?);
    let component = striping(bytes, has_objects)?;
    Ok(Layout {
        is_default: bytes.u32(4)? == 0,
        components: vec![component],
        composite: false,
        generation: None,
        foreign: None,
    })
}

fn head_bytes(magic: u32) -> usize {
    V1_BYTES + if magic == V1 { 0 } else { POOL_BYTES }
}

/// A component out of a `lov_user_md_v1` or `_v3`; its extent and identity are those of a whole file.
fn striping(bytes: Bytes<'_>, has_objects: bool) -> Result<Component, Refusal> {
    let magic = bytes.u32(0)?;
    let head = head_bytes(magic);
    bytes.part(0, head)?;
    let pattern = bytes.u32(4)?;
    let size = bytes.u32(24)?;
    let count = bytes.u16(28)?;
    let released = pattern & PATTERN_RELEASED != 0;
    let on_metadata_server = pattern & PATTERN_MDT != 0;
    let number = match count {
        ALL => 0,
        _ if released || on_metadata_server || !has_objects => 0,
        _ => usize::from(count),
    };
    let table = bytes.part(head, number * OBJECT_BYTES)?;
    let objects = (0..number).map(|place| object(table, place * OBJECT_BYTES));
    Ok(Component {
        start: 0,
        end: None,
        stripe_count: if count == ALL { -1 } else { i32::from(count) },
        stripe_bytes: (size != 0).then_some(u64::from(size)),
        extension_bytes: None,
        pool: if magic == V1 { None } else { pool(bytes)? },
        on_metadata_server,
        overstriped: pattern & (PATTERN_OVERSTRIPED | PATTERN_RAID0)
            == PATTERN_OVERSTRIPED | PATTERN_RAID0,
        released,
        hole: pattern & PATTERN_HOLE != 0,
        mirror: 0,
        flags: Vec::new(),
        objects: objects.collect::<Result<_, _>>()?,
    })
}

fn pool(bytes: Bytes<'_>) -> Result<Option<String>, Refusal> {
    let name = bytes.part(V1_BYTES, POOL_BYTES)?.0;
    let end = name
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(name.len());
    Ok((end > 0).then(|| String::from_utf8_lossy(&name[..end]).into_owned()))
}

/// An identifier is kept as sequence, number and version, or, of sequence 0, as number and sequence.
fn object(table: Bytes<'_>, offset: usize) -> Result<Object, Refusal> {
    let (first, second) = (table.u64(offset)?, table.u64(offset + 8)?);
    let is_old = second == 0;
    Ok(Object {
        ost: table.u32(offset + 20)?,
        sequence: if is_old { 0 } else { first },
        id: if is_old { first } else { second & 0xffff_ffff },
    })
}

fn composite(bytes: Bytes<'_>) -> Result<Layout, Refusal> {
    let length = bytes.u32(4)? as usize;
    let whole = bytes.part(0, length)?;
    let count = usize::from(whole.u16(14)?);
    let entries = whole.part(COMPOSITE_BYTES, count * ENTRY_BYTES)?;
    let mut components = Vec::with_capacity(count);
    let mut taken: Vec<(usize, usize)> = Vec::with_capacity(count);
    for place in 0..count {
        let entry = entries.part(place * ENTRY_BYTES, ENTRY_BYTES)?;
        let (offset, size) = (entry.u32(24)? as usize, entry.u32(28)? as usize);
        if offset < COMPOSITE_BYTES + count * ENTRY_BYTES {
            return Err(Refusal::Inconsistent);
        }
        taken.push((offset, size));
        components.push(component(entry, whole.part(offset, size)?)?);
    }
    taken.sort_unstable();
    // Blobs that share bytes would let a short attribute announce any number of objects.
    if taken.windows(2).any(|two| two[0].0 + two[0].1 > two[1].0) || components.is_empty() {
        return Err(Refusal::Inconsistent);
    }
    Ok(Layout {
        components,
        composite: true,
        generation: Some(whole.u32(8)?),
        foreign: None,
        is_default: false,
    })
}

/// A mirror whose data another system keeps.
fn elsewhere(blob: Bytes<'_>) -> Result<Component, Refusal> {
    foreign(blob)?;
    Ok(Component {
        start: 0,
        end: None,
        stripe_count: 0,
        stripe_bytes: None,
        extension_bytes: None,
        pool: None,
        on_metadata_server: false,
        overstriped: false,
        released: false,
        hole: false,
        mirror: 0,
        flags: Vec::new(),
        objects: Vec::new(),
    })
}

fn component(entry: Bytes<'_>, blob: Bytes<'_>) -> Result<Component, Refusal> {
    let magic = blob.u32(0)?;
    let flags = entry.u32(4)?;
    let (start, end) = (entry.u64(8)?, entry.u64(16)?);
    if start > end {
        return Err(Refusal::Inconsistent);
    }
    let words = FLAGS.iter().filter(|(bit, _)| flags & bit != 0);
    let shown = words.map(|(_, word)| *word).collect();
    let found = match magic {
        V1 | V3 | SPECIFIC => striping(blob, flags & FLAG_INIT != 0)?,
        FOREIGN => elsewhere(blob)?,
        _ => return Err(Refusal::Inconsistent),
    };
    let is_extension = flags & FLAG_EXTENSION != 0;
    let size = found.stripe_bytes;
    Ok(Component {
        start,
        end: (end != u64::MAX).then_some(end),
        stripe_bytes: if is_extension { None } else { size },
        extension_bytes: if is_extension {
            size.map(|units| units * EXTENSION_UNIT)
        } else {
            None
        },
        mirror: (entry.u32(0)? & 0x7fff_0000) >> 16,
        flags: shown,
        ..found
    })
}
