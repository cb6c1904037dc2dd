"""The role that registers users of Lustre's changelogs, run by Ansible against a double of lctl."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gridwright.repository.changelog.changes import RegisteredUsers
from gridwright.spec import parse_spec
from gridwright.spec.linked import changelog_user
from gridwright.spec.model import GridSpec
from tests.support import role_play
from tests.support.role_play import write_roles

LCTL = Path(__file__).parents[1] / "support" / "lustre_double" / "lctl"


def spec_of(export: str) -> GridSpec:
    return parse_spec(
        "name: demo\nnodes: {compute: {count: 1, cores: 4, memory: 32 GiB}}\n"
        "filesystems: {shared: {type: lustre, path: /lustre, source: '10.0.0.1@tcp:/scratch'}}\n"
        "libraries: {data: {filesystem: shared}}\n"
        f"repositories: {{archive: {{library: data, bucket: s3://site/prod, export: {export}}}}}\n"
        "scheduler: {type: slurm}\n",
        base=Path("/base"),
    )


def play(place: Path, *specs: GridSpec) -> str:
    """Run both roles for each spec, on a host that serves MDTs and exports; what was printed."""
    tasks: list[dict[str, Any]] = []
    for number, spec in enumerate(specs):
        write_roles(place, spec, "lustre_changelog", "repository")
        wanted = playbook_variables(spec)
        told = {
            "gridwright_changelogs": wanted,
            "repository_carries": True,
            "repository_registered_in": f"{place}/etc",
            "lustre_changelog_made": f"{place}/made.json",
        }
        tasks += [
            {
                "name": f"Run {number}",
                "ansible.builtin.include_role": {"name": role},
                "vars": told,
            }
            for role in ("lustre_changelog", "repository")
        ]
        tasks.append(
            {
                "name": "Keep what is there",
                "ansible.builtin.command": f"cp -a {place}/etc {place}/etc-{number}",
                "changed_when": False,
            }
        )
    (place / "bin").mkdir(exist_ok=True)
    (place / "bin" / "lctl").unlink(missing_ok=True)
    (place / "bin" / "lctl").symlink_to(LCTL)
    environment = {"LCTL_DOUBLE": str(place / "mdts.json"), "PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
    return role_play.play(place, tasks, world=(), environment=environment)


def playbook_variables(spec: GridSpec) -> list[dict[str, str]]:
    from gridwright.setup.playbook import changelog_variables

    return changelog_variables(spec)["gridwright_changelogs"]


def mdts(place: Path) -> dict[str, Any]:
    return dict(json.loads((place / "mdts.json").read_text()))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A host with two MDTs of the file system, one of another, and a user of somebody else's."""
    state = {
        "scratch-MDT0000": {"index": 18, "last": 1, "users": {"cl1": {"name": "", "index": 4, "mask": ""}}},
        "scratch-MDT0001": {"index": 0, "last": 0, "users": {}},
        "home-MDT0000": {"index": 5, "last": 0, "users": {}},
    }
    (tmp_path / "mdts.json").write_text(json.dumps(state))
    return tmp_path


@pytest.mark.thorough
def test_users_are_registered_once_told_of_and_deregistered_with_the_spec(place: Path) -> None:
    with_changelogs, without = spec_of("{by: changelog}"), spec_of("{by: scan}")
    said = play(place, with_changelogs, with_changelogs, without)
    assert "failed=0" in said, said
    # Registered, a place made, and said so; nothing the second time; deregistered, and what was said removed.
    assert "changed=5 " in said, said
    user = changelog_user(with_changelogs, "archive")
    read = RegisteredUsers.read(place / "etc-1" / "changelog-archive.json")
    assert read.mount == Path("/lustre")
    assert [(each.mdt, each.user, each.index) for each in read.users] == [
        ("scratch-MDT0000", "cl2", 18), ("scratch-MDT0001", "cl1", 0),
    ]  # fmt: skip
    assert not (place / "etc-2" / "changelog-archive.json").exists()
    log = [each.split(" ", 4) for each in mdts(place)["log"]]
    assert [each[:4] for each in log] == [
        ["scratch-MDT0000", "changelog_register", "-u", user],
        ["scratch-MDT0001", "changelog_register", "-u", user],
        ["scratch-MDT0000", "changelog_deregister", "-u", user],
        ["scratch-MDT0001", "changelog_deregister", "-u", user],
    ]
    assert log[0][4].startswith("-m CREAT,MKDIR,")
    assert "OPEN" not in log[0][4]
    # Nobody touches the user of somebody else.
    assert list(mdts(place)["scratch-MDT0000"]["users"]) == ["cl1"]


def test_a_release_without_names_is_told_of(place: Path) -> None:
    state = mdts(place) | {"too old": True}
    (place / "mdts.json").write_text(json.dumps(state))
    said = " ".join(play(place, spec_of("{by: changelog}")).split())
    assert "take Lustre 2.15 or newer" in said
    assert "unrecognized option" in said
