"""Plans on Oracle Cloud: Scale, Lustre on servers of one's own and Oracle's managed Lustre, side by side."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.catalog import load_catalog
from gridwright.filesystems import kind_of
from gridwright.filesystems.offers import OnSale, VolumeMarket, volume_market
from gridwright.filesystems.scale.rates import MOST_SERVERS, ScaleOffer, file_share, scale_offers
from gridwright.model.grid import check_against_catalogue, grid_model
from gridwright.model.predict import predict
from gridwright.plan.candidates import Candidate
from gridwright.plan.grid_spec import design_spec, spec_text
from gridwright.plan.needs import Needs, read_needs
from gridwright.plan.search import plan_grids, search
from gridwright.providers.file_servers import built_lustres
from gridwright.providers.oci.layout import oci_layout
from gridwright.providers.oci.provider import OCI
from gridwright.spec import load_spec, parse_spec

PLACE = """
oci:
  compartment: ocid1.compartment.oc1..aaaaaaaaexample
  ssh_from: [203.0.113.0/24]
  ssh_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleKey admin
"""
EXAMPLE = Path(__file__).parents[3] / "examples" / "requirements-oci.yaml"
CATALOG = load_catalog()
SHAPES = ("BM.Optimized3.36", "VM.Optimized3.Flex(8)", "BM.Standard.E5.192", "VM.Standard.E5.Flex(16)")


@pytest.fixture(scope="module")
def needs() -> Needs:
    return read_needs(load_spec(EXAMPLE))


@pytest.fixture(scope="module")
def found(needs: Needs) -> list[Candidate]:
    return search(needs, CATALOG).candidates


@pytest.fixture(scope="module")
def offer() -> ScaleOffer:
    (only,) = scale_offers(on_sale(shares=True))
    return only


def on_sale(*, shares: bool) -> OnSale:
    servers = [(CATALOG.instance(each, "oci"), 1.0 + number) for number, each in enumerate(SHAPES)]
    volumes = volume_market(CATALOG, OCI.market.planned_volumes, "us-ashburn-1")
    shared = volumes if shares else VolumeMarket(())
    return OnSale(CATALOG, "us-ashburn-1", servers, volumes, provider="oci", shared_volumes=shared)


def test_each_planned_design_of_a_lustre_is_made_as_it_is_written(tmp_path: Path) -> None:
    """What the planner chooses, with where it is to be, passes the rules of what is built."""
    text = EXAMPLE.read_text("utf-8") + PLACE
    spec = parse_spec(text, base=tmp_path)
    found = [each.spec for each in plan_grids(spec, CATALOG).designs if built_lustres(each.spec)]
    assert len(found) >= 2
    for each in (found[0], found[-1]):
        layout = oci_layout(each)
        (servers,) = built_lustres(each).values()
        assert servers.oss is not None
        assert servers.oss.disks is not None
        targets = [one for one in layout.volumes if one.target is not None and one.target.kind == "ost"]
        assert len(targets) == servers.oss.count * (servers.oss.disks.count or 1)
        check_against_catalogue(each, CATALOG)


def test_all_three_are_compared_and_each_is_the_best_of_something() -> None:
    designs = plan_grids(load_spec(EXAMPLE), CATALOG).designs
    on_front = {
        kind_of(each.spec.filesystems[each.spec.libraries["data"].filesystem or ""]).title
        for each in designs
        if each.front
    }
    assert on_front == {"Scale", "Lustre", "OCI Lustre"}
    assert all(each.prediction.met for each in designs)


def test_what_a_plan_says_predict_says_of_the_written_spec(found: list[Candidate], needs: Needs) -> None:
    kinds = set()
    for candidate in found[:: len(found) // 60]:
        text = spec_text(design_spec(candidate, needs))
        prediction = predict(grid_model(parse_spec(text, base=Path("/")), CATALOG))
        assert prediction.usd_per_hour == pytest.approx(candidate.usd_per_hour, rel=1e-9)
        smallest = min(r.bytes_per_s_per_core for each in prediction.libraries for r in each.rates.values())
        assert smallest == pytest.approx(candidate.bytes_per_s_per_core)
        assert prediction.met is True, text
        kinds.add(candidate.shared.kind.partition("-")[0] if candidate.shared else "")
    assert kinds >= {"scale", "lustre", "oci"}


@given(rate=st.floats(1e8, 4e10), room=st.integers(1, 400 * 2**40))
def test_servers_of_scale_are_pairs_whose_volumes_fill_their_network(
    offer: ScaleOffer, rate: float, room: int
) -> None:
    choice = offer.smallest(rate, room)
    if choice is None:
        return
    nsd = choice.plain["nsd"]
    server = next(each for each in offer.servers if each.instance.name == nsd["instance"])
    assert nsd["count"] % 2 == 0
    assert nsd["count"] == choice.servers <= MOST_SERVERS
    assert nsd["disks"]["count"] <= 16, "both of a pair attach all of it, and 32 are the most"
    assert nsd["disks"]["type"] != "lower-cost", "metadata are on it, too"
    assert choice.bytes_per_s >= rate * (1 - 1e-9)
    assert choice.capacity_bytes >= room
    disks = offer.volumes.cheapest(server.bytes_per_s, room / nsd["count"], server.most_volumes)
    assert disks is not None
    assert disks.bytes_per_s >= server.bytes_per_s * (1 - 1e-9)
    assert choice.bytes_per_s == pytest.approx(server.bytes_per_s * file_share() * nsd["count"])


def test_more_than_the_most_servers_deliver_is_not_offered(offer: ScaleOffer) -> None:
    assert offer.smallest(1e13, 2**40) is None
    assert offer.smallest(1e9, 2**60) is None


def test_scale_is_not_offered_where_two_servers_cannot_share_a_volume() -> None:
    assert scale_offers(on_sale(shares=False)) == []


def test_a_server_is_never_too_small_or_of_another_processor(offer: ScaleOffer) -> None:
    assert {each.instance.architecture for each in offer.servers} == {"x86_64"}
    assert all(each.instance.cores >= 4 for each in offer.servers)
