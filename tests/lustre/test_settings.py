"""What the tuning table asks of a client is what a real one takes, however little memory it has."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pytest

from tests.support.lustre_vm import LustreMachine

ASKED = """
import json, os
from gridwright.setup.tuning import NodeSize, desired_value, tuning_rows
memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
size = NodeSize(memory, 2, 2)
rows = [row for row in tuning_rows() if row.kind == "lustre-client" and not row.bounded_by]
print(json.dumps([memory, {row.key: desired_value(row, size) for row in rows}]))
"""
"""Memory in bytes, and the values by their keys; what a server bounds is asked for as far as it allows."""
DIRTY, AHEAD = "osc.*-osc-[!M]*.max_dirty_mb", "llite.*.max_read_ahead_mb"


@dataclass(frozen=True)
class Client:
    """The guest as a client, and what is asked of it."""

    machine: LustreMachine
    memory_bytes: int
    asked: Mapping[str, int]
    """By parameter, without connections of the MDT itself."""


@pytest.fixture(scope="module")
def client(lustre: LustreMachine) -> Iterator[Client]:
    """The guest, which has its own settings again in the end."""
    memory, asked = json.loads(lustre.python(ASKED))
    named = {key.replace("osc.*.", "osc.*-osc-[!M]*."): value for key, value in asked.items()}
    lustre.run(f"lctl get_param {' '.join(map(shlex.quote, named))} | grep '=[0-9]*$' >/root/settings")
    yield Client(lustre, memory, named)
    lustre.run("lctl set_param $(cat /root/settings)")


def test_a_client_takes_what_the_tuning_table_asks_of_it(client: Client) -> None:
    assert DIRTY in client.asked
    client.machine.run(
        " && ".join(f"lctl set_param {shlex.quote(f'{key}={value}')}" for key, value in client.asked.items())
    )
    told = client.machine.run(f"lctl get_param {' '.join(map(shlex.quote, client.asked))}").out
    found = [(name, int(value)) for name, _, value in (line.partition("=") for line in told.split())]
    for key, wanted in client.asked.items():
        values = [value for name, value in found if fnmatchcase(name, key)]
        assert values, key
        assert min(values) >= wanted, key


def test_the_limits_of_the_table_are_those_of_a_client(client: Client) -> None:
    """A quarter of its memory at most for what is dirty; read-ahead is cut off at half of it in silence."""
    machine, most = client.machine, client.memory_bytes // 2**22
    machine.run(f"lctl set_param '{DIRTY}={most}'")
    refused = machine.run(f"lctl set_param '{DIRTY}={most + 1}'", ok=False)
    assert refused.status != 0
    assert "out of range" in refused.err
    machine.run(f"lctl set_param '{AHEAD}={client.memory_bytes // 2**20}'")
    told = machine.run(f"lctl get_param -n '{AHEAD}'").out.split()
    assert {*map(int, told)} == {client.memory_bytes // 2**21}
