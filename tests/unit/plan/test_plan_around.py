"""What a spec to plan for has already is kept, and what is too small of it is named, never replaced."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridwright.catalog import load_catalog
from gridwright.errors import GridwrightError
from gridwright.model.grid import grid_model
from gridwright.model.predict import predict
from gridwright.plan.candidates import market
from gridwright.plan.fits import search_market
from gridwright.plan.grid_spec import design_spec, spec_document, spec_text
from gridwright.plan.needs import read_needs
from gridwright.plan.search import plan_grids
from gridwright.spec.load import parse_spec
from gridwright.spec.model import GridSpec
from tests.support.examples import examples
from tests.support.requirements import BASE, spec

TYPES = (
    "m6in.2xlarge",
    "m6in.large",
    "m5.8xlarge",
    "m5dn.4xlarge",
    "i3en.3xlarge",
    "m5n.24xlarge",
    "r8gb.xlarge",
)
SERVERS = ("c5n.9xlarge", "c8gb.12xlarge", "m5.4xlarge")
WHOLE = load_catalog()
CATALOG = replace(
    WHOLE,
    instances=MappingProxyType({name: WHOLE.instances[name] for name in (*TYPES, *SERVERS, "r8gb.2xlarge")}),
)
MARKET = market(CATALOG, read_needs(spec()))
FSX = {
    "type": "fsx-lustre",
    "path": "/data",
    "deployment": "persistent-2",
    "capacity": "26400 GiB",
    "throughput": "250 MB/s/TiB",
    "stripe_count": -1,
}
NFS = {
    "type": "nfs",
    "path": "/home",
    "server": "filer",
    "export": "/grid",
    "delivers": {"write": "9 GB/s", "read": "9 GB/s"},
}
GP3 = {"type": "local", "path": "/local", "disks": {"type": "gp3", "count": 4, "size": "256 GiB"}}
STORE = {"type": "local", "path": "/store", "disks": {"type": "instance-store"}}
NODES = {"instance": "m6in.2xlarge", "count": 16}


def on(**homes: str) -> dict[str, Any]:
    """The libraries of the base, some of them on file systems by name."""
    return {
        name: {**library, **({"filesystem": homes[name]} if name in homes else {})}
        for name, library in BASE["libraries"].items()
    }


def test_what_is_given_stands_in_every_design_as_it_was_written() -> None:
    wanted = spec(filesystems={"big": FSX}, nodes={"grid": {**NODES, "cores": 4}}, libraries=on(data="big"))
    designs = plan_grids(wanted, CATALOG).designs
    assert len({design.title for design in designs}) > 3, "the rest is searched"
    for design in designs:
        written = parse_spec(spec_text(design.spec), base=Path("/"))
        assert dict(written.nodes) == dict(wanted.nodes)
        assert written.filesystems["big"] == wanted.filesystems["big"]
        assert written.libraries["data"] == wanted.libraries["data"]
        prediction = predict(grid_model(written, CATALOG))
        assert prediction.met is True
        assert prediction.usd_per_hour == pytest.approx(design.usd_per_hour, rel=1e-12)


def test_only_what_is_left_out_of_nodes_is_searched() -> None:
    by_type = plan_grids(spec(nodes={"compute": {"instance": "m6in.2xlarge"}}), CATALOG).designs
    assert {design.spec.nodes["compute"].instance for design in by_type} == {"m6in.2xlarge"}
    assert by_type[0].spec.nodes["compute"].count == 16
    by_count = plan_grids(spec(nodes={"compute": {"count": 16}}), CATALOG).designs
    assert {design.spec.nodes["compute"].count for design in by_count} == {16}
    assert len({design.spec.nodes["compute"].instance for design in by_count}) > 3


def test_a_file_system_that_is_given_costs_what_predict_says_and_one_of_the_site_nothing() -> None:
    free = plan_grids(
        spec(
            filesystems={"home": NFS},
            libraries=on(data="home"),
            requirements={"availability": {"lose_data_with_server": True}},
        ),
        CATALOG,
    ).designs[0]
    nodes = next(cost for cost in free.prediction.costs if "node" in cost.what)
    assert free.usd_per_hour == pytest.approx(nodes.usd_per_hour)
    assert {each.filesystem for each in free.spec.libraries.values()} == {"home"}, (
        "the others live there, too"
    )
    bought = plan_grids(spec(filesystems={"big": FSX}, libraries=on(data="big")), CATALOG).designs[0]
    fsx = 26400 * 0.210 / 730
    assert bought.usd_per_hour > fsx, "its price is a part of the bill"


def test_too_few_cheap_nodes_are_named_and_never_replaced() -> None:
    cheap = plan_grids(spec(nodes={"compute": {"instance": "m6in.large", "count": 4}}), CATALOG)
    assert cheap.designs == ()
    (line,) = cheap.impossible
    assert line.startswith("nodes.compute: 4 x m6in.large have 4 of 64 cores required, 60 too few")
    assert "the nearest change: 64 nodes of this type" in line


def test_nodes_of_a_type_that_never_would_do_are_told_what_they_lack() -> None:
    slow = plan_grids(spec(nodes={"compute": {"instance": "m5.8xlarge", "count": 4}}), CATALOG)
    assert slow.designs == ()
    assert "nodes.compute: data over the network, per core: 78.1 MB/s/core, 100" in slow.impossible[0]
    assert "the nearest change: other nodes" in slow.impossible[0]


def test_nodes_without_a_price_are_said_to_have_none() -> None:
    found = plan_grids(spec(nodes={"compute": {"instance": "hpc6a.48xlarge", "count": 1}}), WHOLE)
    assert found.impossible[0].startswith("nodes.compute: no price of hpc6a.48xlarge is known in us-east-1")


def test_a_file_system_that_is_too_small_is_named_with_what_it_lacks() -> None:
    small = plan_grids(
        spec(filesystems={"big": {**FSX, "capacity": "4800 GiB"}}, libraries=on(data="big")), CATALOG
    )
    assert small.designs == ()
    (line,) = small.impossible
    assert "filesystems.big: " in line
    assert "gives 1.17 GB/s of 6.40 GB/s required, 81.7 % too little for 64 cores" in line
    assert "it holds 4.69 TiB of 20 TiB required for data" in line
    assert "the nearest change: another file system" in line


def test_a_number_of_nodes_that_brings_more_cores_than_a_file_system_serves_is_told_with_both() -> None:
    found = plan_grids(
        spec(filesystems={"big": FSX}, nodes={"compute": {"count": 5}}, libraries=on(data="big")), CATALOG
    )
    assert found.designs == ()
    nodes, filesystem, _ = found.impossible
    assert nodes.startswith("nodes.compute: ")
    assert "filesystems.big: FSx for Lustre persistent-2 of 26400 GiB" in filesystem
    assert "too little for 80 cores" in filesystem, "of 5 nodes, the smallest that have 64 cores have 16 each"


def test_what_loses_data_is_no_place_for_them() -> None:
    lost = plan_grids(spec(filesystems={"home": NFS}, libraries=on(data="home")), CATALOG)
    assert lost.designs == ()
    assert "filesystems.home: data on it are lost with one of its servers" in lost.impossible[0]


def test_two_parts_that_are_too_small_are_both_named() -> None:
    both = plan_grids(
        spec(
            filesystems={"big": {**FSX, "capacity": "4800 GiB"}},
            libraries=on(data="big"),
            nodes={"compute": {**NODES, "count": 3}},
        ),
        CATALOG,
    )
    nodes, filesystem, whole = both.impossible
    assert nodes.startswith("nodes.compute: 3 x m6in.2xlarge have 12 of 64")
    assert filesystem.startswith("filesystems.big: ")
    assert whole.startswith("with nothing kept: ")


def test_a_spec_with_everything_given_is_answered_like_predict() -> None:
    homes = on(data="big", work="local", util="local")
    whole = spec(filesystems={"big": FSX, "local": GP3}, libraries=homes, nodes={"compute": NODES})
    found = plan_grids(whole, CATALOG)
    (design,) = found.designs
    again = predict(grid_model(whole, CATALOG))
    assert design.prediction.libraries == again.libraries
    assert design.usd_per_hour == again.usd_per_hour
    changes = [each.change for each in found.neighbours]
    assert changes == [
        f"{part} not kept" for part in ("nodes.compute", "filesystems.big", "filesystems.local")
    ]


def test_new_file_systems_take_no_name_of_a_kept_one() -> None:
    wanted = spec(filesystems={"volumes": {**FSX, "path": "/local"}}, libraries=on(data="volumes"))
    for design in plan_grids(wanted, CATALOG).designs:
        assert design.spec.filesystems["volumes"] == wanted.filesystems["volumes"]
        paths = [each.path for each in design.spec.filesystems.values()]
        assert len(set(paths)) == len(paths)


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"nodes": {"compute": {"instance": "m5n.9xlarge", "count": 2}}}, "m5n.9xlarge"),
        ({"nodes": {"a": NODES, "b": NODES}}, "this is a second one"),
        ({"filesystems": {"big": {**FSX, "capacity": "1300 GiB"}}, "libraries": on(data="big")}, "1300"),
        (
            {
                "filesystems": {"n": {key: NFS[key] for key in NFS if key != "delivers"}},
                "libraries": on(data="n"),
            },
            "delivers",
        ),
        ({"libraries": {"data": {"requires": "20 MB/s/core", "layout": 4}}}, "libraries.data.layout"),
    ],
)
def test_what_cannot_be_planned_with_is_refused_at_its_place(sections: dict[str, Any], says: str) -> None:
    with pytest.raises(GridwrightError) as caught:
        plan_grids(spec(**sections), CATALOG)
    assert says in str(caught.value)


SYSTEMS: list[Any] = [
    FSX,
    {**FSX, "capacity": "9600 GiB", "stripe_count": 1},
    {**FSX, "deployment": "scratch-2", "throughput": "200 MB/s/TiB", "capacity": "12000 GiB"},
    NFS,
    {**NFS, "delivers": {"write": "2 GB/s", "read": "5 GB/s"}},
    GP3,
    {**GP3, "disks": {"type": "gp3", "count": 9, "size": "2 TiB", "throughput": "500 MiB/s"}},
    STORE,
    {
        "type": "lustre",
        "path": "/lustre",
        "oss": {
            "instance": "c5n.9xlarge",
            "count": 4,
            "disks": {"type": "gp3", "count": 8, "size": "1 TiB", "throughput": "250 MiB/s"},
        },
        "mds": {"instance": "m5.4xlarge", "disks": {"type": "gp3", "size": "100 GiB"}},
        "stripe_count": -1,
    },
]


@st.composite
def whole_grids(draw: st.DrawFn) -> GridSpec:
    """Grids in which everything is given, good and bad ones."""
    systems = draw(st.lists(st.sampled_from(SYSTEMS), min_size=1, max_size=3, unique_by=id))
    names = [f"f{number}" for number in range(len(systems))]
    homes = {library: draw(st.sampled_from(names)) for library in ("data", "work", "util")}
    of_lustre = {name for name, each in zip(names, systems, strict=True) if "lustre" in each["type"]}
    return spec(
        requirements={
            "cores": draw(st.sampled_from((4, 16, 32, 64))),
            "memory_per_core": draw(st.sampled_from(("4 GB", "8 GB"))),
            "availability": {
                "lose_data_with_server": draw(st.booleans()),
                "lose_work_with_node": draw(st.booleans()),
            },
        },
        nodes={
            "compute": {
                "instance": draw(st.sampled_from(TYPES)),
                "count": draw(st.sampled_from((1, 4, 16, 40))),
            }
        },
        filesystems={name: {**each, "path": f"/{name}"} for name, each in zip(names, systems, strict=True)},
        libraries={
            name: {
                "requires": f"{draw(st.sampled_from((5, 20, 40, 100)))} MB/s/core",
                "capacity": f"{draw(st.sampled_from((1, 4, 12)))} TiB",
                "filesystem": home,
                **({"layout": draw(st.sampled_from(("auto", 1, 2, -1)))} if home in of_lustre else {}),
            }
            for name, home in homes.items()
        },
    )


@settings(max_examples=examples(400), deadline=None, suppress_health_check=list(HealthCheck))
@given(whole_grids())
def test_the_search_keeps_a_whole_grid_exactly_when_predict_says_that_it_meets_all(grid: GridSpec) -> None:
    try:
        prediction = predict(grid_model(grid, CATALOG))
    except GridwrightError:
        prediction = None  # An instance store that the nodes do not have.
    found = search_market(read_needs(grid), MARKET).candidates
    assert bool(found) is (prediction is not None and prediction.met is True)
    for one in found:
        assert prediction is not None
        assert prediction.usd_per_hour == pytest.approx(one.usd_per_hour)
        rates = [
            each.bytes_per_s_per_core for library in prediction.libraries for each in library.rates.values()
        ]
        assert one.bytes_per_s_per_core == pytest.approx(min(rates))


@settings(max_examples=examples(240), deadline=None, suppress_health_check=list(HealthCheck))
@given(whole_grids(), st.sets(st.sampled_from(("data", "work", "util", "count", "nodes"))), st.randoms())
def test_what_is_searched_beside_what_is_kept_is_predicted_as_it_was_costed(
    whole: GridSpec, left_out: set[str], chance: random.Random
) -> None:
    document = spec_document(whole)
    for name in left_out & {"data", "work", "util"}:
        del document["libraries"][name]["filesystem"]
        if document["libraries"][name].get("layout") != "auto":
            document["libraries"][name].pop("layout", None)
    if "count" in left_out:
        del document["nodes"]["compute"]["count"]
    if "nodes" in left_out:
        del document["nodes"]
    grid = GridSpec.model_validate(document, context={"base": Path("/")})
    needs = read_needs(grid)
    found = search_market(needs, MARKET).candidates
    for one in chance.sample(found, min(3, len(found))):
        design = design_spec(one, needs)
        assert {name: design.filesystems[name] for name in grid.filesystems} == dict(grid.filesystems)
        prediction = predict(grid_model(design, CATALOG))
        assert prediction.met is True, prediction.findings
        assert prediction.usd_per_hour == pytest.approx(one.usd_per_hour)
        rates = [
            each.bytes_per_s_per_core for library in prediction.libraries for each in library.rates.values()
        ]
        assert one.bytes_per_s_per_core == pytest.approx(min(rates))
