"""A repository whose names are served: exported, wiped, imported, read in part, changed, released."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.repository.contents import ContentOptions, import_contents
from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_names
from gridwright.repository.lazy.support import why_not
from gridwright.repository.release import ReleaseOptions, release
from gridwright.repository.status import repository_status
from gridwright.repository.verify import verify
from tests.support.disks import loop_mount
from tests.support.object_store import StoreServer, store_server
from tests.support.repositories import run
from tests.support.served import served
from tests.support.skips import no_such_kernel, root_only

pytestmark = [pytest.mark.root, root_only]
MIB = 1 << 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StoreServer]:
    with pytest.MonkeyPatch.context() as patch, store_server(tmp_path) as found:
        for name, value in found.environment.items():
            patch.setenv(name, value)
        yield found


@pytest.fixture
def library() -> Iterator[Path]:
    with (
        tempfile.TemporaryDirectory(prefix="gridwright-test-") as place,
        loop_mount(Path(place), mib=400, kind="ext4") as mount_point,
    ):
        if (reason := why_not(str(mount_point))) is not None:
            no_such_kernel(reason)
        directory = mount_point / "library"
        directory.mkdir(mode=0o755)
        yield directory


def release_again(library: Path, server: StoreServer) -> None:
    """Make exported files names; what is known of files that were loaded is brought up to date first."""
    run(library, server, lambda it: export(it, ExportOptions()))
    assert run(library, server, lambda it: release(it, ReleaseOptions())).problems == []


def test_a_repository_is_read_in_part_changed_released_and_exported(
    library: Path, server: StoreServer
) -> None:
    content = {f"file-{number}": os.urandom(3 * MIB + number) for number in range(6)}
    for name, each in content.items():
        (library / name).write_bytes(each)
    assert run(library, server, lambda it: export(it, ExportOptions())).problems == []
    times = {name: (library / name).stat().st_mtime_ns for name in content}
    for path in library.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    imported = run(library, server, lambda it: import_names(it, ImportOptions()))
    assert imported.problems == []
    assert "users cannot enter it until gridwright repo serve loads what they read" in imported.notes
    assert library.stat().st_mode & 0o777 == 0
    with served(library, server) as daemon:
        assert library.stat().st_mode & 0o777 == 0o755
        # The directory itself: files were removed from it since the export.
        begun = run(library, server, repository_status).changed_files
        assert begun <= 1
        with (library / "file-0").open("rb") as file:
            file.seek(2 * MIB)
            assert file.read(4096) == content["file-0"][2 * MIB : 2 * MIB + 4096]
        assert (library / "file-1").read_bytes() == content["file-1"]
        assert run(library, server, repository_status).changed_files == begun, "loading is no change"
        with (library / "file-2").open("r+b") as file:
            file.write(b"changed")
        assert run(library, server, repository_status).changed_files == begun + 1
        content["file-2"] = b"changed" + content["file-2"][7:]
        # What was loaded is no change, and what was changed goes out whole.
        exported = run(library, server, lambda it: export(it, ExportOptions()))
        assert exported.problems == []
        assert exported.count("sent").count == 1
        assert run(library, server, verify).problems == []
        for name in ("file-0", "file-1"):
            assert (library / name).stat().st_mtime_ns == times[name]

        held = (library / "file-1").open("rb")
        released = run(library, server, lambda it: release(it, ReleaseOptions()))
        assert released.problems == []
        assert released.count("left, as they are open").count == 1
        assert released.count("released").count == 1
        assert (library / "file-2").stat().st_blocks * 512 < MIB
        assert held.read() == content["file-1"]
        held.close()
        for name, each in content.items():
            assert (library / name).read_bytes() == each, daemon.said()
        release_again(library, server)
        with (library / "file-2").open("r+b") as file:
            file.write(b"once more")
        content["file-2"] = b"once more" + content["file-2"][9:]
        brought = run(library, server, lambda it: import_contents(it, ContentOptions()))
        assert brought.problems == []
        assert brought.count("completed").count == 1
        assert run(library, server, lambda it: export(it, ExportOptions())).count("sent").count == 1
        assert run(library, server, verify).problems == []
    # Nothing is a name any more, so that users stay in.
    assert library.stat().st_mode & 0o777 == 0o755
    for name, each in content.items():
        assert (library / name).read_bytes() == each, name
