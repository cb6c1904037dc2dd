//! A running sum that may add and take away without losing the small terms.

/// A sum in two parts, the second holding what the first rounds off (Neumaier's summation,
/// "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", 1974).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    total: f64,
    lost: f64,
}

impl Sum {
    /// Adds a term; a term added and taken away leaves nothing behind.
    pub fn add(&mut self, term: f64) {
        let total = self.total + term;
        self.lost += if self.total.abs() >= term.abs() {
            (self.total - total) + term
        } else {
            (term - total) + self.total
        };
        self.total = total;
    }

    /// The sum, rounded once.
    pub fn value(&self) -> f64 {
        self.total + self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::Sum;

    #[test]
    fn small_terms_survive_large_ones() {
        let mut sum = Sum::default();
        for term in [1e9, 1e-9, -1e9] {
            sum.add(term);
        }
        assert!((sum.value() - 1e-9).abs() < 1e-24);
    }
}
