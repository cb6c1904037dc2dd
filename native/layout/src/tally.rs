//! What a scan adds up: files and bytes by layout, size and age, bytes by target, the largest files.

use crate::attribute::{Component, Layout};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
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
    classes: HashMap<Class, Count>,
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
    pub fn add(&mut self, path: PathBuf, file: SeenFile, now_s: i64, keep: usize) {
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
        self.remember(path, file, keep);
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
        let mut class = Class {
            layout: short(&file.layout),
            size_class: u64::BITS - file.size_bytes.leading_zeros(),
            age_days: age_days(now_s.saturating_sub(file.modified_s)),
        };
        if self.classes.len() >= MOST_CLASSES && !self.classes.contains_key(&class) {
            "other".clone_into(&mut class.layout);
        }
        self.classes.entry(class).or_default().add(one);
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

    fn remember(&mut self, path: PathBuf, mut file: SeenFile, keep: usize) {
        let size = file.allocated_bytes;
        if keep == 0 {
            return;
        }
        if self.largest.len() >= keep {
            match self.largest.peek() {
                Some(Reverse((least, _))) if *least < size => {
                    if let Some(Reverse((_, gone))) = self.largest.pop() {
                        self.kept.remove(&gone);
                    }
                }
                _ => return,
            }
        }
        file.path = path.to_string_lossy().into_owned();
        self.largest.push(Reverse((size, path.clone())));
        self.kept.insert(path, file);
    }

    /// Add the sums of another thread.
    pub fn merge(&mut self, other: &Self, keep: usize) {
        self.files.add(other.files);
        self.directories += other.directories;
        for (class, count) in &other.classes {
            self.classes.entry(class.clone()).or_default().add(*count);
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
            self.remember(path.clone(), file.clone(), keep);
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
            .map(|(class, count)| ClassCount { class, count })
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
    let mut words = Vec::with_capacity(layout.components.len());
    let mut mirror = layout.components.first().map(|part| part.mirror);
    for part in &layout.components {
        let end = part.end.map_or_else(String::new, |end| format!("{end}:"));
        let stripes = if part.on_metadata_server {
            "mdt".to_owned()
        } else if part.overstriped {
            format!("{}o", part.stripe_count)
        } else {
            part.stripe_count.to_string()
        };
        let pool = part
            .pool
            .as_ref()
            .map_or_else(String::new, |name| format!("@{name}"));
        let next = if mirror == Some(part.mirror) { "" } else { "+" };
        mirror = Some(part.mirror);
        words.push(format!("{next}{end}{stripes}{pool}"));
    }
    words.join(",")
}
