//! What a phase is asked to do.

use serde::Deserialize;
use std::path::PathBuf;

/// Which calls move the data.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// pread(2) and pwrite(2) through the page cache.
    Buffered,
    /// `O_DIRECT` with `io_uring`, or by threads where `io_uring` is refused.
    Direct,
    /// No storage at all: a programmable rate and delay, see [`crate::null`].
    Null,
}

/// What a stream does.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Writes its file sequentially.
    Write,
    /// Reads its file sequentially.
    Read,
    /// Creates, stats, reads and unlinks small files in a directory.
    Metadata,
}

/// One stream.
#[derive(Debug, Clone, Deserialize)]
pub struct StreamConfig {
    /// What it does.
    pub role: Role,
    /// Its file, or its directory for metadata.
    #[serde(with = "crate::path_text")]
    pub path: PathBuf,
    /// The number stamped into its blocks.
    pub file: u64,
    /// Write: bytes after which the stream goes back to the start of its file.
    /// Read: the size of the file. Both: of its part of a file that streams share.
    pub file_bytes: u64,
    /// Where its part of a shared file begins.
    #[serde(default)]
    pub base: u64,
    /// Whether other streams, of this node or of others, have parts of the same file.
    #[serde(default)]
    pub shared: bool,
}

impl StreamConfig {
    /// Where in the file the byte is that this stream moves at `position` of its course.
    #[must_use]
    pub fn offset(&self, position: u64) -> u64 {
        self.base + position % self.file_bytes
    }

    /// The end of the stream's part of the file.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base + self.file_bytes
    }
}

/// A token bucket that stands for a volume; see [`crate::null::Bucket`].
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct NullConfig {
    /// Bytes per second while tokens last; null for no limit.
    pub burst_bytes_per_s: Option<f64>,
    /// Bytes per second at which tokens come back; null for no limit.
    pub steady_bytes_per_s: Option<f64>,
    /// Bytes that can be moved at the burst rate.
    pub bucket_bytes: f64,
    /// Added to every request, in seconds.
    pub delay_s: f64,
}

/// One phase.
#[derive(Debug, Clone, Deserialize)]
pub struct PhaseConfig {
    /// Which calls move the data.
    pub engine: Engine,
    /// Bytes per request; a multiple of 4096.
    pub block_bytes: usize,
    /// Requests in flight per stream; 1 for the buffered engine.
    pub queue_depth: usize,
    /// Bytes after which a stream ends.
    pub bytes_per_stream: Option<u64>,
    /// Seconds after which all streams end.
    pub seconds: Option<f64>,
    /// Buffered writes: about how long a closing fsync(2) may take; see [`crate::ahead`].
    #[serde(default)]
    pub flush_within_s: Option<f64>,
    /// Seconds between two samples.
    pub sample_s: f64,
    /// Seed of the data.
    pub seed: u64,
    /// Check every block read.
    pub verify: bool,
    /// Metadata: files per stream at most.
    pub max_files: u64,
    /// Refuse `io_uring` even where it is there (for tests and comparisons).
    pub no_io_uring: bool,
    /// The volume that the null engine stands for.
    pub null: Option<NullConfig>,
    /// Whether the streams wait, prepared, until they are let go: see [`crate::phase::Phase::open`].
    #[serde(default)]
    pub held: bool,
    /// The streams.
    pub streams: Vec<StreamConfig>,
}

impl PhaseConfig {
    /// Says what is wrong with the configuration, if anything.
    pub fn validate(&self) -> Result<(), String> {
        let sector = crate::pattern::SECTOR;
        if self.block_bytes == 0 || self.block_bytes % sector != 0 {
            return Err(format!(
                "block_bytes must be a positive multiple of {sector}"
            ));
        }
        if self.queue_depth == 0 || self.queue_depth > 4096 {
            return Err("queue_depth must lie between 1 and 4096".into());
        }
        if self.streams.is_empty() {
            return Err("a phase needs at least one stream".into());
        }
        if self.sample_s.is_nan() || self.sample_s <= 0.0 {
            return Err("sample_s must be positive".into());
        }
        if self.engine == Engine::Null && self.null.is_none() {
            return Err("the null engine needs its rate and delay".into());
        }
        let block = self.block_bytes as u64;
        for stream in self.streams.iter().filter(|s| s.role != Role::Metadata) {
            if stream.file_bytes == 0 || stream.file_bytes % block != 0 {
                return Err(format!(
                    "{}: file_bytes must be a positive multiple of block_bytes",
                    stream.path.display()
                ));
            }
            if stream.base % block != 0 || stream.base.checked_add(stream.file_bytes).is_none() {
                return Err(format!(
                    "{}: base must be a multiple of block_bytes, and the end must fit 64 bits",
                    stream.path.display()
                ));
            }
        }
        Ok(())
    }
}
