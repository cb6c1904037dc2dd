//! Rows are read some at a time, held within bounds.

use crate::bounds::{hold_footer, hold_pages};
use crate::{Column, Fault, schema_of};
use parquet::basic::{ConvertedType, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The values of one column of a batch: one for each row that is not null.
pub enum Cells {
    /// Bytes, or texts; several rows may share theirs.
    Bytes(Vec<ByteArray>),
    /// Numbers.
    Numbers(Vec<i64>),
}

/// Some rows, by column: whether each row has a value, and the values.
pub struct Batch {
    /// How many.
    pub rows: usize,
    /// In the order of `Reader::columns`.
    pub columns: Vec<(Vec<bool>, Cells)>,
}

/// A manifest that is read.
pub struct Reader {
    /// Those columns that the file has.
    pub columns: Vec<Column>,
    /// What the file says of itself.
    pub head: Vec<(String, String)>,
    places: Vec<usize>,
    file: SerializedFileReader<File>,
    /// The same file: where its pages are looked at before they are read.
    looked_at: File,
    group: usize,
    open: Vec<ColumnReader>,
}

/// What damage may have its reader do.
fn unless_it_panics<T>(act: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|_| Err(Fault::damaged(&"its parts do not fit each other")))
}

impl Reader {
    /// Opens a file that has these columns, and may lack those of later releases.
    pub fn open(path: &Path, columns: &[Column]) -> Result<Self, Fault> {
        let mut looked_at = File::open(path)?;
        hold_footer(&mut looked_at)?;
        let (path, columns) = (path.to_owned(), columns.to_owned());
        unless_it_panics(move || {
            let file = SerializedFileReader::new(File::open(path)?)?;
            let schema = file.metadata().file_metadata().schema_descr();
            let (mut found, mut places) = (Vec::new(), Vec::new());
            for each in columns {
                let mut there = (0..schema.num_columns())
                    .filter(|place| schema.column(*place).path().string() == each.name);
                match (there.next(), there.next()) {
                    (Some(place), None) => {
                        hold_type(&each, &schema.column(place))?;
                        places.push(place);
                        found.push(each);
                    }
                    (None, None) if each.is_later => {}
                    _ => {
                        let name = each.name;
                        return Err(Fault::Damaged(format!("it has not one column {name}")));
                    }
                }
            }
            let head = file.metadata().file_metadata().key_value_metadata();
            Ok(Self {
                columns: found,
                places,
                head: head
                    .into_iter()
                    .flatten()
                    .map(|each| (each.key.clone(), each.value.clone().unwrap_or_default()))
                    .collect(),
                file,
                looked_at,
                group: 0,
                open: Vec::new(),
            })
        })
    }

    /// The next rows, at most so many; none at the end.
    pub fn batch(&mut self, most: usize) -> Result<Option<Batch>, Fault> {
        unless_it_panics(|| {
            loop {
                if self.open.is_empty() {
                    if self.group == self.file.num_row_groups() {
                        return Ok(None);
                    }
                    self.open_group()?;
                }
                let columns = self
                    .open
                    .iter_mut()
                    .map(|each| cells(each, most))
                    .collect::<Result<Vec<_>, _>>()?;
                let rows = columns.first().map_or(0, |(are_there, _)| are_there.len());
                if columns.iter().any(|(are_there, _)| are_there.len() != rows) {
                    return Err(Fault::Damaged(
                        "its columns are not equally long".to_owned(),
                    ));
                }
                if rows > 0 {
                    return Ok(Some(Batch { rows, columns }));
                }
                self.open.clear();
            }
        })
    }

    fn open_group(&mut self) -> Result<(), Fault> {
        let group = self.file.get_row_group(self.group)?;
        for (column, place) in self.columns.iter().zip(&self.places) {
            hold_pages(&mut self.looked_at, column, group.metadata().column(*place))?;
            self.open.push(group.get_column_reader(*place)?);
        }
        self.group += 1;
        Ok(())
    }
}

fn hold_type(
    column: &Column,
    found: &parquet::schema::types::ColumnDescriptor,
) -> Result<(), Fault> {
    let wanted = schema_of(std::slice::from_ref(column))?;
    let wanted = &wanted.get_fields()[0];
    let is_same = found.physical_type() == wanted.get_physical_type()
        && found.converted_type() == wanted.get_basic_info().converted_type()
        && found.max_rep_level() == 0
        && found.max_def_level() <= 1;
    if is_same {
        return Ok(());
    }
    Err(Fault::Damaged(format!(
        "its column {} is {}, and {} is written",
        column.name,
        shown(found.physical_type(), found.converted_type()),
        shown(
            wanted.get_physical_type(),
            wanted.get_basic_info().converted_type()
        ),
    )))
}

/// A type as Arrow calls it.
fn shown(physical: Physical, converted: ConvertedType) -> String {
    match (physical, converted) {
        (Physical::BYTE_ARRAY, ConvertedType::UTF8) => "string".to_owned(),
        (Physical::BYTE_ARRAY, ConvertedType::NONE) => "binary".to_owned(),
        (Physical::INT64, ConvertedType::NONE) => "int64".to_owned(),
        _ => format!("{physical} {converted}"),
    }
}

fn cells(reader: &mut ColumnReader, most: usize) -> Result<(Vec<bool>, Cells), Fault> {
    match reader {
        ColumnReader::Int64ColumnReader(of) => {
            let (are_there, found) = values(of, most)?;
            Ok((are_there, Cells::Numbers(found)))
        }
        ColumnReader::ByteArrayColumnReader(of) => {
            let (are_there, found) = values(of, most)?;
            Ok((are_there, Cells::Bytes(found)))
        }
        _ => Err(Fault::damaged(&"a column is of another type")),
    }
}

fn values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    most: usize,
) -> Result<(Vec<bool>, Vec<T::T>), Fault> {
    let (mut levels, mut found) = (Vec::new(), Vec::new());
    let (records, count, _) = reader.read_records(most, Some(&mut levels), None, &mut found)?;
    let are_there: Vec<bool> = if levels.is_empty() {
        vec![true; records]
    } else {
        levels.iter().map(|each| *each == 1).collect()
    };
    let present = are_there.iter().filter(|each| **each).count();
    if are_there.len() != records || present != count || found.len() != count {
        return Err(Fault::damaged(&"a column has too few values"));
    }
    Ok((are_there, found))
}
