//! What came of a simulation.

/// When launches ran, what they waited for, and the rates over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Start of each launch in seconds: the launches of the first stream, then of the second, and so on.
    pub start_s: Vec<f64>,
    /// End of each launch.
    pub end_s: Vec<f64>,
    /// How each launch's real time divides among what bound the slowest activity of its phases.
    pub waits: Vec<Vec<Wait>>,
    /// What all activities took of each resource: amount times coefficient.
    pub taken: Vec<f64>,
    /// Length of a bin of the rates in seconds.
    pub bin_s: f64,
    /// Mean rate of each class in each bin.
    pub class_rates: Vec<Vec<f64>>,
    /// Mean use of each watched resource in each bin.
    pub watched_rates: Vec<Vec<f64>>,
    /// Activities that ended.
    pub events: u64,
    /// Times that the rates of all nodes that share resources were found anew together.
    pub solutions: u64,
}

/// Time in which the slowest activity of a phase was of one class and bound by one thing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wait {
    /// Class of the activity.
    pub class: u32,
    /// The resource that bound it, or nothing if a cap did.
    pub bound_by: Option<u32>,
    /// How long.
    pub seconds: f64,
}
