//! What an activity waited for.

use crate::filling::OWN_CAP;

/// How many causes are held in place: an activity rarely meets more.
const IN_PLACE: usize = 3;

/// Seconds by cause: a resource, or [`OWN_CAP`].
#[derive(Debug)]
pub struct Waits {
    by: [u32; IN_PLACE],
    seconds: [f64; IN_PLACE],
    #[allow(clippy::box_collection)] // rare: a pointer keeps activities small
    more: Option<Box<Vec<(u32, f64)>>>,
}

impl Waits {
    /// None so far.
    pub fn new() -> Self {
        Self {
            by: [OWN_CAP; IN_PLACE],
            seconds: [0.0; IN_PLACE],
            more: None,
        }
    }

    /// Adds seconds to a cause.
    pub fn add(&mut self, by: u32, seconds: f64) {
        for place in 0..IN_PLACE {
            if self.by[place] == by || self.seconds[place] <= 0.0 {
                self.by[place] = by;
                self.seconds[place] += seconds;
                return;
            }
        }
        let more = self.more.get_or_insert_default();
        match more.iter_mut().find(|(known, _)| *known == by) {
            Some((_, sum)) => *sum += seconds,
            None => more.push((by, seconds)),
        }
    }

    /// All causes with their seconds.
    pub fn iter(&self) -> impl Iterator<Item = (Option<u32>, f64)> {
        let in_place = self.by.iter().copied().zip(self.seconds.iter().copied());
        let more = self.more.iter().flat_map(|more| more.iter().copied());
        let waited = in_place.chain(more).filter(|(_, seconds)| *seconds > 0.0);
        waited.map(|(by, seconds)| ((by != OWN_CAP).then_some(by), seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::Waits;
    use crate::filling::OWN_CAP;

    #[test]
    fn all_causes_are_kept_apart() {
        let mut waits = Waits::new();
        for by in [7, OWN_CAP, 3, 4, 5, 7, OWN_CAP, 5] {
            waits.add(by, 1.0);
        }
        let all: Vec<_> = waits.iter().collect();
        let two = |by| (by, 2.0);
        assert_eq!(
            all,
            [
                two(Some(7)),
                two(None),
                (Some(3), 1.0),
                (Some(4), 1.0),
                two(Some(5))
            ]
        );
    }
}
