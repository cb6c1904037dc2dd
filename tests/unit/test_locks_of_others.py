"""A lock needs a file that is open for reading: those of root's programs nobody else can open."""

from __future__ import annotations

import fcntl
import os
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from gridwright.node_programs.scratch.commands import alone
from gridwright.setup.services import repository_units
from gridwright.spec.load import parse_spec
from gridwright.watch.state import LOCK, held
from tests.support.as_user import MALLORY, as_user, open_to_all
from tests.support.skips import root_only

SPEC = """\
name: demo
provider: local
filesystems: {disk: {type: local, path: /data}}
libraries: {data: {}, work: {}, util: {}}
repositories:
  archive: {library: data, bucket: s3://lake/data, export: {changed: hourly}, import: {names: daily}}
"""


def lock_of(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@root_only
@pytest.mark.parametrize("program", ["watch", "scratch"])
def test_mallory_takes_no_lock_of_roots_also_where_an_earlier_release_made_it(
    tmp_path: Path, program: str
) -> None:
    open_to_all(tmp_path)
    place = tmp_path / "run"
    place.mkdir(mode=0o755)
    path = place / LOCK

    def taken() -> AbstractContextManager[None]:
        return held(place) if program == "watch" else alone(path, "busy")

    for _ in range(2):
        with taken():
            assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(AssertionError, match="Permission denied"):
            as_user(MALLORY, lambda: lock_of(path))
        path.chmod(0o644)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Exception, match=r"no regular file|Too many levels"), taken():
        pass
    assert not (tmp_path / "elsewhere").exists(), "a link in its place is followed"


def test_backups_wait_for_a_lock_in_a_directory_of_roots_alone() -> None:
    units = {name: text for name, text in repository_units(parse_spec(SPEC)).items() if "flock" in text}
    assert len(units) == 2
    for text in units.values():
        fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and line[:1] != "#")
        lock = Path(fields["ExecStart"].split()[1])
        assert lock.parent == Path("/run") / fields["RuntimeDirectory"]
        assert (fields["RuntimeDirectoryMode"], fields["RuntimeDirectoryPreserve"]) == ("0700", "yes")
        # flock(1) is run as root: nothing makes another user the owner of the directory.
        assert "User" not in fields
