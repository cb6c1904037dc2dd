//! Requests to S3 as they are sent, signed by AWS Signature Version 4.
//!
//! Source: Amazon S3 API Reference, "Signature Calculations for the Authorization Header: Transferring Payload in a
//! Single Chunk".

use hmac::{Hmac, Mac};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sha2::{Digest, Sha256};
use std::fmt::Write;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Access key, secret key, and the token of a session.
type Credentials = (String, String, Option<String>);

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, each| {
        let _ = write!(text, "{each:02x}");
        text
    })
}

fn authenticated(key: &[u8], text: &str) -> PyResult<Vec<u8>> {
    let mut code = Hmac::<Sha256>::new_from_slice(key)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    code.update(text.as_bytes());
    Ok(code.finalize().into_bytes().to_vec())
}

/// The head of a request, up to the empty line.
///
/// `path` and `query` are escaped; `headers` have names in lower case, among them `host`; `moment` is as
/// `20261130T235959Z`. Raises `ValueError` for what no header can have.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn signed_head(
    method: &str,
    path: &str,
    query: &str,
    mut headers: Vec<(String, String)>,
    body_hash: &str,
    credentials: Credentials,
    region: &str,
    moment: &str,
) -> PyResult<Vec<u8>> {
    let (access_key, secret_key, token) = credentials;
    headers.push(("x-amz-content-sha256".into(), body_hash.into()));
    headers.push(("x-amz-date".into(), moment.into()));
    headers.extend(token.map(|token| ("x-amz-security-token".into(), token)));
    let breaks = |text: &str| text.contains(['\r', '\n', '\0']);
    if let Some((name, _)) = headers
        .iter()
        .find(|(name, value)| breaks(name) || breaks(value))
    {
        return Err(PyValueError::new_err(format!(
            "the header {name:?} has a line break"
        )));
    }
    headers.sort();
    let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
    let listed = names.join(";");
    let mut canonical = format!("{method}\n{path}\n{query}\n");
    let mut head = format!("{method} {path}");
    if !query.is_empty() {
        head.push('?');
        head.push_str(query);
    }
    head.push_str(" HTTP/1.1\r\n");
    for (name, value) in &headers {
        let words: Vec<&str> = value.split_whitespace().collect();
        let _ = writeln!(canonical, "{name}:{}", words.join(" "));
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let _ = write!(canonical, "\n{listed}\n{body_hash}");
    let day = moment.get(..8).unwrap_or(moment);
    let scope = format!("{day}/{region}/s3/aws4_request");
    let hash = hexadecimal(&Sha256::digest(canonical));
    let mut key = authenticated(format!("AWS4{secret_key}").as_bytes(), day)?;
    for part in [region, "s3", "aws4_request"] {
        key = authenticated(&key, part)?;
    }
    let wanted = format!("{ALGORITHM}\n{moment}\n{scope}\n{hash}");
    let signature = hexadecimal(&authenticated(&key, &wanted)?);
    let _ = write!(
        head,
        "authorization: {ALGORITHM} Credential={access_key}/{scope}, SignedHeaders={listed}, \
         Signature={signature}\r\n\r\n"
    );
    Ok(head.into_bytes())
}
