//! Runs a scenario.

use crate::course::Course;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::series::Series;

/// How exact, and what to record.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// By which part the level (rate over weight) of a full resource that several nodes share may be
    /// off before all its flows are found anew; 0 is exact up to rounding.
    pub tolerance: f64,
    /// Number of bins of the rates over time.
    pub bins: usize,
    /// Resources whose use over time is recorded.
    pub watched: Vec<usize>,
}

/// Why there is no outcome.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// The input cannot be simulated: one line per problem.
    Input(String),
    /// It was told to stop.
    Stopped,
    /// The last launch ends later than the limit, which was known after so many activities.
    Late(u64),
}

/// Simulates all launches to their end. `stop` is asked at each event.
///
/// Every moment's rates are those of [`crate::fair::solve`], exactly with a tolerance of 0. With a
/// tolerance e the shared resources that are full have a level that is within e of the exact one (to
/// first order in the change since the last common solution), and no shared resource that is not full
/// is overdrawn by more than e of its capacity. Resources of one node alone are always exact for the
/// levels of the shared ones.
///
/// An event costs O(f log f) for the f activities on its node, and a common solution of all n activities
/// O(n log n). Between two common solutions lie at least about e·n events that all change the balance
/// in one direction, and far more while activities come and go.
pub fn simulate(
    scenario: &Scenario,
    options: &Options,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Outcome, Failure> {
    check(scenario, options).map_err(Failure::Input)?;
    let mut outcome = empty(scenario);
    let classes = scenario.classes.len();
    let mut series = Series::new(classes + options.watched.len(), options.bins);
    Course::new(scenario, options).run(&mut outcome, &mut series, stop)?;
    let end = last_end(&outcome);
    if end > 0.0 {
        (outcome.bin_s, outcome.class_rates) = series.rates(end);
    } else {
        outcome.class_rates = vec![vec![0.0; options.bins]; classes + options.watched.len()];
    }
    outcome.watched_rates = outcome.class_rates.split_off(classes);
    Ok(outcome)
}

/// When the last launch ends, with a tolerance of 0, and how many activities ended: what [`simulate`] says of
/// them, and nothing else.
///
/// It stops with [`Failure::Late`] as soon as what is left cannot be done by `until_s`, at the rates of
/// launches that have everything to themselves.
pub fn end(
    scenario: &Scenario,
    until_s: f64,
    stop: &mut dyn FnMut() -> bool,
) -> Result<(f64, u64), Failure> {
    scenario.check().map_err(Failure::Input)?;
    let options = Options {
        tolerance: 0.0,
        bins: 0,
        watched: Vec::new(),
    };
    let mut outcome = empty(scenario);
    let mut course = Course::new(scenario, &options);
    if until_s.is_finite() {
        course = course.until(until_s);
    }
    course.run(&mut outcome, &mut Series::new(0, 0), stop)?;
    let end = last_end(&outcome);
    if end > until_s {
        return Err(Failure::Late(outcome.events));
    }
    Ok((end, outcome.events))
}

fn empty(scenario: &Scenario) -> Outcome {
    let counts = scenario.streams.iter().map(crate::scenario::Stream::count);
    let launches = counts.sum();
    Outcome {
        start_s: vec![0.0; launches],
        end_s: vec![0.0; launches],
        waits: vec![Vec::new(); launches],
        taken: vec![0.0; scenario.capacities.len()],
        ..Outcome::default()
    }
}

fn last_end(outcome: &Outcome) -> f64 {
    outcome.end_s.iter().copied().fold(0.0, f64::max)
}

fn check(scenario: &Scenario, options: &Options) -> Result<(), String> {
    if !(0.0..1.0).contains(&options.tolerance) {
        return Err(format!(
            "tolerance is {}: it must be at least 0 and below 1",
            options.tolerance
        ));
    }
    if !(1..=1_000_000).contains(&options.bins) {
        return Err(format!(
            "bins is {}: it must be from 1 to 1000000",
            options.bins
        ));
    }
    let resources = scenario.capacities.len();
    if let Some(unknown) = options
        .watched
        .iter()
        .find(|&&watched| watched >= resources)
    {
        return Err(format!(
            "resource {unknown} is watched, but there are {resources} (0 is the first)"
        ));
    }
    scenario.check()
}
