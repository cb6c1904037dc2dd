"""Predicted rates follow from the listed limits of what stands on the way, and from nothing else."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.catalog import load_catalog
from gridwright.errors import GridwrightError
from gridwright.model.document import prediction_document
from gridwright.model.grid import grid_model
from gridwright.model.predict import predict
from gridwright.model.prediction import Prediction
from gridwright.plan.needs import read_needs, readings
from gridwright.report.designs.tables import together_table
from gridwright.spec.load import parse_spec
from gridwright.spec.model import GridSpec
from gridwright.spec.warnings import PeakFactor, peak_factor_of, warn
from gridwright.units import Rate, format_rate
from tests.support.examples import examples
from tests.support.requirements import spec as planned

CATALOG = load_catalog()
FSX = {
    "type": "fsx-lustre",
    "path": "/fsx",
    "deployment": "persistent-2",
    "capacity": "48000 GiB",
    "throughput": "250 MB/s/TiB",
    "stripe_count": -1,
}
LIBRARIES = {
    name: {"filesystem": "fsx", "requires": f"{rate} MB/s/core"}
    for name, rate in (("data", 100), ("work", 125), ("util", 125))
}


def spec(**sections: Any) -> GridSpec:
    document = {
        "name": "test",
        "provider": "aws",
        "region": "us-east-1",
        "nodes": {"compute": {"instance": "m5n.8xlarge", "count": 4}},
        "filesystems": {"fsx": FSX},
        "libraries": LIBRARIES,
        **sections,
    }
    return GridSpec.model_validate(document, context={"base": Path("/")})


def predicted(streams: int | None = None, **sections: Any) -> Prediction:
    return predict(grid_model(spec(**sections), CATALOG), streams)


def test_the_tightest_of_network_and_file_system_binds() -> None:
    data = predicted().libraries[0].rates["write"]
    # 48000 GiB are 46.875 TiB at 250 MB/s; four nodes of 25 Gbit/s pass 12.5 GB/s.
    assert data.bytes_per_s == pytest.approx(46.875 * 250e6)
    assert data.bound_by.resource == "fsx.throughput"
    assert data.next_bound is not None
    assert (data.next_bound.resource, data.next_bound.bytes_per_s) == ("node.network-out", 12.5e9)
    assert data.bytes_per_s_per_core == pytest.approx(data.bytes_per_s / 64)
    few = predicted(nodes={"compute": {"instance": "m5n.8xlarge", "count": 1}}).libraries[0].rates["read"]
    assert few.bound_by.resource == "node.network-in"


def test_a_burst_is_told_apart_and_judges_nothing() -> None:
    small = predicted(nodes={"compute": {"instance": "m5n.large", "count": 1}})
    write = small.libraries[0].rates["write"]
    assert write.burst is not None
    assert write.burst.bytes_per_s > 5 * write.bytes_per_s
    assert write.burst.seconds == 600, "paper 4632-2020 measured how long (002.t2.m5n.large)"
    poor = predicted(nodes={"compute": {"instance": "m5.large", "count": 1}}).libraries[0]
    burst = poor.rates["write"].burst
    assert burst is not None
    assert burst.bytes_per_s > 125e6, "its one core would be served while the burst lasts"
    assert poor.met is False


def test_one_stripe_holds_a_stream_to_one_target() -> None:
    one = predicted(streams=1, filesystems={"fsx": {**FSX, "stripe_count": 1}}).libraries[0].rates["write"]
    target = 1200 / 1024 * 250e6
    assert one.bound_by.resource == "streams"
    assert one.bytes_per_s == pytest.approx(4 * target)
    wide = predicted(streams=64, filesystems={"fsx": {**FSX, "stripe_count": 1}}).libraries[0].rates["write"]
    assert wide.bound_by.resource == "fsx.throughput"


def test_volume_traffic_shares_the_network_of_servers_without_a_way_of_their_own() -> None:
    oss = {"instance": "c3.8xlarge", "count": 3, "disks": {"type": "gp2", "count": 8, "size": "750 GiB"}}
    lustre = {"type": "lustre", "path": "/l", "oss": oss, "stripe_count": -1}
    data = predicted(filesystems={"fsx": lustre}).libraries[0].rates["write"]
    # 10 Gbit/s in a placement group; every byte passes twice; 86 % of it reaches files.
    assert data.bytes_per_s == pytest.approx(3 * 1250e6 / 2 * 0.86)
    assert data.bound_by.resource == "fsx.oss.network"
    own = {**lustre, "oss": {**oss, "instance": "c5n.9xlarge"}}
    wider = predicted(filesystems={"fsx": own}).libraries[0].rates["write"]
    assert wider.bytes_per_s > 1.5 * data.bytes_per_s


def test_all_libraries_at_once_share_what_binds() -> None:
    prediction = predicted()
    together = prediction.together
    assert together is not None
    assert together.share["write"] == pytest.approx(46.875 * 250e6 / (350e6 * 64))
    assert together.required_share == pytest.approx(125 / 350, abs=1e-3)
    assert together.met
    apart = {
        "fsx": FSX,
        "local": {"type": "local", "path": "/scratch", "disks": {"type": "instance-store"}},
    }
    split = {
        name: {**library, "filesystem": "fsx" if name == "data" else "local"}
        for name, library in LIBRARIES.items()
    }
    nodes = {"compute": {"instance": "i3en.12xlarge", "count": 3}}
    moved = predicted(filesystems=apart, libraries=split, nodes=nodes).together
    assert moved is not None and moved.share["write"] > together.share["write"]


def test_what_the_spec_says_the_disks_deliver_needs_no_catalogue() -> None:
    document = spec(
        provider="local",
        nodes={"compute": {"count": 1}},
        filesystems={
            "fsx": {"type": "local", "path": "/d", "delivers": {"write": "400 MB/s", "read": "600 MB/s"}}
        },
    )
    prediction = predict(grid_model(document, CATALOG))
    rates = prediction.libraries[0].rates
    assert (rates["write"].bytes_per_s, rates["read"].bytes_per_s) == (400e6, 600e6)
    assert prediction.usd_per_hour is None


def test_disks_of_which_nothing_is_known_are_refused_with_a_remedy() -> None:
    text = "filesystems:\n  disk: {type: local, path: /data}\n"
    with pytest.raises(GridwrightError) as refused:
        predict(grid_model(parse_spec(text, base=Path("/")), CATALOG))
    (problem, *_) = refused.value.problems
    assert problem.where == "grid.yaml:2:9"
    assert "--calibrate" in (problem.remedy or "")


def test_all_wrong_figures_are_reported_at_once_and_in_their_place() -> None:
    text = """
provider: aws
region: us-east-1
nodes: {compute: {instance: m5n.8xlarg}}
filesystems:
  fsx: {type: fsx-lustre, path: /fsx, capacity: 3 TiB, throughput: 300 MB/s/TiB}
"""
    with pytest.raises(GridwrightError) as refused:
        grid_model(parse_spec(text, base=Path("/")), CATALOG)
    assert [problem.field for problem in refused.value.problems] == ["nodes.compute.instance"]
    fixed = text.replace("m5n.8xlarg}", "m5n.8xlarge}")
    with pytest.raises(GridwrightError) as refused:
        grid_model(parse_spec(fixed, base=Path("/")), CATALOG)
    fields = {problem.field: problem.remedy for problem in refused.value.problems}
    assert "nearest is 250" in (fields["filesystems.fsx.throughput"] or "")
    assert "2400 GiB or 4800 GiB" in (fields["filesystems.fsx.capacity"] or "")


def test_capacity_cores_memory_and_budget_are_held_against_the_requirements() -> None:
    libraries = {name: {**library, "capacity": "40 TiB"} for name, library in LIBRARIES.items()}
    wants = {"cores": 100, "memory_per_core": "16 GB", "budget": "1 USD/h"}
    prediction = predicted(libraries=libraries, requirements=wants)
    assert {"capacity-short", "cores-short", "memory-short", "over-budget"} <= {
        finding.name for finding in prediction.findings
    }
    assert prediction.met is False


@pytest.mark.parametrize(
    ("wants", "finding"),
    [
        ({"architecture": "arm64"}, "other-architecture"),
        ({"families": {"forbid": ["m5n"]}}, "family-not-allowed"),
        ({"families": {"allow": ["r5n"]}}, "family-not-allowed"),
        ({"budget": "1 USD/h"}, "over-budget"),
    ],
)
def test_what_plan_would_not_choose_misses_in_predict_too(wants: dict[str, Any], finding: str) -> None:
    prediction = predicted(requirements={"cores": 64, **wants})
    assert [each.name for each in prediction.findings] == [finding]
    assert prediction.met is False


@pytest.mark.parametrize(
    ("filesystem", "library", "may", "missed"),
    [
        ({"type": "local", "path": "/d", "disks": {"type": "instance-store"}}, "data", {}, True),
        ({**FSX, "deployment": "scratch-2", "throughput": "200 MB/s/TiB"}, "data", {}, True),
        (
            {**FSX, "deployment": "scratch-2", "throughput": "200 MB/s/TiB"},
            "data",
            {"lose_data_with_server": True},
            False,
        ),
        ({"type": "local", "path": "/d", "disks": {"type": "instance-store"}}, "work", {}, False),
        (
            {"type": "local", "path": "/d", "disks": {"type": "instance-store"}},
            "work",
            {"lose_work_with_node": False},
            True,
        ),
    ],
)
def test_what_must_outlive_a_machine_does_or_misses(
    filesystem: dict[str, Any], library: str, may: dict[str, bool], missed: bool
) -> None:
    prediction = predicted(
        nodes={"compute": {"instance": "m5dn.8xlarge", "count": 2}},
        filesystems={"fsx": filesystem},
        libraries={library: {"filesystem": "fsx", "requires": "10 MB/s/core"}},
        requirements={"cores": 16, "availability": may},
    )
    assert ("not-durable" in {each.name for each in prediction.findings}) is missed
    assert prediction.met is not missed


def test_a_burst_that_is_not_used_up_lasts_longer() -> None:
    volumes = {"type": "st1", "count": 2, "size": "2 TiB"}
    disks = {"fsx": {"type": "local", "path": "/d", "disks": volumes}}
    (data,) = predicted(
        nodes={"compute": {"instance": "m5n.8xlarge", "count": 1}},
        filesystems=disks,
        libraries={"data": {"filesystem": "fsx"}},
    ).libraries
    burst = data.rates["write"].burst
    assert burst is not None and burst.seconds is not None
    # 2 TiB of credits in each volume, spent at what the node passes less what comes in meanwhile.
    steady = data.rates["write"].bytes_per_s
    assert burst.bound_by.resource == "node.volume-bandwidth"
    assert burst.seconds == pytest.approx(2 * 2 * 2**40 / (850e6 - steady), rel=0.01)


def test_nothing_required_is_nothing_judged() -> None:
    libraries = {name: {"filesystem": "fsx"} for name in LIBRARIES}
    prediction = predicted(libraries=libraries)
    assert prediction.met is None
    assert {each.met for each in prediction.libraries} == {None}


def test_the_bill_has_every_part() -> None:
    prediction = predicted()
    assert prediction.usd_per_hour == pytest.approx(4 * 1.904 + 48000 * 0.21 / 730)
    assert sum(cost.usd_per_hour or math.nan for cost in prediction.costs) == prediction.usd_per_hour


def test_a_missing_price_is_a_finding_and_no_cost() -> None:
    prediction = predicted(region="af-south-1")
    assert prediction.usd_per_hour is None
    assert "no-price" in {finding.name for finding in prediction.findings}
    assert prediction.met is True, "a price that is not known is no requirement missed"


def test_the_document_has_the_keys_of_the_contract() -> None:
    document = prediction_document(predicted())
    assert {"libraries", "cost_usd_per_hour", "findings", "met"} <= document.keys()
    for library in document["libraries"]:
        assert {"library", "requires_bytes_per_s_per_core", "met", "write", "read"} <= library.keys()
        for operation in ("write", "read"):
            keys = {"bytes_per_s", "bytes_per_s_per_node", "bytes_per_s_per_core", "bound_by", "next_bound"}
            assert keys <= library[operation].keys()


@given(count=st.integers(1, 500), streams=st.integers(1, 200))
def test_more_nodes_never_lower_the_whole_nor_raise_a_core(count: int, streams: int) -> None:
    one = predicted(streams, nodes={"compute": {"instance": "m5n.8xlarge", "count": count}})
    more = predicted(streams, nodes={"compute": {"instance": "m5n.8xlarge", "count": count + 1}})
    for before, after in zip(one.libraries, more.libraries, strict=True):
        for operation in ("write", "read"):
            old, new = before.rates[operation], after.rates[operation]
            assert new.bytes_per_s >= old.bytes_per_s * (1 - 1e-12)
            assert new.bytes_per_s_per_core <= old.bytes_per_s_per_core * (1 + 1e-12)


NFS = {"type": "nfs", "path": "/g", "server": "nfs1", "export": "/srv"}


def test_an_nfs_server_is_shared_by_all_nodes_behind_the_network_of_each() -> None:
    slow = {**NFS, "delivers": {"write": "1 GB/s", "read": "20 GB/s"}}
    rates = predicted(filesystems={"fsx": slow}).libraries[0].rates
    assert (rates["write"].bytes_per_s, rates["write"].bound_by.resource) == (1e9, "fsx.server-write")
    # Four nodes of 25 Gbit/s pass 12.5 GB/s, less than the server.
    assert (rates["read"].bytes_per_s, rates["read"].bound_by.resource) == (12.5e9, "node.network-in")


@pytest.mark.parametrize(
    ("filesystem", "reason"),
    [
        (NFS, "nobody says what its server delivers (write and read; limits: says it)"),
        (
            {**NFS, "delivers": {"write": "1 GB/s"}},
            "nobody says what its server delivers (read; limits: says it)",
        ),
        (
            {"type": "lustre", "path": "/l", "source": "10.0.0.1@tcp:/scratch"},
            "nothing is known of its servers (oss: describes them, limits: what they deliver)",
        ),
    ],
)
def test_servers_of_which_nothing_is_known_are_said_so(filesystem: dict[str, Any], reason: str) -> None:
    with pytest.raises(GridwrightError) as caught:
        predicted(filesystems={"fsx": filesystem})
    assert reason in str(caught.value)


# What libraries require at once: `check`, `plan` and `predict` say the same of the same spec.

GRID = """name: shared
provider: local
nodes: {compute: {count: 1, cores: 4, memory: 64 GiB}}
filesystems:
  disk: {type: local, path: /fast, delivers: {write: %(delivers)s, read: %(delivers)s}}
libraries:
  data: {filesystem: disk, requires: %(data)s MB/s/core}
  work: {filesystem: disk, requires: %(work)s MB/s/core}
  util: {filesystem: disk, requires: %(util)s MB/s/core}
requirements: {cores: 4, peak_factor: %(factor)s, availability: {lose_data_with_server: true}}
"""


def shared(rates: tuple[int, int, int], factor: float, delivers_mb: float = 1) -> GridSpec:
    data, work, util = rates
    values = {
        "data": data,
        "work": work,
        "util": util,
        "factor": factor,
        "delivers": f"{delivers_mb:.0f} MB/s",
    }
    return parse_spec(GRID % values, base=Path("/"))


@settings(max_examples=examples(80), deadline=None)
@given(
    rates=st.tuples(*[st.integers(20, 900)] * 3),
    factor=st.sampled_from([0.05, 0.2, 0.357, 0.5, 0.6, 0.71, 0.9, 1.0]),
)
def test_disks_that_deliver_what_check_says_are_enough_for_predict_and_less_is_not(
    rates: tuple[int, int, int], factor: float
) -> None:
    required = peak_factor_of(shared(rates, factor)).required([rate * 1e6 for rate in rates])
    (finding,) = [each for each in warn(shared(rates, factor)) if each.name == "shared-disks"]
    assert f"must deliver {format_rate(required, per_core=True)}," in finding.text
    enough = math.ceil(required * 4 / 1e6)
    assert predict(grid_model(shared(rates, factor, enough), CATALOG)).met is True
    assert (
        predict(grid_model(shared(rates, factor, math.floor(required * 4 / 1e6 * 0.98)), CATALOG)).met
        is False
    )
    libraries = {
        name: {"requires": f"{rate} MB/s/core", "capacity": "1 TiB"}
        for name, rate in zip(("data", "work", "util"), rates, strict=True)
    }
    needs = read_needs(planned(libraries=libraries, requirements={"peak_factor": factor}))
    assert needs.rate(needs.libraries) == required


def test_the_sum_is_required_at_factor_one_alone() -> None:
    """275 MB/s/core is the sum of 75, 100 and 100: it is not required where they do not all peak together."""
    rates = [75e6, 100e6, 100e6]
    assert PeakFactor(1.0, "").required(rates) == 275e6
    assert PeakFactor(0.71, "").required(rates) == pytest.approx(195.25e6)
    assert PeakFactor(0.1, "").required(rates) == 100e6
    assert PeakFactor(0.1, "").required([]) == 0


@pytest.mark.parametrize(
    ("factor", "says"), [(1, "all may peak together"), (0.99, "they do not all peak together")]
)
def test_libraries_that_may_all_peak_together_are_not_said_not_to(factor: float, says: str) -> None:
    other = {"all may peak together", "they do not all peak together"} - {says}
    spoken = [
        next(
            each.value
            for each in readings(read_needs(planned(requirements={"peak_factor": factor})))
            if each.what == "all libraries at once"
        ),
        str(together_table(predict(grid_model(shared((75, 100, 100), factor), CATALOG)).together)),
        str(warn(shared((75, 100, 100), factor))),
    ]
    for text in spoken:
        assert says in text
        assert not any(each in text for each in other)


def test_a_rate_in_a_finding_is_one_that_can_be_written_into_a_spec() -> None:
    (finding,) = [each for each in warn(shared((75, 125, 125), 0.357)) if each.name == "shared-disks"]
    written = finding.remedy.rpartition("delivers ")[2]
    assert Rate.parse(written, per_core=True).bytes_per_s == 125e6
