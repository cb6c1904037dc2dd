//! What a file says of its sizes, looked at before its reader takes memory for them.
//!
//! Sources: Apache Parquet, `parquet.thrift` and README, "File format"; Apache Thrift, "Compact protocol encoding".

use crate::{Column, Fault};
use parquet::file::metadata::ColumnChunkMetaData;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

/// Elements of a schema: its reader goes into each one within another.
const MOST_ELEMENTS: u64 = 256;
/// Bytes of a footer: a row group of 20,000 rows has some 2 KiB there.
const MOST_FOOTER: u64 = 64 << 20;
/// How deep what is left out may be: `Statistics` within a header within a page are three.
const DEEPEST: u8 = 8;
/// Values that writers add to a page before they see how long it is, and how long it may be without them.
const PAGE_VALUES: usize = 1024;
const PAGE_BYTES: usize = 2 << 20;
/// Values of a page, for each of which its reader may take memory at once, and how they are written: plain, or
/// as numbers in a dictionary.
const MOST_VALUES: u64 = 1_000_000;
const ENCODINGS: [i64; 4] = [0, 2, 3, 8];
const TAIL: u64 = 8;
/// Types of fields of Thrift's compact protocol.
const INT32: u8 = 5;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Looks at the footer: its length, and how many elements its schema has.
pub fn hold_footer(file: &mut File) -> Result<(), Fault> {
    let size = file.seek(SeekFrom::End(0))?;
    let mut tail = [0; TAIL as usize];
    if size < TAIL {
        return Err(Fault::damaged(&"it is too short"));
    }
    file.seek(SeekFrom::Start(size - TAIL))?;
    file.read_exact(&mut tail)?;
    let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if &tail[4..] != b"PAR1" || length > size - TAIL || length > MOST_FOOTER {
        return Err(Fault::damaged(&"it has no footer of a Parquet file"));
    }
    file.seek(SeekFrom::Start(size - TAIL - length))?;
    let mut thrift = Thrift(BufReader::new(&*file));
    let mut field = 0;
    while let Some(kind) = thrift.field(&mut field)? {
        if field != 2 {
            thrift.skip(kind, DEEPEST)?;
            continue;
        }
        if kind != LIST || thrift.list()?.0 > MOST_ELEMENTS {
            break;
        }
        return Ok(());
    }
    Err(Fault::damaged(&"its schema is none that is written"))
}

/// Looks at the pages of a part of a column: none is longer than those that are written.
pub fn hold_pages(
    file: &mut File,
    column: &Column,
    chunk: &ColumnChunkMetaData,
) -> Result<(), Fault> {
    let most = (PAGE_BYTES + PAGE_VALUES * column.most) as u64;
    let (start, length) = chunk.byte_range();
    let end = start.saturating_add(length);
    if end > file.seek(SeekFrom::End(0))? {
        return Err(Fault::damaged(&"it ends too early"));
    }
    file.seek(SeekFrom::Start(start))?;
    let mut reader = BufReader::new(&*file);
    while reader.stream_position()? < end {
        let mut thrift = Thrift(&mut reader);
        let (mut field, mut length) = (0, None);
        while let Some(kind) = thrift.field(&mut field)? {
            match (field, kind) {
                (2, INT32) => {
                    thrift.bounded(most)?;
                }
                (3, INT32) => length = Some(thrift.bounded(most)?),
                (5 | 7, STRUCT) => thrift.hold_values(2)?,
                (8, STRUCT) => thrift.hold_values(4)?,
                _ => thrift.skip(kind, DEEPEST)?,
            }
        }
        let length = length.ok_or_else(|| Fault::damaged(&"a page has no length"))?;
        reader.seek_relative(length.cast_signed())?;
    }
    Ok(())
}

fn zigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Values of Thrift's compact protocol.
struct Thrift<R>(R);

impl<R: BufRead + Seek> Thrift<R> {
    fn byte(&mut self) -> Result<u8, Fault> {
        let mut found = [0];
        self.0.read_exact(&mut found)?;
        Ok(found[0])
    }

    fn number(&mut self) -> Result<u64, Fault> {
        let mut found = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            found |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(found);
            }
        }
        Err(Fault::damaged(&"a number has no end"))
    }

    /// The type of the next field of a structure, whose number follows `last`; None at its end.
    fn field(&mut self, last: &mut i64) -> Result<Option<u8>, Fault> {
        let byte = self.byte()?;
        if byte == 0 {
            return Ok(None);
        }
        *last = match byte >> 4 {
            0 => zigzag(self.number()?),
            more => *last + i64::from(more),
        };
        Ok(Some(byte & 0x0f))
    }

    /// How many elements a list has, and their type.
    fn list(&mut self) -> Result<(u64, u8), Fault> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.number()?,
            few => u64::from(few),
        };
        Ok((count, byte & 0x0f))
    }

    /// A number that is not negative, and at most so large.
    fn bounded(&mut self, most: u64) -> Result<u64, Fault> {
        match u64::try_from(zigzag(self.number()?)) {
            Ok(found) if found <= most => Ok(found),
            _ => Err(Fault::Damaged(
                "it takes more memory to be read than any that is written".to_owned(),
            )),
        }
    }

    /// Looks at the header of a page's values: how many there are, and their encoding, in the field of this number.
    fn hold_values(&mut self, encoding: i64) -> Result<(), Fault> {
        let mut field = 0;
        while let Some(kind) = self.field(&mut field)? {
            if (field, kind) == (1, INT32) {
                self.bounded(MOST_VALUES)?;
            } else if (field, kind) == (encoding, INT32) {
                let found = zigzag(self.number()?);
                if !ENCODINGS.contains(&found) {
                    return Err(Fault::damaged(&format!("it has encoding {found}")));
                }
            } else {
                self.skip(kind, DEEPEST)?;
            }
        }
        Ok(())
    }

    fn skip(&mut self, kind: u8, depth: u8) -> Result<(), Fault> {
        if depth == 0 {
            return Err(Fault::damaged(&"it is too deep"));
        }
        match kind {
            1 | 2 => {}
            3 => {
                self.byte()?;
            }
            4..=6 => {
                self.number()?;
            }
            7 => self.pass(8)?,
            8 => {
                let length = self.number()?;
                self.pass(length)?;
            }
            LIST | 10 => {
                let (count, of) = self.list()?;
                for _ in 0..count {
                    // Of booleans each one is a byte in a list.
                    self.skip(if of < 3 { 3 } else { of }, depth - 1)?;
                }
            }
            STRUCT => {
                let mut field = 0;
                while let Some(each) = self.field(&mut field)? {
                    self.skip(each, depth - 1)?;
                }
            }
            _ => return Err(Fault::damaged(&"it has a value of no type")),
        }
        Ok(())
    }

    fn pass(&mut self, length: u64) -> Result<(), Fault> {
        let length = i64::try_from(length).map_err(|_| Fault::damaged(&"a value has no end"))?;
        if length > 1 << 31 {
            return Err(Fault::damaged(&"a value has no end"));
        }
        self.0.seek_relative(length)?;
        Ok(())
    }
}
