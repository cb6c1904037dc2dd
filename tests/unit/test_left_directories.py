"""What killed runs leave in a library is found by name, and others may give such names to anything."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gridwright.doctor.messages import Begin
from gridwright.doctor.probes import node
from gridwright.iotest import scratch
from gridwright.runs.worker_process import process_facts
from gridwright.workload import private_directories
from tests.support.as_user import MALLORY, as_user, open_to_all

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="other users' ids take root")
DEAD = {"process": process_facts() | {"started": 1.0}, "kept": False, "files": None}
SWEEPS: list[tuple[str, str, Callable[[Path], object]]] = [
    (scratch.PREFIX, scratch.MARKER, scratch.remove_stale),
    (scratch.PREFIX, scratch.MARKER, lambda library: scratch.remove_owned(library, "run", ["n1"])),
    (private_directories.PREFIX, private_directories.MARKER, private_directories.remove_stale),
    (private_directories.PREFIX + "run-", private_directories.MARKER,
     lambda library: private_directories.remove_run(library, Path("run"))),
    (node.PREFIX, "gridwright-probe",
     lambda library: node.Probe().obey(Begin(directory=str(library), mark="x", owner=True))),
]  # fmt: skip


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("prefix", "marker", "sweep"), SWEEPS)
def test_what_another_user_put_there_holds_nobody_and_stays(
    tmp_path: Path, prefix: str, marker: str, sweep: Callable[[Path], object]
) -> None:
    open_to_all(tmp_path)
    library = tmp_path / "work"
    library.mkdir()
    library.chmod(0o1777)
    document = json.dumps(DEAD | {"run": "run", "node": "n1"})

    def mallory() -> None:
        for name in ("pipe", "forged"):
            (library / f"{prefix}{name}").mkdir()
        os.mkfifo(library / f"{prefix}pipe" / marker)
        (library / f"{prefix}forged" / marker).write_text(document)
        for each in library.iterdir():
            os.utime(each, (0, 0))

    as_user(MALLORY, mallory)
    own = library / f"{prefix}own"
    own.mkdir()
    (own / marker).write_text(document)
    os.utime(own, (time.time() - 3600, time.time() - 3600))
    sweep(library)
    assert not own.exists()
    assert (library / f"{prefix}pipe").is_dir()
    assert (library / f"{prefix}forged" / marker).exists()


@pytest.mark.parametrize(("prefix", "marker", "sweep"), SWEEPS)
def test_another_directory_of_root_is_not_removed_for_the_name_that_mallory_gave_it(
    tmp_path: Path, prefix: str, marker: str, sweep: Callable[[Path], object]
) -> None:
    """She owns the library, and so may rename all in it; in what everybody may write she makes the marker."""
    open_to_all(tmp_path)
    library = tmp_path / "work"
    library.mkdir()
    os.chown(library, MALLORY, MALLORY)
    for name, mode in (("closed", 0o700), ("open", 0o755), ("shared", 0o1777)):
        (library / name).mkdir()
        (library / name / "precious").write_text("root's")
        (library / name).chmod(mode)

    def mallory() -> None:
        (library / "shared" / marker).write_text(json.dumps(DEAD | {"run": "run", "node": "n1"}))
        for each in ("closed", "open", "shared"):
            (library / each).rename(library / f"{prefix}{each}")

    as_user(MALLORY, mallory)
    for each in library.iterdir():
        os.utime(each, (0, 0))
    sweep(library)
    left = sorted(each.parent.name for each in library.glob("*/precious"))
    assert left == [f"{prefix}{each}" for each in ("closed", "open", "shared")]
