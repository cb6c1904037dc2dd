"""One guest for all tests of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lustre_vm import VARIABLE, LustreMachine, lustre_machine
from tests.support.object_store import StoreServer, store_server
from tests.support.skips import no_lustre


@pytest.fixture(scope="session")
def lustre_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    """A store on this machine that the guest reaches."""
    with store_server(tmp_path_factory.mktemp("store")) as server:
        yield server


@pytest.fixture(scope="session")
def lustre(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[LustreMachine]:
    """The guest."""
    kit = os.environ.get(VARIABLE)
    if not kit:
        no_lustre(f"{VARIABLE} names no directory with make-vm.sh")
    store = request.getfixturevalue("lustre_store")
    with lustre_machine(Path(kit), tmp_path_factory.mktemp("lustre"), store.environment) as machine:
        yield machine
