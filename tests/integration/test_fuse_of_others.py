"""A FUSE file system of mallory, which says that all there is root's: a real kernel, and a server of hers."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path

import pytest

from gridwright.beneath import open_own
from gridwright.cli.spec_file import has_default_spec
from gridwright.errors import GridwrightError
from gridwright.runs.place import own_runs, run_owner
from gridwright.trusted import open_directory, why_untrusted_path
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all
from tests.support.skips import no_such_kernel

pytestmark = pytest.mark.root
_HEAD, _REPLY = struct.Struct("=IIQQIIIHH"), struct.Struct("=IiQ")
_ATTRIBUTES = struct.Struct("=QQQQQQIIIIIIIIII")
"""`struct fuse_in_header`, `fuse_out_header` and `fuse_attr` of linux/fuse.h."""
_LOOKUP, _GETATTR, _INIT, _OPENDIR, _NO_SUCH_CALL = 1, 3, 26, 27, -38
NAMES = {b"closed": (2, 0o40700), b"grid.yaml": (3, 0o100644)}


def _attributes(inode: int) -> bytes:
    """Root's, with the mode of the name, or that of the root directory."""
    mode = next((each for number, each in NAMES.values() if number == inode), 0o40755)
    return _ATTRIBUTES.pack(inode, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def _answer(call: int, node: int, content: bytes) -> bytes | int:
    if call == _INIT:
        return struct.pack("=IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0)
    if call == _GETATTR:
        return struct.pack("=QII", 0, 0, 0) + _attributes(node)
    if call == _LOOKUP:
        inode, _ = NAMES.get(content.rstrip(b"\0"), (0, 0))
        return struct.pack("=QQQQII", inode, 0, 0, 0, 0, 0) + _attributes(inode) if inode else -2
    return struct.pack("=QII", 0, 0, 0) if call == _OPENDIR else _NO_SUCH_CALL


def _serve(device: int) -> None:
    while True:
        asked = os.read(device, 1 << 17)
        _, call, unique, node, *_ = _HEAD.unpack_from(asked)
        found = _answer(call, node, asked[_HEAD.size :])
        body, error = (b"", found) if isinstance(found, int) else (found, 0)
        with suppress(FileNotFoundError):
            os.write(device, _REPLY.pack(_REPLY.size + len(body), error, unique) + body)


@contextmanager
def mounted_by(uid: int, place: Path) -> Iterator[Path]:
    """Mounted as fusermount(1) does it for a user, where fuse.conf has user_allow_other."""
    place.mkdir(mode=0o755)
    os.chown(place, uid, uid)
    calls = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={uid},group_id={uid},allow_other,default_permissions"
    mounted = calls.mount(b"x,user_id=0", os.fsencode(place), b"fuse.lustre", 6, options.encode())
    assert mounted == 0, os.strerror(ctypes.get_errno())
    server = os.fork()
    if server == 0:
        with suppress(OSError):
            _serve(device)
        os._exit(0)
    os.close(device)
    try:
        yield place
    finally:
        calls.umount2(os.fsencode(place), 2)
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory to which all may add."""
    if not Path("/dev/fuse").exists():
        no_such_kernel("/dev/fuse")
    open_to_all(tmp_path)
    made = tmp_path / "shared"
    made.mkdir()
    made.chmod(0o1777)
    return made


@pytest.mark.parametrize("name", ["", "grid.yaml", "closed"])
def test_what_mallory_mounted_is_hers_whatever_owner_it_shows(shared: Path, name: str) -> None:
    with mounted_by(MALLORY, shared / "evil") as place:
        assert (place / name).lstat().st_uid == 0, "as it says"

        def held() -> None:
            why = why_untrusted_path(place / name)
            assert why is not None
            assert "FUSE" in why
            assert str(MALLORY) in why
            assert said_by_shell(place / name).startswith("untrusted\t")

        held()
        as_user(ALICE, held)
        with pytest.raises(GridwrightError, match="FUSE"):
            open_directory(place)

        def own() -> None:
            assert why_untrusted_path(place / name) is None

        as_user(MALLORY, own)


def test_what_mallory_mounted_is_no_spec_no_run_and_no_directory_of_ones_own(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root stands in it, and has it among its runs: it names nothing of it."""
    with mounted_by(MALLORY, shared / "20261129T000000Z-fuse") as place:
        monkeypatch.chdir(place)
        with pytest.raises(GridwrightError, match="FUSE"):
            has_default_spec()
        assert run_owner(place) == MALLORY
        assert own_runs([place]) == []
        with pytest.raises(OSError, match=str(MALLORY)):
            open_own(place)
        monkeypatch.chdir("/")


def test_what_root_mounted_is_what_it_shows(shared: Path) -> None:
    with mounted_by(0, shared / "good") as place:
        assert why_untrusted_path(place / "grid.yaml") is None
        assert said_by_shell(place / "closed") == ""


def said_by_shell(place: Path) -> str:
    """What nodes say of a path, by the same rules in shell."""
    ways = resources.files("gridwright.grid").joinpath("trusted.sh").read_text("utf-8")
    said = subprocess.run(
        ["sh", "-c", f'{ways}\ntrusted_way "$1"; trusted own "$1"', "sh", place],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
    )
    return said.stdout
