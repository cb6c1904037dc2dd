//! Lustre's `job_stats` files: a block of some twenty lines for each job, ten thousand jobs on a busy server.
//!
//! They are read as a stream, so that memory holds one line, however long the file is.

use std::io::{self, BufRead};

/// Bytes read and written, how many reads and writes, and all other operations.
pub type Figures = [u64; 5];

/// The block of one job.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct JobBlock {
    /// As Lustre calls the job, without the quotes that it may stand in.
    pub job: Vec<u8>,
    /// Since when it is counted, in nanoseconds since 1970; zero where that is not told.
    pub start_ns: u64,
    /// What it moved since then.
    pub figures: Figures,
}

const LONGEST_LINE: usize = 4096;

/// Reads all blocks, each handed over when it is complete. What is of another form is passed over.
pub fn read_job_stats(mut source: impl BufRead, mut each: impl FnMut(&JobBlock)) -> io::Result<()> {
    let mut line = Vec::with_capacity(256);
    let mut block = JobBlock::default();
    let mut open = false;
    while read_line(&mut source, &mut line)? {
        if let Some(name) = after(&line, b"- job_id:") {
            if open {
                each(&block);
            }
            block.job.clear();
            block.job.extend_from_slice(unquoted(name));
            block.start_ns = 0;
            block.figures = Figures::default();
            open = true;
        } else if open {
            take(&line, &mut block);
        }
    }
    if open {
        each(&block);
    }
    Ok(())
}

/// One line without its end; of a line that is too long, the beginning. False at the end of the file.
fn read_line(source: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    loop {
        let chunk = source.fill_buf()?;
        if chunk.is_empty() {
            return Ok(!line.is_empty());
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(chunk.len());
        line.extend_from_slice(&chunk[..taken.min(LONGEST_LINE.saturating_sub(line.len()))]);
        source.consume(end.map_or(taken, |end| end + 1));
        if end.is_some() {
            return Ok(true);
        }
    }
}

fn take(line: &[u8], block: &mut JobBlock) {
    let line = line.trim_ascii();
    let Some(colon) = line.iter().position(|byte| *byte == b':') else {
        return;
    };
    let (name, rest) = (&line[..colon], line[colon + 1..].trim_ascii());
    if name == b"start_time" {
        block.start_ns = nanoseconds(rest);
        return;
    }
    let Some(samples) = rest.starts_with(b"{").then(|| field(rest, b"samples:")) else {
        return;
    };
    match name {
        b"read_bytes" => {
            block.figures[0] = field(rest, b" sum:");
            block.figures[2] = samples;
        }
        b"write_bytes" => {
            block.figures[1] = field(rest, b" sum:");
            block.figures[3] = samples;
        }
        // Told beside read_bytes and write_bytes, in microseconds.
        b"read" | b"write" => {}
        // Renames are counted as such, and again by what they were.
        _ if name != b"rename" && name.windows(6).any(|part| part == b"rename") => {}
        _ => block.figures[4] = block.figures[4].saturating_add(samples),
    }
}

/// The number behind a name within braces; zero where there is none.
fn field(text: &[u8], name: &[u8]) -> u64 {
    let at = text.windows(name.len()).position(|part| part == name);
    at.map_or(0, |at| number(text[at + name.len()..].trim_ascii_start()).0)
}

/// The digits at the beginning, and how many there are; what is larger than 64 bits is the largest number.
fn number(text: &[u8]) -> (u64, usize) {
    let digits = text
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    let value = text[..digits].iter().fold(0_u64, |value, digit| {
        value
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    (value, digits)
}

/// `seconds.nanoseconds` in nanoseconds.
fn nanoseconds(text: &[u8]) -> u64 {
    let (seconds, digits) = number(text);
    let behind = text.get(digits..).and_then(|rest| rest.strip_prefix(b"."));
    let (part, places) = behind.map_or((0, 9), number);
    let scale = 10_u64.pow(9_u32.saturating_sub(places as u32));
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(part.saturating_mul(scale))
}

fn after<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    line.trim_ascii_start()
        .strip_prefix(name)
        .map(<[u8]>::trim_ascii)
}

fn unquoted(name: &[u8]) -> &[u8] {
    let quoted =
        name.len() >= 2 && name[0] == name[name.len() - 1] && matches!(name[0], b'"' | b'\'');
    if quoted {
        &name[1..name.len() - 1]
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &[u8]) -> Vec<JobBlock> {
        let mut found = Vec::new();
        read_job_stats(text, |block| found.push(block.clone())).expect("memory can be read");
        found
    }

    #[test]
    fn each_job_has_its_bytes_and_renames_count_once() {
        let text = b"job_stats:\n- job_id:          \"a: b.0\"\n  snapshot_time:   7.5 secs.nsecs\n  \
            start_time:      5.000000250 secs.nsecs\n  \
            read_bytes:      { samples:           3, unit: bytes, min:  1, max:  2, sum:   40, sumsq: 9, hist: {  } }\n  \
            read:            { samples:           3, unit: usecs, min:  1, max:  2, sum:   77, sumsq: 9 }\n  \
            rename:          { samples:           2, unit: usecs, min:  1, max:  2, sum:    4, sumsq: 9 }\n  \
            samedir_rename:  { samples:           2, unit: usecs, min:  1, max:  2, sum:    4, sumsq: 9 }\n  \
            open:            { samples:           5, unit: usecs, min:  1, max:  2, sum:    4, sumsq: 9 }\n\
            - job_id:          dd.0\n  write_bytes: { samples: 1, unit: bytes, min: 1, max: 1, sum: 99999999999999999999999, sumsq: 1 }\n";
        let found = blocks(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].job, b"a: b.0");
        assert_eq!(found[0].start_ns, 5_000_000_250);
        assert_eq!(found[0].figures, [40, 0, 3, 0, 7]);
        assert_eq!(
            (found[1].job.as_slice(), found[1].start_ns),
            (&b"dd.0"[..], 0)
        );
        assert_eq!(found[1].figures, [0, u64::MAX, 0, 1, 0]);
        assert_eq!(blocks(b"job_stats:\n"), []);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_an_end_of_the_program(text: Vec<u8>) {
            let _ = blocks(&[b"- job_id: x\n".as_slice(), &text].concat());
        }
    }
}
