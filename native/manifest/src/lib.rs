//! The manifest of a repository as a Parquet file: columns of bytes, texts and numbers, each of which may be null.
//!
//! Whoever writes to a bucket writes its manifest: what a file says of its sizes is bounded before it is read.

mod bounds;
mod read;
mod write;

pub use read::{Batch, Cells, Reader};
pub use write::Writer;

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};
use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any bytes.
    Bytes,
    /// UTF-8.
    Text,
    /// 64 bits with a sign.
    Number,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
    /// The longest value that is written, in bytes.
    pub most: usize,
    /// Whether files of earlier releases lack it.
    pub is_later: bool,
}

/// Why a file was not written or read.
#[derive(Debug)]
pub enum Fault {
    /// Of the file system.
    Io(std::io::Error),
    /// The file is damaged, or none of these.
    Damaged(String),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        // An end that comes too early has no number: it is damage.
        if error.raw_os_error().is_some() {
            Self::Io(error)
        } else {
            Self::damaged(&error)
        }
    }
}

impl Fault {
    fn damaged(why: &impl Display) -> Self {
        Self::Damaged(format!("it is damaged ({why:.200})"))
    }
}

impl From<ParquetError> for Fault {
    fn from(error: ParquetError) -> Self {
        if let ParquetError::External(other) = error {
            return match other.downcast::<std::io::Error>() {
                Ok(error) => (*error).into(),
                Err(other) => Self::damaged(&other),
            };
        }
        let mut source = error.source();
        while let Some(each) = source {
            if let Some(number) = each
                .downcast_ref::<std::io::Error>()
                .and_then(std::io::Error::raw_os_error)
            {
                return Self::Io(std::io::Error::from_raw_os_error(number));
            }
            source = each.source();
        }
        Self::damaged(&error)
    }
}

fn schema_of(columns: &[Column]) -> Result<TypePtr, Fault> {
    let fields = columns
        .iter()
        .map(|each| {
            let of = Type::primitive_type_builder(
                &each.name,
                match each.kind {
                    Kind::Number => Physical::INT64,
                    Kind::Bytes | Kind::Text => Physical::BYTE_ARRAY,
                },
            )
            .with_repetition(Repetition::OPTIONAL);
            let of = if each.kind == Kind::Text {
                of.with_logical_type(Some(LogicalType::String))
                    .with_converted_type(ConvertedType::UTF8)
            } else {
                of
            };
            of.build().map(Arc::new)
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(
        Type::group_type_builder("schema")
            .with_fields(fields)
            .build()?,
    ))
}
