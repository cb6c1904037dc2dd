//! Readings as JSON: a node has thousands of them each second, and most of what they cost was this.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::io::Write;

/// Readings, tuples of metric, labels, value, time, and begin or None, as a list of lists in JSON without its
/// brackets, in ASCII.
///
/// `ValueError` or `TypeError` where one is no reading.
#[pyfunction]
pub fn readings_json<'py>(
    py: Python<'py>,
    readings: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut to = Text {
        bytes: Vec::with_capacity(96 * readings.len()),
        last: [(f64::NAN.to_bits(), 0, 0); 2],
    };
    for (number, reading) in readings.iter().enumerate() {
        if number > 0 {
            to.bytes.push(b',');
        }
        to.reading(reading.cast::<PyTuple>()?)?;
    }
    Ok(PyBytes::new(py, &to.bytes))
}

struct Text {
    bytes: Vec<u8>,
    /// Of the time and of the begin before: the number, and where its text is. Neighbours mostly have the same.
    last: [(u64, usize, usize); 2],
}

impl Text {
    fn reading(&mut self, reading: &Bound<'_, PyTuple>) -> PyResult<()> {
        if reading.len() != 5 {
            return Err(PyValueError::new_err("a reading has five parts"));
        }
        self.bytes.push(b'[');
        self.string(reading.get_item(0)?.cast::<PyString>()?.to_str()?);
        self.bytes.extend_from_slice(b",[");
        for (number, label) in reading.get_item(1)?.cast::<PyTuple>()?.iter().enumerate() {
            if number > 0 {
                self.bytes.push(b',');
            }
            self.string(label.cast::<PyString>()?.to_str()?);
        }
        self.bytes.extend_from_slice(b"],");
        self.number(&reading.get_item(2)?)?;
        self.bytes.push(b',');
        self.time(&reading.get_item(3)?, 0)?;
        self.bytes.push(b',');
        let since = reading.get_item(4)?;
        if since.is_none() {
            self.bytes.extend_from_slice(b"null");
        } else {
            self.time(&since, 1)?;
        }
        self.bytes.push(b']');
        Ok(())
    }

    fn string(&mut self, text: &str) {
        self.bytes.push(b'"');
        for character in text.chars() {
            match character {
                '"' | '\\' => self.bytes.extend_from_slice(&[b'\\', character as u8]),
                ' '..='~' => self.bytes.push(character as u8),
                _ => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        self.written(format_args!("\\u{unit:04x}"));
                    }
                }
            }
        }
        self.bytes.push(b'"');
    }

    fn number(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(float) = value.cast::<PyFloat>() {
            self.float(float.value());
        } else if let Ok(whole) = value.cast::<PyInt>()?.extract::<i64>() {
            self.written(format_args!("{whole}"));
        } else {
            self.bytes
                .extend_from_slice(value.str()?.to_str()?.as_bytes());
        }
        Ok(())
    }

    fn time(&mut self, value: &Bound<'_, PyAny>, which: usize) -> PyResult<()> {
        let Ok(float) = value.cast::<PyFloat>() else {
            return self.number(value);
        };
        let (bits, start, end) = self.last[which];
        if bits == float.value().to_bits() && end > start {
            self.bytes.extend_from_within(start..end);
        } else {
            let start = self.bytes.len();
            self.float(float.value());
            self.last[which] = (float.value().to_bits(), start, self.bytes.len());
        }
        Ok(())
    }

    /// Digits that give back this very number; what is none is written as Python writes and reads it.
    fn float(&mut self, value: f64) {
        if value.is_finite() {
            self.written(format_args!("{value:?}"));
        } else if value.is_nan() {
            self.bytes.extend_from_slice(b"NaN");
        } else {
            let text: &[u8] = if value > 0.0 {
                b"Infinity"
            } else {
                b"-Infinity"
            };
            self.bytes.extend_from_slice(text);
        }
    }

    fn written(&mut self, what: std::fmt::Arguments<'_>) {
        // Memory takes all that is written.
        let _ = self.bytes.write_fmt(what);
    }
}
