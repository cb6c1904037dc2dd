//! The flow solver for Python; see `gridwright.model.chains`.

use gridwright_flow::fair;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Rates, and the resource that binds each flow.
type Solution = (Vec<f64>, Vec<Option<usize>>);

/// A flow as Python's dataclass has it.
#[derive(FromPyObject)]
pub(crate) struct Flow {
    uses: Vec<(i64, f64)>,
    weight: f64,
    cap: f64,
}

/// Names a number that no resource, class or the like can have; the crate names those too high.
pub(crate) fn index(what: &str, number: i64) -> PyResult<usize> {
    usize::try_from(number)
        .map_err(|_| PyValueError::new_err(format!("{what} {number}: 0 is the first")))
}

impl Flow {
    fn convert(self, number: usize) -> PyResult<fair::Flow> {
        let uses = self.uses.into_iter().map(|(resource, coefficient)| {
            let what = format!("flow {number} uses resource");
            Ok((index(&what, resource)?, coefficient))
        });
        Ok(fair::Flow {
            uses: uses.collect::<PyResult<_>>()?,
            weight: self.weight,
            cap: self.cap,
        })
    }
}

/// Weighted max-min fair rates; see `gridwright.model.chains.solve`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // Python hands over what it extracted
pub(crate) fn solve_flows(
    py: Python<'_>,
    capacities: Vec<f64>,
    flows: Vec<Flow>,
) -> PyResult<Solution> {
    let numbered = flows.into_iter().enumerate();
    let flows: Vec<fair::Flow> = numbered
        .map(|(number, flow)| flow.convert(number))
        .collect::<PyResult<_>>()?;
    let solution = py
        .detach(|| fair::solve(&capacities, &flows))
        .map_err(PyValueError::new_err)?;
    Ok((solution.rates, solution.bound_by))
}
