//! Flows that share resources: who gets which rate, and how long launches take under that.
//!
//! [`fair`] answers for one moment: the weighted max-min fair rates of flows that use several
//! resources. [`simulate`] runs launches over time, each phase a set of activities that are flows.

mod cell;
mod course;
mod division;
pub mod fair;
mod filling;
mod ledger;
mod limit;
pub mod outcome;
mod plan;
mod running;
pub mod scenario;
mod scenario_check;
mod series;
pub mod simulate;
mod stream;
mod sum;
mod tournament;
mod waits;
