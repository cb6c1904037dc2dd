//! What jobs moved on the targets of a server, with as many series as fit, and sums that are exact.
//!
//! Jobs that move most have a series each; what all others moved is added to one. A job's own series goes on
//! only over a time in which it had one at both ends, and what it moved else is in the one of the others: so
//! that the rates of all series add up to what was moved, whichever two looks they are taken between.

use crate::job_stats::{Figures, JobBlock, read_job_stats};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::PathBuf;

/// Looks that a job may be missing in before it counts as gone: a list that is read while it changes skips some.
const GRACE: u32 = 3;
/// Rows (jobs on targets) that are followed: some hundred bytes each.
const MOST_ROWS: usize = 300_000;
/// What an operation without bytes weighs when jobs are ranked.
const OPERATION_BYTES: f64 = 4096.0;
/// How much of an earlier look still counts when jobs are ranked, so that series do not come and go.
const KEPT_PART: f64 = 0.5;
const BUFFER: usize = 1 << 16;

/// A target whose jobs are counted.
#[derive(Debug, Clone)]
pub struct Place {
    /// `ost` or `mdt`.
    pub component: String,
    /// The name of its file system.
    pub filesystem: String,
    /// Such as `scratch-OST0000`.
    pub target: String,
    /// Its file `job_stats`.
    pub path: PathBuf,
}

/// One series: a job, or all others together.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// `ost` or `mdt`.
    pub component: String,
    /// The target, or the file system where all of its targets here are added.
    pub of: String,
    /// None stands for all others.
    pub job: Option<String>,
    /// When the series began, in nanoseconds since 1970.
    pub since_ns: u64,
    /// Sums that never fall.
    pub figures: Figures,
}

/// What one look gives.
#[derive(Debug, Default)]
pub struct Look {
    /// By file system.
    pub jobs: Vec<Row>,
    /// By target.
    pub pairs: Vec<Row>,
    /// Targets that could not be read, and why.
    pub failed: Vec<(String, io::Error)>,
    /// Rows beyond those that can be followed.
    pub unfollowed: usize,
}

type Key = (usize, Box<[u8]>);

#[derive(Debug)]
struct Followed {
    last: Figures,
    start_ns: u64,
    seen: u32,
}

#[derive(Debug)]
struct Target {
    place: Place,
    group: usize,
    rows: HashMap<Box<[u8]>, Followed>,
    /// When the look before began; zero before there was one.
    looked_ns: u64,
}

#[derive(Debug)]
struct Shown {
    figures: Figures,
    since_ns: u64,
    score: f64,
    current: bool,
}

/// Series of one level: of jobs, or of jobs on targets.
#[derive(Debug, Default)]
struct Ranked {
    shown: HashMap<Key, Shown>,
    others: HashMap<usize, (Figures, u64)>,
}

/// Follows the jobs of all targets of a server.
#[derive(Debug)]
pub struct Tally {
    most: usize,
    look: u32,
    targets: Vec<Option<Target>>,
    groups: Vec<(String, String)>,
    of_jobs: HashMap<String, Ranked>,
    of_pairs: HashMap<String, Ranked>,
}

/// What moved since the look before, and what is new and may have a series.
#[derive(Debug, Default)]
struct Moved {
    deltas: HashMap<Key, Figures>,
    first: HashMap<Key, Figures>,
}

impl Tally {
    /// One with at most `most` series of each level and component, beside those of all others.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            look: 0,
            targets: Vec::new(),
            groups: Vec::new(),
            of_jobs: HashMap::new(),
            of_pairs: HashMap::new(),
        }
    }

    /// Reads all places; `now_ns` is the time since 1970 by the clock that Lustre here has, too.
    pub fn look(&mut self, places: &[Place], now_ns: u64) -> Look {
        self.look += 1;
        self.keep(places);
        let mut found = Look::default();
        let mut jobs: HashMap<String, Moved> = HashMap::new();
        let mut pairs: HashMap<String, Moved> = HashMap::new();
        let mut failed = HashSet::new();
        let mut room = MOST_ROWS.saturating_sub(
            self.targets
                .iter()
                .flatten()
                .map(|each| each.rows.len())
                .sum(),
        );
        for (index, slot) in self.targets.iter_mut().enumerate() {
            let Some(target) = slot else { continue };
            let component = target.place.component.clone();
            let pair = pairs.entry(component.clone()).or_default();
            let job = jobs.entry(component).or_default();
            let group = target.group;
            // From the first look on, so that whatever moves first has a series to be added to.
            begin(&mut self.of_pairs, &target.place.component, index, now_ns);
            begin(&mut self.of_jobs, &target.place.component, group, now_ns);
            let read = target.read(
                self.look,
                now_ns,
                &mut room,
                &mut found.unfollowed,
                |name, moved, first| {
                    add(pair, (index, name.into()), moved, first);
                    add(job, (group, name.into()), moved, first);
                },
            );
            if let Err(error) = read {
                failed.insert(index);
                found.failed.push((target.place.target.clone(), error));
            }
        }
        let (targets, groups) = (&self.targets, &self.groups);
        for (component, moved) in pairs {
            let ranked = self.of_pairs.entry(component.clone()).or_default();
            let total = |key: &Key| {
                targets[key.0]
                    .as_ref()
                    .and_then(|each| each.rows.get(&key.1))
                    .map(|row| row.last)
            };
            ranked.settle(moved, self.most, now_ns, total);
            ranked.rows(
                |of| {
                    let target = targets[of].as_ref().filter(|_| !failed.contains(&of))?;
                    Some((component.clone(), target.place.target.clone()))
                },
                &mut found.pairs,
            );
        }
        for (component, moved) in jobs {
            let ranked = self.of_jobs.entry(component).or_default();
            let total = |key: &Key| job_total(targets, key);
            ranked.settle(moved, self.most, now_ns, total);
            ranked.rows(|of| Some(groups[of].clone()), &mut found.jobs);
        }
        found
    }

    /// Follow these places from now on; of those that are gone nothing is kept.
    fn keep(&mut self, places: &[Place]) {
        for slot in &mut self.targets {
            let gone = slot
                .as_ref()
                .is_some_and(|target| !places.iter().any(|place| place.path == target.place.path));
            if gone {
                *slot = None;
            }
        }
        for place in places {
            if self
                .targets
                .iter()
                .flatten()
                .any(|each| each.place.path == place.path)
            {
                continue;
            }
            let name = (place.component.clone(), place.filesystem.clone());
            let group = self
                .groups
                .iter()
                .position(|each| *each == name)
                .unwrap_or_else(|| {
                    self.groups.push(name);
                    self.groups.len() - 1
                });
            let target = Target {
                place: place.clone(),
                group,
                rows: HashMap::new(),
                looked_ns: 0,
            };
            // A place of its own: series of what was there before are another target's.
            self.targets.push(Some(target));
        }
    }
}

fn begin(levels: &mut HashMap<String, Ranked>, component: &str, of: usize, now_ns: u64) {
    if !levels.contains_key(component) {
        levels.insert(component.to_owned(), Ranked::default());
    }
    if let Some(level) = levels.get_mut(component) {
        level
            .others
            .entry(of)
            .or_insert((Figures::default(), now_ns));
    }
}

fn add(to: &mut Moved, key: Key, moved: Figures, first: bool) {
    let sums = if first { &mut to.first } else { &mut to.deltas };
    raise(sums.entry(key).or_default(), moved);
}

fn raise(sum: &mut Figures, by: Figures) {
    for (sum, by) in sum.iter_mut().zip(by) {
        *sum = sum.saturating_add(by);
    }
}

fn job_total(targets: &[Option<Target>], key: &Key) -> Option<Figures> {
    let mut total = None;
    for target in targets.iter().flatten().filter(|each| each.group == key.0) {
        if let Some(row) = target.rows.get(&key.1) {
            raise(total.get_or_insert_with(Figures::default), row.last);
        }
    }
    total
}

impl Target {
    /// Reads the target; `each` is told of each job what it moved since the look before. `first` of what was
    /// counted before anybody looked: how it is ranked then, and never a rate.
    fn read(
        &mut self,
        look: u32,
        now_ns: u64,
        room: &mut usize,
        unfollowed: &mut usize,
        mut each: impl FnMut(&[u8], Figures, bool),
    ) -> io::Result<()> {
        let source = BufReader::with_capacity(BUFFER, File::open(&self.place.path)?);
        let looked_ns = self.looked_ns;
        read_job_stats(source, |block: &JobBlock| {
            if let Some(row) = self.rows.get_mut(block.job.as_slice()) {
                let began_anew = row.start_ns != block.start_ns
                    || block
                        .figures
                        .iter()
                        .zip(row.last)
                        .any(|(new, old)| *new < old);
                let moved = if began_anew {
                    block.figures
                } else {
                    less(block.figures, row.last)
                };
                *row = Followed {
                    last: block.figures,
                    start_ns: block.start_ns,
                    seen: look,
                };
                if moved != Figures::default() {
                    each(&block.job, moved, false);
                }
            } else if *room == 0 {
                *unfollowed += 1;
            } else {
                *room -= 1;
                let row = Followed {
                    last: block.figures,
                    start_ns: block.start_ns,
                    seen: look,
                };
                self.rows.insert(block.job.as_slice().into(), row);
                // Whatever began before the look before was there unseen, and may have moved all of it then.
                let began_since = looked_ns > 0 && block.start_ns >= looked_ns;
                each(&block.job, block.figures, !began_since);
            }
        })?;
        self.rows.retain(|_, row| look - row.seen <= GRACE);
        self.looked_ns = now_ns;
        Ok(())
    }
}

fn less(new: Figures, old: Figures) -> Figures {
    std::array::from_fn(|at| new[at].saturating_sub(old[at]))
}

fn weight(moved: &Figures) -> f64 {
    moved[0] as f64 + moved[1] as f64 + moved[4] as f64 * OPERATION_BYTES
}

impl Ranked {
    /// Adds what was moved, and chooses who has a series from now on; `total` is what Lustre counts of one.
    fn settle(
        &mut self,
        moved: Moved,
        most: usize,
        now_ns: u64,
        total: impl Fn(&Key) -> Option<Figures>,
    ) {
        for (key, shown) in &mut self.shown {
            shown.score = shown.score * KEPT_PART + moved.deltas.get(key).map_or(0.0, weight);
        }
        let shown = self
            .shown
            .iter()
            .map(|(key, shown)| (shown.score, shown.current, key));
        let new = moved
            .deltas
            .iter()
            .map(|(key, sums)| (weight(sums), false, key));
        // What was moved before anybody looked says least.
        let before = moved
            .first
            .iter()
            .filter(|(key, _)| !moved.deltas.contains_key(*key))
            .map(|(key, sums)| (weight(sums) * 1e-9, false, key));
        let fresh = new
            .chain(before)
            .filter(|(_, _, key)| !self.shown.contains_key(*key));
        let mut ranks: Vec<(f64, bool, &Key)> = shown.chain(fresh).collect();
        if ranks.len() > most {
            ranks.select_nth_unstable_by(most, |a, b| {
                b.0.total_cmp(&a.0)
                    .then(b.1.cmp(&a.1))
                    .then_with(|| a.2.cmp(b.2))
            });
            ranks.truncate(most);
        }
        let chosen: HashMap<Key, f64> = ranks
            .into_iter()
            .map(|(score, _, key)| (key.clone(), score))
            .collect();
        for (key, sums) in moved.deltas {
            match self.shown.get_mut(&key) {
                Some(shown) if shown.current && chosen.contains_key(&key) => {
                    raise(&mut shown.figures, sums);
                }
                _ => raise(&mut self.others.entry(key.0).or_default().0, sums),
            }
        }
        for (key, shown) in &mut self.shown {
            shown.current = chosen.contains_key(key);
        }
        for (key, score) in chosen {
            let figures = total(&key).unwrap_or_default();
            self.shown.entry(key).or_insert(Shown {
                figures,
                since_ns: now_ns,
                score,
                current: true,
            });
        }
        // A series that ended keeps its sum while its job is there, so that it goes on where it stopped.
        self.shown
            .retain(|key, shown| total(key).is_some() && (shown.current || shown.score > 0.5));
    }

    /// All series, each with the names of what it is of; none of what has no names.
    fn rows(&self, names: impl Fn(usize) -> Option<(String, String)>, to: &mut Vec<Row>) {
        let shown = self.shown.iter().filter(|(_, shown)| shown.current);
        let jobs = shown.map(|(key, shown)| (key.0, Some(&key.1), shown.since_ns, shown.figures));
        let others = self
            .others
            .iter()
            .map(|(of, (figures, since_ns))| (*of, None, *since_ns, *figures));
        for (of, job, since_ns, figures) in jobs.chain(others) {
            if let Some((component, of)) = names(of) {
                let job = job.map(|name| String::from_utf8_lossy(name).into_owned());
                to.push(Row {
                    component,
                    of,
                    job,
                    since_ns,
                    figures,
                });
            }
        }
    }
}
