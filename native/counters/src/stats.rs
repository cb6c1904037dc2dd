//! Lustre's `stats` files: `name N samples [unit] min max sum sumsq`, below a head of times.

use std::fs;
use std::io;
use std::path::Path;

/// One operation: how often it was, and the sum of what it was (bytes, microseconds).
#[derive(Debug, PartialEq, Eq)]
pub struct Operation {
    /// Such as `read_bytes`.
    pub name: String,
    /// How often.
    pub samples: u64,
    /// Zero where only a count is told.
    pub sum: u64,
}

/// What a `stats` file says.
#[derive(Debug, Default, PartialEq)]
pub struct Stats {
    /// Seconds since 1970 on that node; none where its head is switched off.
    pub snapshot_s: Option<f64>,
    /// Since when it counts, by the same clock.
    pub start_s: Option<f64>,
    /// What has happened at least once.
    pub operations: Vec<Operation>,
    /// Whether it was read without root: the last digit of each line is cut off then.
    pub cut: bool,
}

const CLOCKS_DIFFER_S: f64 = 2.0;

/// Reads the wanted operations of a `stats` file; all, where none is named.
pub fn read_stats(path: &Path, wanted: &[String]) -> io::Result<Stats> {
    Ok(parse_stats(&fs::read(path)?, wanted))
}

/// Understands the text of a `stats` file; lines of another form are passed over.
#[must_use]
pub fn parse_stats(text: &[u8], wanted: &[String]) -> Stats {
    let mut found = Stats::default();
    let mut elapsed_s = None;
    for line in text.split(|byte| *byte == b'\n') {
        let Ok(line) = std::str::from_utf8(line) else {
            continue;
        };
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(value)) = (words.next(), words.next()) else {
            continue;
        };
        match name.trim_end_matches(':') {
            "snapshot_time" => found.snapshot_s = value.parse().ok(),
            "start_time" => found.start_s = value.parse().ok(),
            "elapsed_time" => elapsed_s = value.parse().ok(),
            _ => {
                let (Ok(samples), Some("samples"), Some(unit)) =
                    (value.parse(), words.next(), words.next())
                else {
                    continue;
                };
                found.cut |= !unit.ends_with(']');
                if !wanted.is_empty() && !wanted.iter().any(|each| each == name) {
                    continue;
                }
                let sum = words.nth(2).and_then(|word| word.parse().ok());
                found.operations.push(Operation {
                    name: name.to_owned(),
                    samples,
                    sum: sum.unwrap_or(0),
                });
            }
        }
    }
    if let (Some(snapshot), Some(start), Some(elapsed)) =
        (found.snapshot_s, found.start_s, elapsed_s)
    {
        let told: f64 = elapsed;
        found.cut |= (snapshot - start - told).abs() > CLOCKS_DIFFER_S;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_all_forms_are_understood_and_cut_ones_are_told() {
        let text = b"snapshot_time 1795228009.950280110 secs.nsecs\nstart_time: 1795227698.5 secs.nsecs\n\
            elapsed_time 311.45 secs.nsecs\nread_bytes 2 samples [bytes] 2097152 2097152 4194304 8796093022208\n\
            req_waittime 7 samples [reqs]\nnonsense\nname many samples [usecs] 1 2 3\n";
        let found = parse_stats(text, &[]);
        assert_eq!(found.snapshot_s, Some(1_795_228_009.950_280_1));
        assert_eq!(found.start_s, Some(1_795_227_698.5));
        assert!(!found.cut);
        let told: Vec<_> = found
            .operations
            .iter()
            .map(|each| (each.name.as_str(), each.samples, each.sum))
            .collect();
        assert_eq!(told, [("read_bytes", 2, 4_194_304), ("req_waittime", 7, 0)]);
        let some = parse_stats(text, &["req_waittime".to_owned()]);
        assert_eq!(some.operations, found.operations[1..]);
        assert!(parse_stats(b"read_bytes 2 samples [byte", &[]).cut);
        assert!(parse_stats(b"snapshot_time 100\nstart_time 10\nelapsed_time 9\n", &[]).cut);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_an_end_of_the_program(text: Vec<u8>) {
            let _ = parse_stats(&text, &[]);
        }
    }
}
