"""What mallory does in a library that she may write, where root runs programs that write there, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gridwright.doctor.messages import Append, Begin, Put, Read, TakeLock, TrialOrder, TryLock, Write
from gridwright.doctor.probes.node import PREFIX, Probe
from tests.support.as_user import MALLORY, as_user, open_to_all

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="other users are needed")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library of mallory's own."""
    open_to_all(tmp_path)
    made = tmp_path / "library"
    made.mkdir()
    os.chown(made, MALLORY, MALLORY)
    return made


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of root's, which is not to change."""
    made = tmp_path / "precious"
    made.write_text("precious")
    made.chmod(0o600)
    return made


@pytest.mark.parametrize("owner", [True, False], ids=["who made it", "the other node"])
@pytest.mark.parametrize(
    "order",
    [
        Write("seen", "x"),
        Put("seen", "x"),
        Append("seen", "one", 3),
        TakeLock("seen", "flock"),
        TryLock("seen", "flock"),
        Read("seen"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_probe_follows_nothing_that_mallory_put_in_its_place(
    library: Path, precious: Path, order: TrialOrder, owner: bool
) -> None:
    maker, other = Probe(), Probe()
    maker.obey(Begin(str(library), "x", owner=True))
    other.obey(Begin(str(library), "x", owner=False))
    place = library / f"{PREFIX}x"

    def attack() -> None:
        place.rename(library / "away")
        place.mkdir(mode=0o777)
        for name in ("seen", "seen.new"):
            (place / name).symlink_to(precious)

    as_user(MALLORY, attack)
    answer: object = None
    try:
        answer = (maker if owner else other).obey(order)
    except OSError:
        pass
    finally:
        other.close()
        maker.close()
    assert answer != "precious"
    assert precious.read_text() == "precious"
    assert (place / "seen").is_symlink()
    assert [*(library / "away").iterdir()] == []
