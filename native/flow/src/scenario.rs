//! What is simulated: nodes with routes to resources, and streams of launches on them.

/// Resources, nodes, and what runs on them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scenario {
    /// Capacity of each resource, in the unit of the amounts per second; may be infinite.
    pub capacities: Vec<f64>,
    /// Names of the activity classes, for messages.
    pub classes: Vec<String>,
    /// The nodes: for each class the route its activities take there, if they can run there.
    pub nodes: Vec<Vec<Option<Route>>>,
    /// What a launch does: phases one after another, the activities of a phase at the same time.
    pub profiles: Vec<Vec<Vec<Activity>>>,
    /// What runs where, one launch after another.
    pub streams: Vec<Stream>,
}

/// What activities of one class use on one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Resource, and how much of it one unit of rate takes.
    pub uses: Vec<(usize, f64)>,
    /// Highest rate of one activity; may be infinite.
    pub cap: f64,
}

/// An amount of work of one class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Activity {
    /// Class, which gives the route.
    pub class: usize,
    /// Bytes, core seconds, or what else the class counts; zero takes no time.
    pub amount: f64,
    /// Highest rate of this activity; may be infinite.
    pub cap: f64,
    /// Its share where it competes.
    pub weight: f64,
}

/// Launches that run back to back.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Where they run.
    pub node: usize,
    /// When the first starts.
    pub start_s: f64,
    /// Profile of each launch.
    pub launches: Vec<usize>,
    /// How often the launches run, all of them in turn.
    pub repeat: usize,
}

impl Stream {
    /// Number of launches, repetitions included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.launches.len().saturating_mul(self.repeat)
    }
}
