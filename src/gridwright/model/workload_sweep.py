"""How many jobs a grid that may not exist would carry at once: the sweep of the workload, simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from gridwright.model.grid import GridModel
from gridwright.model.margins import margin_of
from gridwright.model.workload import Replay, WorkloadMatrix, simulate_workload
from gridwright.model.workload_figures import WorkloadPrediction
from gridwright.runs.profiles import Profiles
from gridwright.runs.records import FindingRecord
from gridwright.runs.stream_sweep.record import SweepStep
from gridwright.runs.stream_sweep.rotation import rotations
from gridwright.runs.stream_sweep.rule import SweepRule
from gridwright.runs.workload_judge import judged_ratio


@dataclass(slots=True)
class SimulatedSteps:
    """Runs the steps: every stream has all launches, by their names, and streams take turns on the nodes.

    `where` names the profiles in errors.
    """

    grid: GridModel
    name: str
    launches: Sequence[str]
    profiles: Profiles
    replay: Replay
    rule: SweepRule
    where: str
    _predictions: dict[int, WorkloadPrediction] = field(default_factory=dict)

    def measure(self, streams: int, attempt: int) -> SweepStep:
        """Simulate so many streams. Raises GridwrightError as `simulate_workload` does."""
        matrix = WorkloadMatrix(self.name, rotations(self.launches, streams))
        prediction = simulate_workload(self.grid, matrix, self.profiles, self.replay, where=self.where)
        self._predictions[streams] = prediction
        return predicted_step(prediction, self.rule, streams=streams, attempt=attempt)

    def findings_of(self, streams: int | None) -> tuple[list[FindingRecord], list[str]]:
        """Findings and assumptions of the step with so many streams, or of the first."""
        prediction = self._predictions[streams or 1]
        findings = [FindingRecord.model_validate(asdict(finding)) for finding in prediction.findings]
        margin = margin_of("workload")
        said = (
            f"margin of error of CPU/real: {margin.p90:.0%}, not exceeded on nine in ten of {margin.count} "
            "published figures"
        )
        return findings, [said, *prediction.assumptions]


def predicted_step(
    prediction: WorkloadPrediction, rule: SweepRule, *, streams: int, attempt: int
) -> SweepStep:
    """What a predicted run amounts to as a step."""
    number = len(prediction.launches)
    tests = {
        test: judged_ratio(
            (launch.cpu_s, launch.real_s) for launch in prediction.launches if launch.test == test
        )
        for test in rule.tests
    }
    return SweepStep(
        streams=streams,
        attempt=attempt,
        status="complete",
        launches=number,
        wall_s=prediction.elapsed_s,
        real_s_mean=prediction.real_s / number if number else None,
        ratio=judged_ratio((launch.cpu_s, launch.real_s) for launch in prediction.launches),
        tests={test: ratio for test, ratio in tests.items() if ratio is not None},
        shares=dict(prediction.shares),
        resources={name: share for name, share in prediction.resources.items() if name is not None},
    )
