//! Rates over a time whose end is not known beforehand.

/// How many fine bins there are for each bin asked for.
const FINE: usize = 8;

/// Length of the first fine bins in seconds; they double until all time fits.
const SHORTEST_S: f64 = 1e-9;

/// Amounts in bins of equal length, in several rows.
#[derive(Debug)]
pub struct Series {
    bins: usize,
    width: f64,
    rows: Vec<Vec<f64>>,
}

impl Series {
    /// No amounts yet; `bins` is what [`Series::rates`] will give.
    pub fn new(rows: usize, bins: usize) -> Self {
        Self {
            bins,
            width: SHORTEST_S,
            rows: vec![vec![0.0; bins * FINE]; rows],
        }
    }

    /// Adds what moves at `rate` from `start` to `end`.
    pub fn add(&mut self, row: usize, start: f64, end: f64, rate: f64) {
        let count = self.bins * FINE;
        if rate <= 0.0 || end <= start || count == 0 {
            return;
        }
        while end > self.width * count as f64 {
            self.double();
        }
        let (mut from, row) = (start, &mut self.rows[row]);
        let mut bin = ((start / self.width) as usize).min(count - 1);
        while from < end {
            let border = if bin + 1 == count {
                end
            } else {
                (bin + 1) as f64 * self.width
            };
            let to = border.min(end);
            row[bin] += rate * (to - from).max(0.0);
            from = to;
            bin = (bin + 1).min(count - 1);
        }
    }

    fn double(&mut self) {
        self.width *= 2.0;
        for row in &mut self.rows {
            let count = row.len();
            for bin in 0..count {
                let sum = if 2 * bin < count {
                    row[2 * bin] + row.get(2 * bin + 1).unwrap_or(&0.0)
                } else {
                    0.0
                };
                row[bin] = sum;
            }
        }
    }

    /// Length of a bin, and the mean rates in each, if all ended at `end`. A fine bin across a border is
    /// divided evenly, so that amounts are kept.
    pub fn rates(&self, end: f64) -> (f64, Vec<Vec<f64>>) {
        let length = end / self.bins.max(1) as f64;
        let rates = self.rows.iter().map(|row| {
            let mut amounts = vec![0.0; self.bins];
            for (fine, &amount) in row.iter().enumerate().filter(|(_, amount)| **amount > 0.0) {
                let start = fine as f64 * self.width;
                let whole = (start + self.width).min(end) - start;
                let mut bin = ((start / length) as usize).min(self.bins - 1);
                let mut from = start;
                while bin < self.bins {
                    let border = if bin + 1 == self.bins {
                        end
                    } else {
                        (bin + 1) as f64 * length
                    };
                    let to = border.min(start + whole);
                    amounts[bin] += amount * ((to - from) / whole).max(0.0);
                    from = to;
                    if border >= start + whole {
                        break;
                    }
                    bin += 1;
                }
            }
            amounts.iter().map(|amount| amount / length).collect()
        });
        (length, rates.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::Series;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn amounts_are_kept(parts in prop::collection::vec((0.001..50.0_f64, 0.0..9.0_f64), 1..40), bins in 1..30_usize) {
            let mut series = Series::new(1, bins);
            let (mut now, mut amount) = (0.0, 0.0);
            for (seconds, rate) in parts {
                series.add(0, now, now + seconds, rate);
                amount += seconds * rate;
                now += seconds;
            }
            let (length, rates) = series.rates(now);
            let kept: f64 = rates[0].iter().map(|rate| rate * length).sum();
            prop_assert!((kept - amount).abs() <= 1e-9 * amount.max(1e-6), "{} of {}", kept, amount);
        }
    }

    #[test]
    fn a_step_is_seen_where_it_is() {
        let mut series = Series::new(1, 10);
        series.add(0, 0.0, 50.0, 1.0);
        series.add(0, 50.0, 100.0, 3.0);
        let (length, rates) = series.rates(100.0);
        assert!((length - 10.0).abs() < 1e-9);
        assert!(
            (rates[0][1] - 1.0).abs() < 0.01 && (rates[0][8] - 3.0).abs() < 0.01,
            "{rates:?}"
        );
    }
}
