"""Names and addresses of a lab's nodes."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.providers.lab.boot import bridge_side, hardware_address
from gridwright.providers.lab.layout import LabRole, layout_of
from tests.unit.providers.lab_specs import moosefs, spec


def test_the_controller_comes_first_then_compute_then_storage_nodes() -> None:
    layout = layout_of(
        spec(
            nodes={"compute": {"count": 2}, "big": {"count": 1}},
            filesystems={"one": moosefs(2, "/mnt/one"), "two": moosefs(1, "/mnt/two")},
            libraries={"data": {"filesystem": "one"}},
        )
    )
    assert [(node.name, node.role, node.group, node.address) for node in layout.nodes] == [
        ("controller", LabRole.CONTROLLER, "controller", "10.77.0.10"),
        ("compute1", LabRole.COMPUTE, "compute", "10.77.0.11"),
        ("compute2", LabRole.COMPUTE, "compute", "10.77.0.12"),
        ("big1", LabRole.COMPUTE, "big", "10.77.0.13"),
        ("storage1", LabRole.STORAGE, "one", "10.77.0.14"),
        ("storage2", LabRole.STORAGE, "one", "10.77.0.15"),
        ("storage3", LabRole.STORAGE, "two", "10.77.0.16"),
    ]
    assert [node.name for node in layout.storage_of("two")] == ["storage3"]
    assert "10.77.0.13 big1\n" in layout.hosts_file()


@settings(deadline=None)
@given(count=st.integers(1, 300), bits=st.integers(18, 29))
def test_addresses_differ_and_are_those_of_hosts_or_are_refused(count: int, bits: int) -> None:
    network = ipaddress.IPv4Network(f"10.80.0.0/{bits}")
    wanted = spec(nodes={"compute": {"count": count}}, lab={"network": str(network)})
    try:
        layout = layout_of(wanted)
    except GridwrightError as error:
        assert count + 1 > network.num_addresses - (11 if bits <= 27 else 2)
        assert str(network) in error.problems[0].what
        return
    addresses = [ipaddress.IPv4Address(node.address) for node in layout.nodes]
    assert len(set(addresses)) == count + 1
    assert all(address in network for address in addresses)
    assert not {network.network_address, network.broadcast_address} & set(addresses)
    assert len({bridge_side(node) for node in layout.nodes}) == count + 1
    assert all(len(bridge_side(node)) <= 15 for node in layout.nodes)
    assert len({hardware_address(node) for node in layout.nodes}) == count + 1


def test_groups_whose_nodes_would_have_one_name_are_refused() -> None:
    with pytest.raises(GridwrightError, match="both have a node compute11"):
        layout_of(spec(nodes={"compute": {"count": 11}, "compute1": {"count": 1}}))


def test_a_name_too_long_for_a_host_is_refused() -> None:
    group = "c" * 63
    with pytest.raises(GridwrightError, match="64 characters"):
        layout_of(spec(nodes={group: {"count": 1}}))


def test_a_node_that_is_not_there_is_answered_with_the_nearest() -> None:
    with pytest.raises(GridwrightError) as caught:
        layout_of(spec()).node("compte2")
    assert "no node 'compte2'" in str(caught.value)
    assert "did you mean compute2?" in str(caught.value)
