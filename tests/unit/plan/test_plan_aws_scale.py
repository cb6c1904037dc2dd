"""Plans of Spectrum Scale on AWS: pairs of servers that share io2 volumes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gridwright.catalog import load_catalog
from gridwright.catalog.instances import free_attachments
from gridwright.filesystems.offers import GIB, MIB, volume_market
from gridwright.filesystems.scale.rates import ScaleOffer, paired_server
from gridwright.model.grid import check_against_catalogue
from gridwright.plan.candidates import market
from gridwright.plan.grid_spec import design_spec
from gridwright.plan.needs import Needs, read_needs
from gridwright.plan.search import search
from gridwright.providers import provider_of
from gridwright.providers.aws.layout import aws_layout, pair_volumes
from gridwright.spec import parse_spec

CATALOG = load_catalog()
IO2 = volume_market(CATALOG, ("io2",), "us-east-1")
TEXT = """
name: req
provider: aws
region: us-east-1
aws:
  zone: us-east-1a
  ssh_from: [203.0.113.0/24]
  owner: a@example.com
  expires: 2027-12-31
libraries:
  data: {requires: 100 MB/s/core, capacity: 30 TiB}
  work: {requires: 100 MB/s/core, capacity: 10 TiB}
scheduler: {type: slurm}
requirements: {cores: 96, families: {allow: [m5zn]}}
"""


def needs_of(text: str, tmp_path: Path) -> Needs:
    return read_needs(parse_spec(text, base=tmp_path))


def scale_of(needs: Needs) -> list[ScaleOffer]:
    return [offer for _, offer in market(CATALOG, needs).offers if isinstance(offer, ScaleOffer)]


# The room of so many GiB and a byte, which a division of floats took for so many GiB.
@example(rate=1e6, room=32 * 1024 * GIB + 1, most=1)
@given(rate=st.floats(1e6, 6e10), room=st.integers(1, 400 * 1024 * GIB), most=st.integers(1, 13))
def test_io2_is_bought_as_its_prices_and_limits_have_it(rate: float, room: int, most: int) -> None:
    (priced,) = IO2.volumes
    found = IO2.cheapest(rate, room, most)
    bound = IO2.least_usd(rate, room, most)
    if found is None:
        assert rate > most * 4000 * MIB * (1 - 1e-9) or room > most * 65536 * GIB
        return
    assert found.bytes_per_s >= rate * (1 - 1e-9)
    assert found.capacity_bytes >= room
    assert bound <= found.usd_per_hour * (1 + 1e-9)
    # A set of each number by the tables' own words: no cheaper one is there.
    for count in range(1, most + 1):
        iops = max(100, -(-(rate / count) // (0.256 * MIB)))
        gib = max(4, -(-room // (count * GIB)), -(-iops // 1000))
        if rate / count > 4000 * MIB or gib > 65536:
            continue
        usd = priced.volume.usd_per_hour(int(gib) * GIB, "us-east-1", iops) * count
        assert found.usd_per_hour <= usd * (1 + 1e-6)


def test_a_design_is_written_so_that_it_can_be_made(tmp_path: Path) -> None:
    needs = needs_of(TEXT.replace("zone:", "replace_nodes: true\n  zone:"), tmp_path)
    found = [each for each in search(needs, CATALOG).candidates if each.shared and each.shared.shares_volumes]
    assert found
    spec = design_spec(found[0], needs)
    servers = spec.filesystems["shared"].server_groups["nsd"]
    assert servers.disks is not None
    assert servers.disks.type == "io2"
    check_against_catalogue(spec, CATALOG)
    assert len(list(pair_volumes(spec))) == servers.count * (servers.disks.count or 1)
    aws_layout(spec)
    assert not [each for each in provider_of(spec).findings(spec) if each.level == "error"]


def test_nodes_that_come_and_go_have_no_scale(tmp_path: Path) -> None:
    changing = TEXT.replace("libraries:", "nodes: {compute: {min: 0}}\nlibraries:")
    assert scale_of(needs_of(TEXT, tmp_path))
    assert not scale_of(needs_of(changing, tmp_path))


@pytest.mark.parametrize("name", ["c6in.16xlarge", "m5zn.12xlarge", "i3en.24xlarge"])
def test_both_of_a_pair_have_places_for_all_volumes(name: str) -> None:
    server = paired_server(CATALOG.instance(name, "aws"), 1.0)
    free = free_attachments(name, interfaces=1)
    assert server is not None
    assert free is not None
    assert 2 * server.most_volumes <= free


def test_types_that_share_no_volumes_are_no_servers() -> None:
    xen = CATALOG.instance("r4.16xlarge", "aws")
    assert paired_server(xen, 1.0) is None
    assert paired_server(replace(xen, name="r5.16xlarge"), 1.0) is not None
