//! The earliest of many times, each of which changes often.

/// A tournament tree: changing one time takes O(log n), changing many O(n), asking for the earliest
/// O(1).
#[derive(Debug)]
pub struct Tournament {
    places: usize,
    times: Vec<f64>,
    winner: Vec<u32>,
}

impl Tournament {
    /// A tree of `count` times, all infinite.
    pub fn new(count: usize) -> Self {
        let places = count.max(1).next_power_of_two();
        let mut tree = Self {
            places,
            times: vec![f64::INFINITY; places],
            winner: vec![0; 2 * places],
        };
        tree.rebuild();
        tree
    }

    /// Changes one time.
    pub fn set(&mut self, index: usize, time: f64) {
        self.times[index] = time;
        let mut place = usize::midpoint(self.places, index);
        while place > 0 {
            self.play(place);
            place /= 2;
        }
    }

    /// Changes one time of many; [`Tournament::rebuild`] is to follow.
    pub fn put(&mut self, index: usize, time: f64) {
        self.times[index] = time;
    }

    /// Plays all anew.
    pub fn rebuild(&mut self) {
        for index in 0..self.places {
            self.winner[self.places + index] = index as u32;
        }
        for place in (1..self.places).rev() {
            self.play(place);
        }
    }

    /// The earliest time, and whose it is.
    pub fn earliest(&self) -> (f64, usize) {
        let index = self.winner[1] as usize;
        (self.times[index], index)
    }

    fn play(&mut self, place: usize) {
        let (left, right) = (self.winner[2 * place], self.winner[2 * place + 1]);
        let later = self.times[right as usize] < self.times[left as usize];
        self.winner[place] = if later { right } else { left };
    }
}

#[cfg(test)]
mod tests {
    use super::Tournament;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_knows_the_earliest(count in 1..20_usize, changes in prop::collection::vec((0..20_usize, 0.0..9.0_f64), 0..50)) {
            let mut tree = Tournament::new(count);
            let mut times = vec![f64::INFINITY; count];
            for (index, time) in changes {
                tree.set(index % count, time);
                times[index % count] = time;
                let least = times.iter().copied().fold(f64::INFINITY, f64::min);
                let (earliest, whose) = tree.earliest();
                prop_assert!(earliest.to_bits() == least.to_bits() && times[whose].to_bits() == least.to_bits());
            }
            for (index, time) in times.iter().enumerate() {
                tree.put(index, 10.0 - time);
            }
            tree.rebuild();
            let latest = times.iter().map(|time| 10.0 - time).fold(f64::INFINITY, f64::min);
            prop_assert!(tree.earliest().0.to_bits() == latest.to_bits());
        }
    }
}
