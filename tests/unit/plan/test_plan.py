"""What a plan promises: designs that meet the requirements, ranked, and reasons where there are none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridwright.catalog import load_catalog
from gridwright.errors import GridwrightError
from gridwright.model.grid import grid_model
from gridwright.model.predict import predict
from gridwright.plan.candidates import Candidate, Search, market
from gridwright.plan.design import Plan
from gridwright.plan.grid_spec import spec_text
from gridwright.plan.needs import read_needs
from gridwright.plan.search import order, pareto_front, plan_grids, search
from gridwright.providers.aws.section import Aws
from gridwright.spec.load import parse_spec
from tests.support.examples import examples
from tests.support.requirements import spec

CATALOG = load_catalog()


@pytest.fixture(scope="module")
def usual() -> Plan:
    """The plan of the spec that says nothing special."""
    return plan_grids(spec(), CATALOG)


@pytest.fixture(scope="module")
def found() -> list[Candidate]:
    return search(read_needs(spec()), CATALOG).candidates


def test_designs_are_sorted_by_cost_and_meet_the_requirements(usual: Plan) -> None:
    designs = usual.designs
    costs = [design.usd_per_hour for design in designs]
    assert costs == sorted(costs)
    assert len(designs) > 10
    assert all(design.prediction.met for design in designs)
    assert len({design.title for design in designs}) == len(designs)


def test_predict_agrees_with_what_plan_printed_of_a_written_design(usual: Plan) -> None:
    for design in usual.designs:
        again = predict(grid_model(parse_spec(spec_text(design.spec), base=Path("/")), CATALOG))
        assert again.usd_per_hour == pytest.approx(design.usd_per_hour, rel=1e-12)
        assert again.libraries == design.prediction.libraries
        assert again.met is True


def test_the_search_prices_and_rates_candidates_as_predict_does(found: list[Candidate]) -> None:
    from gridwright.plan.grid_spec import design_spec

    needs = read_needs(spec())
    for candidate in found[:: len(found) // 60]:
        prediction = predict(grid_model(design_spec(candidate, needs), CATALOG))
        assert prediction.usd_per_hour == pytest.approx(candidate.usd_per_hour)
        smallest = min(r.bytes_per_s_per_core for each in prediction.libraries for r in each.rates.values())
        assert smallest == pytest.approx(candidate.bytes_per_s_per_core)
        assert prediction.met is True, prediction.findings


AWS = {"zone": "us-east-1a", "ssh_from": ["203.0.113.0/24"]}


@pytest.mark.parametrize("fields", [{}, {"proxy": "http://10.20.0.9:3128"}])
def test_the_search_counts_what_the_cloud_asks_for_beside_as_predict_does(fields: dict[str, str]) -> None:
    from gridwright.plan.grid_spec import design_spec

    needs = read_needs(spec(aws={**AWS, **fields}, scheduler={"type": "slurm"}))
    candidates = search(needs, CATALOG).candidates
    for candidate in candidates[:: len(candidates) // 40]:
        prediction = predict(grid_model(design_spec(candidate, needs), CATALOG))
        assert f"{candidate.usd_per_hour:.8f}" == f"{prediction.usd_per_hour:.8f}"
        assert candidate.cloud_usd_per_hour > 0


def test_a_plan_for_aws_keeps_the_section_and_tells_neighbours_apart_by_their_own_cost(usual: Plan) -> None:
    plain, whole = usual, plan_grids(spec(aws=AWS, scheduler={"type": "slurm"}), CATALOG)
    assert all(design.spec.section(Aws) is not None for design in whole.designs)
    assert whole.designs[0].usd_per_hour > plain.designs[0].usd_per_hour
    assert "the cloud asks for beside" not in str(plain.neighbours)
    budget = f"{plain.designs[0].usd_per_hour:.2f} USD/h"
    assert plan_grids(spec(requirements={"budget": budget}, aws=AWS), CATALOG).designs == (), (
        "all of it has to fit"
    )


def test_the_front_holds_what_nothing_else_beats(found: list[Candidate]) -> None:
    front = pareto_front(found)

    def beats(one: Candidate, other: Candidate) -> bool:
        mine = (-one.usd_per_hour, one.bytes_per_s_per_core, one.resilience)
        theirs = (-other.usd_per_hour, other.bytes_per_s_per_core, other.resilience)
        return all(a >= b for a, b in zip(mine, theirs, strict=True)) and mine != theirs

    for one in front:
        assert not any(beats(other, one) for other in found)
    kept = {(one.usd_per_hour, one.bytes_per_s_per_core, one.resilience) for one in front}
    for one in found[::97]:
        figures = (one.usd_per_hour, one.bytes_per_s_per_core, one.resilience)
        assert figures in kept or any(beats(other, one) for other in front)


def test_the_whole_catalogue_is_searched(found: list[Candidate]) -> None:
    needs = read_needs(spec())
    families = {one.instance.family for one in found}
    assert {"m5n", "r5n", "m6in", "i3en"} <= families
    assert "m5" not in families, "its network passes 78 MB/s per core of 100"
    on_sale = market(CATALOG, needs)
    engine = Search(needs, on_sale)
    for instance, usd in on_sale.instances:
        fits = (
            instance.memory_bytes_per_core >= 8e9 and not instance.accelerators and not instance.burstable_cpu
        )
        assert (instance.family in families) or not fits or not list(engine.candidates(instance, usd))


@pytest.mark.parametrize(
    ("requirements", "libraries", "says"),
    [
        ({"memory_per_core": "4 TB"}, {}, ["requirements.memory_per_core", "the nearest possible is"]),
        ({"cores": 900_000}, {}, ["requirements.cores", "the nearest possible is"]),
        ({"families": {"allow": ["t3"]}}, {}, ["libraries.*.requires", "the nearest possible is"]),
        ({"budget": "1 USD/h"}, {}, ["requirements.budget", "the nearest possible is", "USD/h"]),
        (
            {},
            {"data": {"requires": "90 GB/s/core"}},
            ["libraries.data.requires", "the nearest possible is", "/s/core"],
        ),
    ],
)
def test_the_impossible_is_answered_with_what_binds(
    requirements: dict[str, object], libraries: dict[str, object], says: list[str]
) -> None:
    result = plan_grids(spec(requirements=requirements, libraries=libraries), CATALOG)
    assert result.designs == ()
    for words in says:
        assert any(words in line for line in result.impossible), result.impossible


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"region": "us-esat-1"}, "us-esat-1"),
        ({"provider": "local"}, "provider local sells no nodes"),
        ({"provider": "lab", "scheduler": {"type": "slurm"}}, "provider lab sells no nodes"),
        ({"requirements": {"families": {"forbid": ["m5nn"]}}}, "Did you mean m5n?"),
        ({"requirements": {"families": {"allow": ["m5n"], "forbid": ["m5n"]}}}, "allowed and forbidden"),
        ({"region": "ap-suotheast-1"}, "ap-southeast-1"),
        ({"provider": "oci", "region": "us-east-1"}, "oci region"),
        ({"libraries": {name: {} for name in ("data", "work", "util")}}, "requires a rate"),
    ],
)
def test_what_cannot_be_planned_is_refused(sections: dict[str, object], says: str) -> None:
    if sections.get("provider") == "local":
        sections = {**sections, "region": None}
        sections.pop("region")
    with pytest.raises(GridwrightError) as refused:
        plan_grids(spec(**sections), CATALOG)
    assert says in str(refused.value)


@pytest.mark.thorough
def test_a_grid_of_more_nodes_than_a_spec_can_have_is_not_planned() -> None:
    result = plan_grids(spec(requirements={"cores": 1_000_000}), CATALOG)
    assert result.designs == ()
    assert any("the nearest possible is" in line for line in result.impossible), result.impossible
    many = plan_grids(
        spec(requirements={"cores": 30_000}, libraries={"data": {"requires": "10 MB/s/core"}}), CATALOG
    )
    assert all(design.prediction.nodes <= 10_000 for design in many.designs)


@pytest.mark.parametrize("asked", [{"memory_per_core": "4 TB"}, {"budget": "1 USD/h"}, {"cores": 60_000}])
def test_what_is_called_possible_is(asked: dict[str, object]) -> None:
    (name,) = asked
    (line,) = [each for each in plan_grids(spec(requirements=asked), CATALOG).impossible if name in each]
    found = re.search(r"the nearest possible is ([0-9.]+(?: GiB| USD/h)?)", line)
    assert found, line
    possible = int(found[1]) if name == "cores" else found[1]
    assert plan_grids(spec(requirements={name: possible}), CATALOG).designs, line


def test_metadata_and_temporary_files_are_on_no_spinning_disks(found: list[Candidate]) -> None:
    on_lustre = [one.shared.plain for one in found if one.shared and one.shared.kind == "lustre"]
    assert on_lustre
    assert {plain["mds"]["disks"]["type"] for plain in on_lustre} <= {"gp2", "gp3"}
    assert {one.volumes.type for one in found if one.volumes} <= {"gp2", "gp3"}


def test_a_budget_leaves_out_what_costs_more(usual: Plan) -> None:
    cheapest = usual.designs[0].usd_per_hour
    budget = cheapest * 1.02
    designs = plan_grids(spec(requirements={"budget": f"{budget:.2f} USD/h"}), CATALOG).designs
    assert designs
    assert all(design.usd_per_hour <= budget for design in designs)


def test_work_that_must_outlive_a_node_is_on_no_instance_store() -> None:
    result = search(
        read_needs(spec(requirements={"availability": {"lose_work_with_node": False}})), CATALOG
    ).candidates
    assert result
    assert not any("instance-store" in one.places.values() for one in result)


def test_an_explanation_holds_a_type_against_every_requirement() -> None:
    explanation = plan_grids(spec(), CATALOG, explain="m5.8xlarge").explanation
    assert explanation is not None
    assert explanation.cheapest is None
    rows = {fit.requirement: fit for fit in explanation.fits}
    assert rows["memory per core"].fits == "yes"
    assert rows["data over the network, per core"].fits == "no"
    assert rows["data over the network, per core"].provided == "78.1 MB/s/core"
    good = plan_grids(spec(), CATALOG, explain="m5n.8xlarge").explanation
    assert good is not None and good.cheapest is not None
    assert "more" in good.verdict or "cheapest" in good.verdict
    with pytest.raises(GridwrightError, match=r"m5n.8xlarg"):
        plan_grids(spec(), CATALOG, explain="m5n.8xlarg")


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    cores=st.integers(1, 3000),
    data=st.integers(10, 200),
    work=st.integers(10, 400),
    room=st.integers(1, 400),
    factor=st.floats(0.1, 1.0),
)
def test_every_candidate_meets_whatever_is_required(
    cores: int, data: int, work: int, room: int, factor: float
) -> None:
    from gridwright.plan.grid_spec import design_spec

    wanted = spec(
        requirements={"cores": cores, "peak_factor": factor},
        libraries={
            "data": {"requires": f"{data} MB/s/core", "capacity": f"{room} TiB"},
            "work": {"requires": f"{work} MB/s/core", "capacity": f"{room} TiB"},
        },
    )
    needs = read_needs(wanted)
    candidates = search(needs, CATALOG).candidates
    for candidate in sorted(candidates, key=order)[:: max(1, len(candidates) // 4)]:
        prediction = predict(grid_model(design_spec(candidate, needs), CATALOG))
        assert prediction.met is True, (candidate, prediction.findings)
        assert prediction.cores >= cores


def test_a_plan_says_from_when_its_prices_are_and_what_it_left_out(usual: Plan) -> None:
    from gridwright.plan.document import plan_document
    from gridwright.report.terminal.plan import plan_text

    result = usual
    assert result.basis
    assert result.basis.instances == ("2026-07", "2026-07")
    assert "r9g.8xlarge" in result.without_price
    assert all(CATALOG.instance_price(name, "us-east-1") is None for name in result.without_price)
    assert not [name for name in result.without_price if CATALOG.instance(name).accelerators]
    assert [finding.name for finding in result.findings] == ["old-prices"]
    document = plan_document(result)
    assert document["without_price"] == list(result.without_price)
    assert document["prices"]["storage"][0] == "2024"
    text = " ".join(plan_text(result).split())
    assert f"left out, since no price is known: {len(result.without_price)} types that could be nodes" in text
    assert "prices: instances 2026-07, storage 2024" in text


def test_a_region_of_estimates_is_planned_and_says_so() -> None:
    result = plan_grids(spec(region="eu-west-1"), CATALOG)
    assert result.designs
    assert "estimated-prices" in [finding.name for finding in result.findings]


def test_no_machine_gets_more_volumes_than_it_takes(found: list[Candidate]) -> None:
    from gridwright.catalog.instances import free_attachments

    for one in found:
        if one.volumes:
            assert one.volumes.count <= (free_attachments(one.instance.name) or one.volumes.count)


def test_the_terminal_tells_designs_that_are_met_from_those_within_the_margin(usual: Plan) -> None:
    from gridwright.report.terminal.plan import MARGIN_NOTE, plan_text

    result = usual
    answers = {design.prediction.answer for design in result.designs[:10]}
    assert answers == {"yes", "within the margin"}, "the example has both"
    text = plan_text(result)
    rows = {found[1]: line for line in text.splitlines() if (found := re.match(r"│ (\d+)\*? +│", line))}
    for rank, design in enumerate(result.designs[:10], start=1):
        assert ("within margin" in rows[str(rank)]) == (design.prediction.answer == "within the margin")
    assert MARGIN_NOTE.split(";")[0] in " ".join(text.split())
