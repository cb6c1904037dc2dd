//! The file of a repository's manifest for Python; see `gridwright.repository.manifest`.

use gridwright_manifest::{Batch, Cells, Column, Fault, Kind, Reader, Writer};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyNone, PyString, PyTuple};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::WithErrno;

/// Name, kind (`bytes`, `str` or `int`), the longest value, whether earlier releases lack it.
type ColumnOf = (String, String, usize, bool);

fn columns_of(columns: Vec<ColumnOf>) -> PyResult<Vec<Column>> {
    let column = |(name, kind, most, is_later): ColumnOf| {
        let kind = match kind.as_str() {
            "bytes" => Kind::Bytes,
            "str" => Kind::Text,
            "int" => Kind::Number,
            _ => return Err(PyValueError::new_err(format!("no kind of column: {kind}"))),
        };
        Ok(Column {
            name,
            kind,
            most,
            is_later,
        })
    };
    columns.into_iter().map(column).collect()
}

/// A damaged file is a `ValueError`.
fn raised(fault: Fault) -> PyErr {
    match fault {
        Fault::Io(error) => PyOSError::new_err_from(error),
        Fault::Damaged(why) => PyValueError::new_err(why),
    }
}

fn held<T>(guarded: &Mutex<T>) -> MutexGuard<'_, T> {
    guarded.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A manifest that is written.
#[pyclass(module = "gridwright._native", frozen)]
pub struct ManifestWriter {
    columns: Vec<Column>,
    writer: Mutex<Option<Writer>>,
}

#[pymethods]
impl ManifestWriter {
    /// Makes the file. Raises `OSError`.
    #[new]
    #[allow(clippy::needless_pass_by_value)] // Python hands over what it extracted
    fn new(path: PathBuf, columns: Vec<ColumnOf>, head: Vec<(String, String)>) -> PyResult<Self> {
        let columns = columns_of(columns)?;
        let writer = Writer::create(&path, &columns, head).map_err(raised)?;
        Ok(Self {
            columns,
            writer: Mutex::new(Some(writer)),
        })
    }

    /// Adds rows: tuples of values in the order of columns, or None. Raises `OSError`.
    fn write(&self, py: Python<'_>, rows: &Bound<'_, PyList>) -> PyResult<()> {
        let mut writer = held(&self.writer);
        let writer = writer.as_mut().ok_or_else(ended)?;
        for row in rows.iter() {
            let row = row.cast_into::<PyTuple>()?;
            if row.len() != self.columns.len() {
                return Err(PyValueError::new_err("a row has one value for each column"));
            }
            // All of a row or nothing: whoever gives a value of another type ends the whole file.
            for (place, (value, column)) in row.iter().zip(&self.columns).enumerate() {
                if value.is_none() {
                    writer.null(place);
                    continue;
                }
                match column.kind {
                    Kind::Number => writer.number(place, value.extract()?),
                    Kind::Text => {
                        writer.bytes(place, value.cast::<PyString>()?.to_str()?.as_bytes());
                    }
                    Kind::Bytes => writer.bytes(place, value.cast::<PyBytes>()?.as_bytes()),
                }
            }
            py.detach(|| writer.end_row()).map_err(raised)?;
        }
        Ok(())
    }

    /// Writes what is left, and ends the file. Raises `OSError`.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let writer = held(&self.writer).take().ok_or_else(ended)?;
        py.detach(|| writer.finish()).map_err(raised)
    }
}

fn ended() -> PyErr {
    PyRuntimeError::new_err("the file was ended")
}

/// A manifest that is read.
#[pyclass(module = "gridwright._native", frozen)]
pub struct ManifestReader(Mutex<Reader>);

#[pymethods]
impl ManifestReader {
    /// Opens the file. Raises `ValueError` where it is damaged, and `OSError`.
    #[new]
    #[allow(clippy::needless_pass_by_value)] // Python hands over what it extracted
    fn new(py: Python<'_>, path: PathBuf, columns: Vec<ColumnOf>) -> PyResult<Self> {
        let columns = columns_of(columns)?;
        let reader = py
            .detach(|| Reader::open(&path, &columns))
            .map_err(raised)?;
        Ok(Self(Mutex::new(reader)))
    }

    /// What the file says of itself.
    #[getter]
    fn head(&self) -> Vec<(String, String)> {
        held(&self.0).head.clone()
    }

    /// Names of those columns that it has.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let reader = held(&self.0);
        reader
            .columns
            .iter()
            .map(|each| each.name.clone())
            .collect()
    }

    /// The next rows, at most so many, and how many of these were left out, that have a longer value than any
    /// that is written; None at the end. Raises `ValueError` where it is damaged, and `OSError`.
    fn batch<'py>(
        &self,
        py: Python<'py>,
        most: usize,
    ) -> PyResult<Option<(usize, Bound<'py, PyList>)>> {
        let Some(batch) = py.detach(|| held(&self.0).batch(most)).map_err(raised)? else {
            return Ok(None);
        };
        rows_of(py, &held(&self.0).columns, &batch).map(Some)
    }
}

fn rows_of<'py>(
    py: Python<'py>,
    columns: &[Column],
    batch: &Batch,
) -> PyResult<(usize, Bound<'py, PyList>)> {
    let mut is_long = vec![false; batch.rows];
    let mut values = Vec::with_capacity(columns.len());
    for (column, (are_there, cells)) in columns.iter().zip(&batch.columns) {
        values.push(objects(py, column, are_there, cells, &mut is_long)?.into_iter());
    }
    let (rows, mut left_out) = (PyList::empty(py), 0);
    for is_long in is_long {
        let row: Vec<_> = values.iter_mut().filter_map(Iterator::next).collect();
        if is_long {
            left_out += 1;
        } else {
            rows.append(PyTuple::new(py, row)?)?;
        }
    }
    Ok((left_out, rows))
}

/// The values of a column; one that is too long is None, and noted.
fn objects<'py>(
    py: Python<'py>,
    column: &Column,
    are_there: &[bool],
    cells: &Cells,
    is_long: &mut [bool],
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let none = PyNone::get(py).to_owned().into_any();
    let mut found = Vec::with_capacity(are_there.len());
    let mut next = 0;
    // What a row has in common with the one before is made once.
    let mut last: (&[u8], Bound<'py, PyAny>) = (&[], none.clone());
    for (row, is_there) in are_there.iter().enumerate() {
        if !is_there {
            found.push(none.clone());
            continue;
        }
        match cells {
            Cells::Numbers(numbers) => found.push(numbers[next].into_pyobject(py)?.into_any()),
            Cells::Bytes(texts) => {
                let data = texts[next].data();
                if data.len() > column.most {
                    is_long[row] = true;
                    found.push(none.clone());
                } else {
                    if last.1.is_none() || last.0 != data {
                        let made = match column.kind {
                            Kind::Text => PyString::from_bytes(py, data)?.into_any(),
                            _ => PyBytes::new(py, data).into_any(),
                        };
                        last = (data, made);
                    }
                    found.push(last.1.clone());
                }
            }
        }
        next += 1;
    }
    Ok(found)
}
