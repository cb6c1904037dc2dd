"""A prediction with measured rates: what iotest found on a node takes the place of what is listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.catalog import load_catalog
from gridwright.errors import GridwrightError
from gridwright.model.calibrate import calibrated, node_rates
from gridwright.model.chains import Flow, solve
from gridwright.model.grid import grid_model
from gridwright.model.predict import predict
from gridwright.runs.directory import LoadedRun, RunDirectory, load_run
from gridwright.spec.load import parse_spec
from tests.support.records import library_event, phase_event, result_event, take

CATALOG = load_catalog()
TWO = """
filesystems:
  disk: {type: local, path: /data}
libraries:
  data: {requires: 100 MB/s/core}
  work: {requires: 100 MB/s/core}
"""


def run_of(directory: Path, mixed: dict[str, float] | None = None, **per_core: dict[str, float]) -> LoadedRun:
    """A run that measured these libraries on a node of two cores: bytes per second per core by operation.

    `mixed` are the rates of both directions in a phase that moved both at once.
    """
    run = RunDirectory.create(directory, "measured", command=["gridwright", "iotest"], what=["iotest"])
    for library, rates in per_core.items():
        take(run, library_event(library))
        for operation, rate in rates.items():
            take(run, phase_event(operation))
            take(run, result_event(operation, per_core=rate))
        if mixed:
            take(run, phase_event("mixed"))
            both = {"read_bytes_per_s": 2 * mixed["read"], "write_bytes_per_s": 2 * mixed["write"]}
            take(run, result_event("mixed", per_core=mixed["read"] + mixed["write"], **both))
    take(run, {"event": "done", "status": "complete", "exit": 0})
    run.finish("complete")
    return load_run(run.path)


def test_measured_rates_are_predicted_for_the_same_node(tmp_path: Path) -> None:
    run = run_of(tmp_path, data={"write": 80e6, "read": 150e6}, work={"write": 120e6, "read": 150e6})
    model = calibrated(grid_model(parse_spec(TWO, base=tmp_path), CATALOG), run)
    cores = run.run.host.physical_cores
    prediction = predict(model)
    rates = {each.library: each.rates for each in prediction.libraries}
    assert rates["data"]["write"].bytes_per_s == pytest.approx(160e6)
    assert rates["work"]["read"].bytes_per_s == pytest.approx(300e6)
    assert prediction.cores == cores
    assert rates["data"]["write"].bound_by.source.startswith("run ")


def test_one_lucky_repeat_is_not_predicted(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "repeated", command=["gridwright", "iotest"], what=["iotest"])
    for number, per_core in enumerate((80e6, 82e6, 500e6), start=1):
        take(run, {"event": "repeat", "number": number, "of": 3})
        take(run, library_event())
        take(run, result_event("write", per_core=per_core))
    run.finish("complete")
    (library,) = found.libraries if (found := load_run(run.path).iotest) else []
    assert node_rates(library) == {"write": 2 * 82e6}


def test_libraries_on_one_file_system_share_what_was_measured(tmp_path: Path) -> None:
    run = run_of(tmp_path, data={"write": 100e6, "read": 100e6}, work={"write": 100e6, "read": 100e6})
    together = predict(calibrated(grid_model(parse_spec(TWO, base=tmp_path), CATALOG), run)).together
    assert together is not None
    measured, demanded = 200e6, 2 * 100e6 * run.run.host.physical_cores
    assert together.share["write"] == pytest.approx(measured / demanded)


def test_a_mixed_phase_tells_what_both_directions_get_together(tmp_path: Path) -> None:
    text = TWO.replace("  work: {requires: 100 MB/s/core}\n", "")
    alone = {"write": 50e6, "read": 60e6}
    (route,) = _reads_and_writes(run_of(tmp_path / "a", data=alone), text, tmp_path)
    # A byte written takes 120/100 of what a byte read takes, and both flows get the same rate.
    assert route == pytest.approx(2 * 120e6 / 2.2), "without one, both share what the better direction got"
    run = run_of(tmp_path / "b", data=alone, mixed={"read": 45e6, "write": 45e6})
    (route,) = _reads_and_writes(run, text, tmp_path)
    assert route == pytest.approx(180e6)


def _reads_and_writes(run: LoadedRun, text: str, base: Path) -> list[float]:
    """What one node gets of each library when it writes and reads as fast as it can, in bytes/s."""
    model = calibrated(grid_model(parse_spec(text, base=base), CATALOG), run)
    found = []
    for routes in model.alike.routes.values():
        names = sorted({use.resource.name for route in routes.values() for use in route.uses})
        capacity = {use.resource.name: use.resource.bytes_per_s for r in routes.values() for use in r.uses}
        flows = [
            Flow(tuple((names.index(use.resource.name), use.coefficient) for use in route.uses))
            for route in routes.values()
        ]
        found.append(sum(solve([capacity[name] for name in names], flows).rates))
    return found


def test_servers_stay_as_listed(tmp_path: Path) -> None:
    text = """
provider: aws
region: us-east-1
nodes: {compute: {instance: m5n.8xlarge, count: 4}}
filesystems:
  fsx: {type: fsx-lustre, path: /fsx, capacity: 2400 GiB, throughput: 125 MB/s/TiB, stripe_count: -1}
libraries:
  data: {requires: 100 MB/s/core}
"""
    run = run_of(tmp_path, data={"write": 200e6, "read": 10e6})
    (data,) = predict(calibrated(grid_model(parse_spec(text, base=tmp_path), CATALOG), run)).libraries
    assert data.rates["write"].bound_by.resource == "fsx.throughput"
    assert data.rates["read"].bytes_per_s == pytest.approx(4 * 20e6)


def test_a_run_without_the_libraries_is_refused(tmp_path: Path) -> None:
    run = run_of(tmp_path, util={"write": 100e6, "read": 100e6})
    with pytest.raises(GridwrightError, match="no write or read rate") as refused:
        calibrated(grid_model(parse_spec(TWO, base=tmp_path), CATALOG), run)
    assert "util" in str(refused.value)


def test_a_library_that_was_not_measured_stays_unknown(tmp_path: Path) -> None:
    run = run_of(tmp_path, data={"write": 100e6, "read": 100e6})
    with pytest.raises(GridwrightError, match="work"):
        predict(calibrated(grid_model(parse_spec(TWO, base=tmp_path), CATALOG), run))
