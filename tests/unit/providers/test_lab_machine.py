"""What a lab finds out about the machine: its control groups, its mirror of Debian, its Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gridwright
from gridwright.errors import GridwrightError
from gridwright.providers.lab import image, record
from gridwright.providers.lab.image import VARIABLE, mirror, python_directories
from gridwright.providers.lab.namespaces import detect
from gridwright.providers.lab.provider import LabHead
from gridwright.spec import parse_spec


def mount_line(kind: str, root: str, point: Path, options: str) -> str:
    return f"30 20 0:25 {root} {point} rw,nosuid - {kind} {kind} rw,{options}\n"


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    for name in ("memory", "freezer", "cpu,cpuacct", "unified"):
        (tmp_path / name / "user" / "session").mkdir(parents=True)
    (tmp_path / "unified" / "cgroup.subtree_control").write_text("cpu memory pids\n")
    return tmp_path


def test_v1_groups_are_made_below_those_of_the_command(trees: Path) -> None:
    mounts = "".join(
        mount_line("cgroup", "/", trees / name, name) for name in ("memory", "freezer", "cpu,cpuacct")
    ) + mount_line("cgroup2", "/", trees / "unified", "x")
    member = "5:memory:/user/session\n4:freezer:/\n3:cpu,cpuacct:/user\n1:name=systemd:/user\n0::/user\n"
    found = detect(mounts, member)
    assert found.kind == "v1"
    assert set(found.lab_directories("a")) == {
        trees / "memory/user/session/gridwright-a",
        trees / "freezer/gridwright-a",
        trees / "cpu,cpuacct/user/gridwright-a",
    }
    assert set(found.support.controllers) == {"memory", "freezer", "cpu", "cpuacct"}


def test_v1_in_a_container_sees_but_its_own_part_of_the_tree(trees: Path) -> None:
    mounts = mount_line("cgroup", "/docker/1", trees / "freezer", "freezer")
    found = detect(mounts, "4:freezer:/docker/1/user\n")
    assert found.lab_directories("a") == [trees / "freezer/user/gridwright-a"]


def test_v2_has_the_controllers_that_are_enabled_already(trees: Path) -> None:
    found = detect(mount_line("cgroup2", "/", trees / "unified", "nsdelegate"), "0::/user/session\n")
    assert found.kind == "v2"
    assert found.lab_directories("a") == [trees / "unified" / "gridwright-a"]
    assert found.support.controllers == ("memory", "pids", "cpu")


def test_without_control_groups_there_are_none() -> None:
    found = detect("20 1 8:1 / / rw - ext4 /dev/sda rw\n", "0::/\n")
    assert (found.kind, found.support.controllers, found.lab_directories("a")) == ("none", (), [])


def test_detection_leaves_no_probe_behind(trees: Path) -> None:
    detect(mount_line("cgroup", "/", trees / "freezer", "freezer"), "4:freezer:/\n")
    assert sorted(path.name for path in (trees / "freezer").iterdir()) == ["user"]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "sources.list",
            "deb [arch=amd64] https://mirror.test/debian/ bookworm main\n",
            "https://mirror.test/debian/",
        ),
        ("sources.list.d/a.list", "# deb http://old.test/debian bookworm main\n", None),
        ("sources.list", "deb http://a.test/debian trixie main\n", None),
        ("sources.list", "deb http://a.test/debian-security bookworm-security main\n", None),
        ("sources.list", "deb http://vendor.test/linux/debian bookworm stable\n", None),
        ("sources.list", "deb http://vendor.test/tool bookworm main\n", None),
        ("sources.list", "deb cdrom:[Debian]/ bookworm main\n", None),
        (
            "sources.list.d/debian.sources",
            "Types: deb\nURIs: http://m.test/debian\nSuites:\n bookworm\n sid\nComponents: main\n",
            "http://m.test/debian",
        ),
        (
            "sources.list.d/debian.sources",
            "Enabled: no\nTypes: deb\nURIs: http://m.test/debian\nSuites: bookworm\nComponents: main\n",
            None,
        ),
    ],
)
def test_the_mirror_is_that_of_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, expected: str | None
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / name).write_text(text)
    assert mirror("bookworm", tmp_path) == expected


def test_a_mirror_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "http://near.test/debian")
    assert mirror("bookworm", tmp_path) == "http://near.test/debian"


def test_another_recipe_is_another_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    before = image.root_filesystem()
    assert before.is_relative_to("/cache/gridwright/lab")
    monkeypatch.setattr(image, "PACKAGES", (*image.PACKAGES, "htop"))
    more = image.root_filesystem()
    monkeypatch.setattr(image, "PACKAGES", tuple(reversed(image.PACKAGES)))
    assert more != before
    assert image.root_filesystem() == more
    monkeypatch.setattr(image, "RECIPE", image.RECIPE + 1)
    assert image.root_filesystem() != more


def test_a_scheduler_with_packages_of_its_own_has_an_image_of_its_own() -> None:
    schedulers = ("ssh", "slurm", "grid_engine")
    specs = [
        parse_spec(
            f"provider: lab\nlab: {{network: 10.99.0.0/24}}\nscheduler: {{type: {name}}}\n"
            "filesystems: {disk: {type: local, path: /mnt/disk}}\n"
        )
        for name in schedulers
    ]
    ssh, slurm, grid_engine = (image.root_filesystem(image.lab_packages(each)) for each in specs)
    assert ssh == slurm == image.root_filesystem()
    assert grid_engine != slurm


def test_nodes_get_all_that_this_python_needs_and_nothing_of_the_system() -> None:
    directories = python_directories()
    code = "import os, pydantic, rich; print(pydantic.__file__, rich.__file__, os.__file__)"
    seen = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    needed = [sys.executable, gridwright.__file__, *seen.stdout.split()]
    for path in map(Path, needed):
        of_the_image = path.is_relative_to("/usr") and not path.is_relative_to("/usr/local")
        assert of_the_image or any(path.is_relative_to(each) for each in directories), path
    assert Path("/usr") not in directories
    # What a program adds to its own search path is nobody else's.
    assert Path(__file__).parents[3] not in directories
    assert Path("/") not in directories
    assert not any(a != b and a.is_relative_to(b) for a in directories for b in directories)


def test_where_users_cannot_run_gridwright_on_nodes_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes have root's home of the image, which is closed, above a Python that lies below it."""
    place = Path("/root/venv")
    monkeypatch.setattr(image, "python_directories", lambda: [Path("/opt/python"), place])
    assert str(place) in str(image.closed_python())
    monkeypatch.setattr(image, "python_directories", lambda: [Path("/opt/python"), Path("/rooted")])
    assert image.closed_python() is None


def test_the_spec_of_a_lab_on_a_node_of_it_names_one_for_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "LABS", tmp_path)
    spec = parse_spec(
        "name: alab\nprovider: lab\nlab: {network: 10.99.0.0/24}\nscheduler: {type: slurm}\n"
        "filesystems: {disk: {type: local, path: /mnt/disk}}\n"
    )
    with pytest.raises(GridwrightError, match="lab alab is not up"):
        LabHead.of(spec)
    # A node sees nothing of the lab but its state directory.
    (tmp_path / "alab" / "state").mkdir(parents=True)
    with pytest.raises(GridwrightError, match="this machine is a node of lab alab") as caught:
        LabHead.of(spec)
    assert "provider: site" in str(caught.value.problems[0].remedy)


@pytest.mark.root
def test_a_node_that_has_another_installation_names_it(tmp_path: Path) -> None:
    """A process of its own mount namespace and root, as the first one of a node is."""
    root, old = tmp_path / "root", tmp_path / "old venv"
    (old / "bin").mkdir(parents=True)
    (old / "bin/gridwright").touch()
    (root / "opt/old venv").mkdir(parents=True)
    program = (
        "import os, sys, subprocess; subprocess.run(['mount', '--bind', *sys.argv[1:3]], check=True); "
        "os.chroot(sys.argv[3]); print(flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", program, str(old), f"{root}/opt/old venv", str(root)]
    with subprocess.Popen(
        ["unshare", "--mount", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as node:
        assert node.stdout is not None
        assert node.stdout.readline() == b"\n"
        why = image.other_installation(node.pid)
        node.communicate()
    assert why is not None
    assert str(Path(sys.executable)) in why
    assert why.endswith("another installation made the lab, /opt/old venv/bin/gridwright")
    assert image.other_installation(os.getpid()) is None
