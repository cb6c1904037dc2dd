//! Paths in JSON: a text with one character for each byte, U+0000 to U+00FF.
//!
//! A path of Linux is bytes, in no encoding; JSON has text only. Those of ASCII read as they are.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Writes a path.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    let text: String = path
        .as_os_str()
        .as_bytes()
        .iter()
        .map(|&byte| char::from(byte))
        .collect();
    serializer.serialize_str(&text)
}

/// Reads a path.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
    let bytes = bytes.map_err(|_| D::Error::custom("a path has one character for each byte"))?;
    Ok(OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    #[derive(Serialize, Deserialize)]
    struct Named(#[serde(with = "super")] PathBuf);

    #[test]
    fn any_bytes_go_through_json_and_back() {
        let bytes: Vec<u8> = (1..=255).collect();
        let named = Named(std::ffi::OsStr::from_bytes(&bytes).into());
        let text = serde_json::to_string(&named).unwrap();
        let back: Named = serde_json::from_str(&text).unwrap();
        assert_eq!(back.0.as_os_str().as_bytes(), bytes);
    }

    #[test]
    fn a_character_that_is_no_byte_is_refused() {
        assert!(serde_json::from_str::<Named>("\"\u{65e5}\"").is_err());
    }
}
