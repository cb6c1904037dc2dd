"""What the tests of the spec room share."""

from pathlib import Path

import pytest

from gridwright.spec import GridSpec, parse_spec

DISK = "filesystems:\n  disk: {type: local, path: /data}\n"


@pytest.fixture
def smallest() -> GridSpec:
    return parse_spec(DISK, base=Path("/base"))
