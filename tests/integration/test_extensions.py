"""A site's own packages go to nodes with Gridwright's part; what cannot is named there."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from gridwright.grid import node_python
from gridwright.grid.node_python import (
    PACKAGES,
    extension_files,
    extension_versions,
    extensions_of,
    node_part,
)
from gridwright.spec import FILESYSTEMS, parse_spec

ENTRY = "[gridwright.filesystems]\nshelf = site_shelf.kind:KIND\n"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of packages that this Python looks into."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def install(place: Path, name: str, files: dict[str, str], *, needs: str = "", entry: str = "") -> None:
    """What an installer leaves of a wheel."""
    home = f"{name.replace('-', '_')}-1.5.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n{needs}"
    files |= {f"{home}/METADATA": metadata, f"{home}/RECORD": ""}
    files |= {f"{home}/entry_points.txt": entry} if entry else {}
    for file, text in files.items():
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text(text)
    (place / home / "RECORD").write_text("".join(f"{file},,\n" for file in [*files, f"../../bin/{name}"]))


def shelf(place: Path, **more: str) -> None:
    files = {
        "site_shelf/__init__.py": "",
        "site_shelf/kind.py": "KIND = 'it'\n",
        "site_shelf/rows.yaml": "a: 1\n",
    }
    install(place, "site-shelf", files, needs=more.pop("needs", ""), entry=ENTRY)


def imported(tmp_path: Path, part: bytes, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program as a node does that has nothing but the part."""
    place = tmp_path / "node"
    with tarfile.open(fileobj=io.BytesIO(part)) as archive:
        archive.extractall(place, filter="data")
    python = os.path.realpath(sys.executable)
    return subprocess.run(
        [python, "-S", "-P", "-c", program],
        env={"PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


LOAD = """\
from importlib.metadata import entry_points, version
(entry,) = entry_points(group="gridwright.filesystems")
print(version("site-shelf"), entry.load())
"""


def test_a_package_goes_with_its_data_its_entry_points_and_what_it_needs(
    packages: Path, tmp_path: Path
) -> None:
    shelf(packages, needs="Requires-Dist: site-base>=1\nRequires-Dist: gridwright\nRequires-Dist: absent\n")
    install(packages, "site-base", {"site_base.py": "WORD = 'base'\n"}, needs="Requires-Dist: site-shelf\n")
    files = extension_files("site-shelf")
    assert files["site_shelf/rows.yaml"] == b"a: 1\n"
    assert {"site_base.py", "site_shelf/kind.py"} <= set(files)
    assert not [name for name in files if name.startswith(("..", "gridwright/"))]
    done = imported(tmp_path, node_part(("site-shelf",), PACKAGES).content, LOAD + "import site_base")
    assert (done.stdout, done.stderr) == ("1.5 it\n", "")


@pytest.mark.few(1)
@pytest.mark.parametrize("why", ["compiled", "needs what is compiled", "large"])
def test_what_cannot_be_brought_says_so_where_its_kind_is_asked_for(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    compiled = {"site_fast/engine.cpython-311-x86_64-linux-gnu.so": "ELF"}
    shelf(packages, needs="Requires-Dist: site-fast\n" if why == "needs what is compiled" else "")
    install(packages, "site-fast", compiled)
    if why == "compiled":
        files = {"site_shelf/__init__.py": "", "site_shelf/core.abi3.so": "ELF"}
        install(packages, "site-shelf", files, entry=ENTRY)
    if why == "large":
        monkeypatch.setattr(node_python, "MOST_BYTES", 10)
    done = imported(tmp_path, node_part.__wrapped__(("site-shelf",), PACKAGES).content, LOAD)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: site-shelf 1.5 is not brought to nodes: ")
    assert {"compiled": "core.abi3.so of site-shelf", "large": "it takes"}.get(
        why, "engine.cpython-311"
    ) in last


def test_a_package_that_is_installed_for_editing_goes_as_it_is(packages: Path) -> None:
    source = packages / "source" / "site_shelf"
    source.mkdir(parents=True)
    (source / "__init__.py").write_text("KIND = 1\n")
    install(packages, "site-shelf", {"site_shelf.pth": f"{source.parent}\n"}, entry=ENTRY)
    sys.path.append(str(source.parent))
    try:
        assert extension_files("site-shelf")["site_shelf/__init__.py"] == b"KIND = 1\n"
    finally:
        sys.path.remove(str(source.parent))


def test_a_spec_uses_the_packages_of_its_kinds_alone(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = parse_spec("filesystems: {disk: {type: local, path: /disk}}\nlibraries: {data: {}}\n")
    shelf(packages)
    (entry,) = entry_points(group="gridwright.filesystems")
    monkeypatch.setattr(FILESYSTEMS, "_extensions", {"shelf": entry})
    assert extensions_of(spec) == ()
    assert (FILESYSTEMS.extension("shelf"), FILESYSTEMS.extension("local")) == ("site-shelf", None)
    disk = spec.filesystems["disk"].model_copy(update={"type": "shelf"})
    assert extensions_of(spec.model_copy(update={"filesystems": {"disk": disk}})) == ("site-shelf",)
    assert extension_versions(["site-shelf"]) == ["site-shelf=1.5"]
