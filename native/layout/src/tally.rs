//! What a scan adds up: files and bytes by layout, size and age, bytes by target, the largest files.

use crate::attribute::{Component, Layout};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Layouts told apart; more are counted together, so that memory stays bounded.
pub const MOST_CLASSES: usize = 4096;
const MOST_NAMED: usize = 20;
const MOST_TARGETS: usize = 65_536;
const DAY_S: i64 = 86_400;

/// A file as the scan sees it. Times in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeenFile {
    /// Where it is, with bytes that are no text replaced; filled in for those that are kept.
    pub path: String,
    /// Its length.
    pub size_bytes: u64,
    /// What it takes on its targets: less than the length where it is sparse.
    pub allocated_bytes: u64,
    /// When it was written last.
    pub modified_s: i64,
    /// When it was made, where the file system tells.
    pub born_s: Option<i64>,
    /// Its layout.
    pub layout: Layout,
}

/// By what files are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Class {
    /// The layout in a short form, such as `1`, or `64M:1,4G:4,-1`.
    pub layout: String,
    /// Power of two below which the size is; 0 for empty files.
    pub size_class: u32,
    /// Age in days, up to 1, 7, 30, 365; 0 is older.
    pub age_days: u32,
}

/// Files and what they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// How many.
    pub files: u64,
    /// Their length.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Something that was not looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// Where it is.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// The sums of one thread, or of all.
#[derive(Debug, Default)]
pub struct Tally {
    /// Files looked at.
    pub files: Count,
    /// Directories looked at.
    pub directories: u64,
    /// By layout, then by size and age: a layout that is known needs no text of its own to be found.
    classes: HashMap<String, HashMap<(u32, u32), Count>>,
    told_apart: usize,
    word: String,
    targets: HashMap<u32, u64>,
    metadata_server_bytes: u64,
    released: Count,
    foreign: Count,
    without_layout: Count,
    unread: u64,
    named: Vec<Unread>,
    largest: BinaryHeap<Reverse<(u64, PathBuf)>>,
    kept: HashMap<PathBuf, SeenFile>,
}

/// A class with what is in it.
#[derive(Clone, Debug, Serialize)]
pub struct ClassCount {
    /// What they have in common.
    #[serde(flatten)]
    pub class: Class,
    /// How many.
    #[serde(flatten)]
    pub count: Count,
}

/// What a scan found.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Files with a layout or without.
    pub files: Count,
    /// Directories.
    pub directories: u64,
    /// By layout, size and age.
    pub classes: Vec<ClassCount>,
    /// Bytes allocated by index of target, all mirrors.
    pub targets: BTreeMap<u32, u64>,
    /// Bytes of data on metadata servers.
    pub metadata_server_bytes: u64,
    /// Files whose data are in the archive only.
    pub released: Count,
    /// Files whose data Lustre does not hold.
    pub foreign: Count,
    /// Files that have no such attribute, such as those never written.
    pub without_layout: Count,
    /// What could not be looked at.
    pub unread: u64,
    /// Some of it, by name.
    pub unread_named: Vec<Unread>,
    /// The files that take most, in this order.
    pub largest: Vec<SeenFile>,
    /// Whether all was looked at.
    pub complete: bool,
    /// Directories in which something has hung.
    pub hanging: Vec<String>,
}

impl Tally {
    /// Count a file; `keep` of the largest are remembered.
    pub fn add(&mut self, file: SeenFile, now_s: i64, keep: usize, path: impl FnOnce() -> PathBuf) {
        let one = Count {
            files: 1,
            bytes: file.size_bytes,
        };
        self.files.add(one);
        if file.layout.foreign.is_some() {
            self.foreign.add(one);
            return;
        }
        if file.layout.components.iter().any(|part| part.released) {
            self.released.add(one);
            return;
        }
        self.count_class(&file, now_s, one);
        self.spread(&file);
        if self.is_remembered(file.allocated_bytes, keep) {
            self.remember(path(), file, keep);
        }
    }

    /// Count a file that has no layout.
    pub fn add_without_layout(&mut self, size_bytes: u64) {
        let one = Count {
            files: 1,
            bytes: size_bytes,
        };
        self.files.add(one);
        self.without_layout.add(one);
    }

    /// Note what could not be looked at.
    pub fn add_unread(&mut self, path: String, reason: String) {
        self.unread += 1;
        if self.named.len() < MOST_NAMED {
            self.named.push(Unread { path, reason });
        }
    }

    fn count_class(&mut self, file: &SeenFile, now_s: i64, one: Count) {
        let size_class = u64::BITS - file.size_bytes.leading_zeros();
        let age = age_days(now_s.saturating_sub(file.modified_s));
        let mut word = std::mem::take(&mut self.word);
        write_short(&mut word, &file.layout);
        self.count(&word, (size_class, age), one);
        self.word = word;
    }

    fn count(&mut self, layout: &str, kind: (u32, u32), count: Count) {
        if let Some(known) = self
            .classes
            .get_mut(layout)
            .and_then(|all| all.get_mut(&kind))
        {
            return known.add(count);
        }
        let layout = if self.told_apart < MOST_CLASSES {
            layout
        } else {
            "other"
        };
        self.told_apart += 1;
        let of_layout = self.classes.entry(layout.to_owned()).or_default();
        of_layout.entry(kind).or_default().add(count);
    }

    /// What is allocated lies on the targets of each mirror as if holes were spread evenly.
    fn spread(&mut self, file: &SeenFile) {
        let Some(first) = file.layout.components.first() else {
            return;
        };
        let mirrors = mirrors(&file.layout);
        for part in &file.layout.components {
            let inside = inside(part, file.size_bytes);
            // Components of one mirror share its bytes by their length; allocated counts all mirrors.
            let share = u128::from(inside) * u128::from(file.allocated_bytes)
                / u128::from(file.size_bytes.max(1) * mirrors.max(1));
            let bytes = u64::try_from(share).unwrap_or(u64::MAX);
            if part.on_metadata_server {
                if part.mirror == first.mirror {
                    self.metadata_server_bytes += bytes;
                }
                continue;
            }
            let each = bytes / (part.objects.len().max(1) as u64);
            for object in &part.objects {
                if self.targets.len() < MOST_TARGETS || self.targets.contains_key(&object.ost) {
                    *self.targets.entry(object.ost).or_default() += each;
                }
            }
        }
    }

    fn is_remembered(&self, size: u64, keep: usize) -> bool {
        let least = self.largest.peek();
        self.largest.len() < keep || least.is_some_and(|Reverse((least, _))| *least < size)
    }

    fn remember(&mut self, path: PathBuf, mut file: SeenFile, keep: usize) {
        let size = file.allocated_bytes;
        if self.largest.len() >= keep
            && let Some(Reverse((_, gone))) = self.largest.pop()
        {
            self.kept.remove(&gone);
        }
        file.path = path.to_string_lossy().into_owned();
        self.largest.push(Reverse((size, path.clone())));
        self.kept.insert(path, file);
    }

    /// Add the sums of another thread.
    pub fn merge(&mut self, other: &Self, keep: usize) {
        self.files.add(other.files);
        self.directories += other.directories;
        for (layout, kinds) in &other.classes {
            for (kind, count) in kinds {
                self.count(layout, *kind, *count);
            }
        }
        for (target, bytes) in &other.targets {
            *self.targets.entry(*target).or_default() += bytes;
        }
        self.metadata_server_bytes += other.metadata_server_bytes;
        self.released.add(other.released);
        self.foreign.add(other.foreign);
        self.without_layout.add(other.without_layout);
        self.unread += other.unread;
        let room = MOST_NAMED.saturating_sub(self.named.len());
        self.named.extend(other.named.iter().take(room).cloned());
        for (path, file) in &other.kept {
            if self.is_remembered(file.allocated_bytes, keep) {
                self.remember(path.clone(), file.clone(), keep);
            }
        }
    }

    /// The sums in the form that is handed on.
    #[must_use]
    pub fn summary(mut self, complete: bool, hanging: Vec<String>) -> Summary {
        let mut largest: Vec<SeenFile> = self.kept.drain().map(|(_, file)| file).collect();
        largest.sort_by(|a, b| (b.allocated_bytes, &a.path).cmp(&(a.allocated_bytes, &b.path)));
        let mut classes: Vec<ClassCount> = self
            .classes
            .drain()
            .flat_map(|(layout, kinds)| {
                kinds
                    .into_iter()
                    .map(move |((size_class, age_days), count)| {
                        let layout = layout.clone();
                        let class = Class {
                            layout,
                            size_class,
                            age_days,
                        };
                        ClassCount { class, count }
                    })
            })
            .collect();
        classes.sort_by(|a, b| a.class.cmp(&b.class));
        Summary {
            files: self.files,
            directories: self.directories,
            classes,
            targets: self.targets.into_iter().collect(),
            metadata_server_bytes: self.metadata_server_bytes,
            released: self.released,
            foreign: self.foreign,
            without_layout: self.without_layout,
            unread: self.unread,
            unread_named: self.named,
            largest,
            complete,
            hanging,
        }
    }
}

fn age_days(age_s: i64) -> u32 {
    [1_u32, 7, 30, 365]
        .into_iter()
        .find(|days| age_s < i64::from(*days) * DAY_S)
        .unwrap_or(0)
}

fn mirrors(layout: &Layout) -> u64 {
    let mut seen: Vec<u32> = layout.components.iter().map(|part| part.mirror).collect();
    seen.sort_unstable();
    seen.dedup();
    seen.len() as u64
}

fn inside(part: &Component, size: u64) -> u64 {
    part.end
        .unwrap_or(u64::MAX)
        .min(size)
        .saturating_sub(part.start)
}

/// A layout in a few characters: of each component its end and stripes, of mirrors one after the other.
#[must_use]
pub fn short(layout: &Layout) -> String {
    let mut word = String::new();
    write_short(&mut word, layout);
    word
}

/// The same in place of what `word` was.
fn write_short(word: &mut String, layout: &Layout) {
    word.clear();
    let mut mirror = layout.components.first().map(|part| part.mirror);
    for part in &layout.components {
        if !word.is_empty() {
            word.push(',');
        }
        if mirror != Some(part.mirror) {
            word.push('+');
        }
        mirror = Some(part.mirror);
        write_part(word, part);
    }
}

fn write_part(word: &mut String, part: &Component) {
    // To write to a text fails where memory does only.
    if let Some(end) = part.end {
        let _ = write!(word, "{end}:");
    }
    if part.on_metadata_server {
        word.push_str("mdt");
    } else {
        let _ = write!(word, "{}", part.stripe_count);
        word.push_str(if part.overstriped { "o" } else { "" });
    }
    if let Some(name) = &part.pool {
        let _ = write!(word, "@{name}");
    }
}
