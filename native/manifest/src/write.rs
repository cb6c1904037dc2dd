//! Rows are gathered by column, some in memory at a time, and written.

use crate::{Column, Fault, Kind, schema_of};
use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use std::fs::File;
use std::io::BufWriter;
use std::mem::take;
use std::path::Path;
use std::sync::Arc;

/// Of a row group: rows, or bytes of their values.
const GROUP_ROWS: usize = 20_000;
const GROUP_BYTES: usize = 32 << 20;

/// The values of one column that are not written yet.
#[derive(Default)]
struct Gathered {
    /// 1 for a value, 0 for null.
    levels: Vec<i16>,
    numbers: Vec<i64>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// A manifest that is written.
pub struct Writer {
    kinds: Vec<Kind>,
    gathered: Vec<Gathered>,
    rows: usize,
    size: usize,
    file: SerializedFileWriter<BufWriter<File>>,
}

impl Writer {
    /// Makes the file; `head` is what it says of itself.
    pub fn create(
        path: &Path,
        columns: &[Column],
        head: Vec<(String, String)>,
    ) -> Result<Self, Fault> {
        let head = head
            .into_iter()
            .map(|(key, value)| KeyValue::new(key, value));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .set_key_value_metadata(Some(head.collect()))
            .build();
        let file = BufWriter::new(File::create(path)?);
        Ok(Self {
            kinds: columns.iter().map(|each| each.kind).collect(),
            gathered: columns.iter().map(|_| Gathered::default()).collect(),
            rows: 0,
            size: 0,
            file: SerializedFileWriter::new(file, schema_of(columns)?, Arc::new(properties))?,
        })
    }

    /// Adds null to a column.
    pub fn null(&mut self, column: usize) {
        self.gathered[column].levels.push(0);
    }

    /// Adds a number to a column.
    pub fn number(&mut self, column: usize, value: i64) {
        let to = &mut self.gathered[column];
        to.levels.push(1);
        to.numbers.push(value);
    }

    /// Adds bytes or a text to a column.
    pub fn bytes(&mut self, column: usize, value: &[u8]) {
        let to = &mut self.gathered[column];
        to.levels.push(1);
        to.bytes.extend_from_slice(value);
        to.ends.push(to.bytes.len());
        self.size += value.len();
    }

    /// Ends a row, which has one value in each column.
    pub fn end_row(&mut self) -> Result<(), Fault> {
        self.rows += 1;
        if self.rows == GROUP_ROWS || self.size >= GROUP_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Fault> {
        let mut group = self.file.next_row_group()?;
        for (kind, gathered) in self.kinds.iter().zip(&mut self.gathered) {
            let of = take(gathered);
            let Some(mut column) = group.next_column()? else {
                break;
            };
            if *kind == Kind::Number {
                let to = column.typed::<Int64Type>();
                to.write_batch(&of.numbers, Some(&of.levels), None)?;
            } else {
                let (all, mut start) = (Bytes::from(of.bytes), 0);
                let slice = |end| {
                    let piece = all.slice(start..end);
                    start = end;
                    ByteArray::from(piece)
                };
                let values: Vec<ByteArray> = of.ends.into_iter().map(slice).collect();
                let to = column.typed::<ByteArrayType>();
                to.write_batch(&values, Some(&of.levels), None)?;
            }
            column.close()?;
        }
        group.close()?;
        (self.rows, self.size) = (0, 0);
        Ok(())
    }

    /// Writes what is left, and ends the file.
    pub fn finish(mut self) -> Result<(), Fault> {
        if self.rows > 0 {
            self.flush()?;
        }
        let file = self.file.into_inner()?;
        file.into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        Ok(())
    }
}
