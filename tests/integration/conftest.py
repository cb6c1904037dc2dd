"""A store for the tests of a file, and a place in its bucket for each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.object_store import StoreServer, prefix_of, store_of_environment


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with store_of_environment(tmp_path_factory.mktemp("store")) as served:
        yield served


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return prefix_of(request.node.name)
