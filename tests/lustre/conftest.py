"""One guest for all tests of a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.lustre_vm import LustreMachine, lustre_machine, why_not
from tests.support.object_store import StoreServer, store_server


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
    if why := why_not():
        pytest.skip(why)
    store = request.getfixturevalue("lustre_store")
    with lustre_machine(tmp_path_factory.mktemp("lustre"), store.environment) as machine:
        yield machine
