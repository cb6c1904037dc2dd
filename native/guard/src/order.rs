//! An order to run a job, as it comes from the runner.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};

/// Everything that a guard needs to know of its job.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Its number, its index in an array (-1 outside of one) and which attempt this is.
    pub identity: [i64; 3],
    /// Seconds after which it is ended, in thousandths; below 0: never.
    pub time_limit_ms: i64,
    /// The most that its processes may use.
    pub memory_bytes: i64,
    /// The file that it prints to.
    pub log: CString,
    /// Where it starts.
    pub directory: CString,
    /// The program and its arguments.
    pub command: Vec<CString>,
    /// `NAME=value`, all of them.
    pub environment: Vec<CString>,
    /// Directories that are made for it.
    pub private: Vec<CString>,
}

const NUMBERS: usize = 8;

/// Longer than any order: Linux takes 128 KiB a word, and by default 2 MiB in all (execve(2)).
const LONGEST: usize = 256 << 20;

/// The next order; an error where there will be none. The length of each comes before it, in four bytes.
pub fn next(orders: &mut File) -> io::Result<Order> {
    let mut length = [0; 4];
    orders.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    orders.read_exact(&mut bytes)?;
    decode(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Reads what follows the length of an order: eight numbers of 64 bits, the last three being how many words
/// the command, the environment and the private directories have, then all words, each ended by a NUL.
/// `None` where it is no order.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Order> {
    let (head, text) = bytes.split_at_checked(NUMBERS * 8)?;
    let number =
        |at: usize| i64::from_le_bytes(head[at * 8..at * 8 + 8].try_into().unwrap_or_default());
    let mut words = text
        .split_inclusive(|byte| *byte == 0)
        .map(|word| CString::from_vec_with_nul(word.to_vec()).ok());
    let mut word = || words.next().flatten();
    let mut several = |count: i64| (0..count).map(|_| word()).collect::<Option<Vec<_>>>();
    let [log, directory] = several(2)?.try_into().ok()?;
    let order = Order {
        identity: [number(0), number(1), number(2)],
        time_limit_ms: number(3),
        memory_bytes: number(4),
        log,
        directory,
        command: several(number(5))?,
        environment: several(number(6))?,
        private: several(number(7))?,
    };
    (!order.command.is_empty() && words.next().is_none()).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(counts: [i64; 3], words: &[&str]) -> Vec<u8> {
        let numbers = [17, -1, 0, 1500, 1 << 30, counts[0], counts[1], counts[2]];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|n: &i64| n.to_le_bytes()).collect();
        for word in words {
            bytes.extend_from_slice(word.as_bytes());
            bytes.push(0);
        }
        bytes
    }

    #[test]
    fn an_order_is_read_word_by_word() {
        let words = ["/s/17.log", "/d", "sh", "-c", "", "A=b", "/w/17"];
        let order = decode(&encoded([3, 1, 1], &words)).unwrap();
        assert_eq!((order.identity, order.time_limit_ms), ([17, -1, 0], 1500));
        assert_eq!(
            order.command,
            [c"sh".to_owned(), c"-c".to_owned(), c"".to_owned()]
        );
        assert_eq!((order.environment.len(), order.private.len()), (1, 1));
    }

    #[test]
    fn what_is_no_order_is_none() {
        assert_eq!(decode(b"short"), None);
        assert_eq!(decode(&encoded([9, 0, 0], &["l", "d", "sh"])), None);
        assert_eq!(decode(&encoded([1, 0, 0], &["l", "d", "sh", "more"])), None);
        assert_eq!(decode(&encoded([0, 0, 0], &["l", "d"])), None);
    }
}
