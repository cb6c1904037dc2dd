"""Packets that a cloud holds back are read from the cards that count them, and bind what they carry."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.monitor import sampler
from gridwright.monitor.causes.use import ResourceSort
from gridwright.monitor.readings import LABELS
from gridwright.monitor.sampler import (
    CardAllowances,
    allowance_places,
    statistic_names,
    statistic_values,
)
from tests.unit.monitor.test_causes import binding, waits
from tests.unit.monitor.test_frame import SERVED, Counted, disk, node, row

ENA = ["tx_timeout", "bw_in_allowance_exceeded", "bw_out_allowance_exceeded", "pps_allowance_exceeded",
       "conntrack_allowance_exceeded", "queue_0_tx_cnt"]  # fmt: skip
"""In the order of drivers/net/ethernet/amazon/ena/ena_ethtool.c."""


def test_the_statistics_of_a_real_card_are_read_as_ethtool_reads_them() -> None:
    found = {}
    for each in Path("/sys/class/net").iterdir():
        try:
            names = statistic_names(each.name)
        except OSError:
            continue
        values = statistic_values(each.name, len(names)) if names else ()
        found[each.name] = dict(zip(names, values, strict=True))
    assert all(name and value >= 0 for card in found.values() for name, value in card.items())
    with pytest.raises(OSError, match="No such device"):
        statistic_names("no-such-card")


def test_only_cards_that_count_allowances_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("eth0", "eth1"):
        (tmp_path / "sys/class/net" / name).mkdir(parents=True)
    monkeypatch.setattr(sampler, "statistic_names", {"eth0": ENA, "eth1": ["rx_drops"]}.__getitem__)
    monkeypatch.setattr(sampler, "statistic_values", lambda _device, count: tuple(range(count)))
    told = {each.labels: each.value for each in CardAllowances(tmp_path).readings()}
    assert told == {("eth0", "bw_in"): 1, ("eth0", "bw_out"): 2, ("eth0", "pps"): 3, ("eth0", "conntrack"): 4}
    assert LABELS["gridwright_network_held_back_packets_total"] == ("device", "allowance")
    assert allowance_places(["rx_drops"]) == {}


def held_back(rate: float, allowance: str = "bw_in") -> Counted:
    return {("gridwright_network_held_back_packets_total", "eth0", allowance): rate}


def test_a_network_that_its_cloud_holds_back_binds_what_servers_serve_and_no_local_disk() -> None:
    served = row(node(iowait=2.0, counted={**waits("OST0", 50, 0.1), **held_back(900.0)}, places=SERVED))
    assert binding(served) == [ResourceSort.ALLOWANCE], "and servers are not accused"
    assert "the cloud held back 900 packets/s of card eth0 of n1, which has used up what it may receive" in (
        served.binds
    )
    for calm in (held_back(0.0), held_back(3.0), held_back(900.0, "conntrack")):
        found = row(node(iowait=2.0, counted={**waits("OST0", 50, 0.1), **calm}, places=SERVED))
        assert binding(found) == [ResourceSort.SERVER]
    local = {**disk("md0", 1e6), **held_back(900.0)}
    assert binding(row(node(iowait=2.0, counted=local))) == []
