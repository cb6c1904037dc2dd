"""Grids on OCI of which every two values meet, as checkov and ansible-lint see what they render to.

Examples are linted by `make lint-templates` and `make lint-playbook`; here is the whole matrix.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.oci.files import oci_files
from gridwright.spec import parse_spec
from tests.support.oci_checkov import LEFT_OUT, PARTS, judge
from tests.support.oci_matrix import matrix

LINT_S = 1500
ROLES = ("roles/", "filter_plugins/")
WRONG = {
    "wrong.yml": "---\n- hosts: all\n  tasks: []\n",
    "roles/wrong/tasks/main.yml": "---\n- name: List what is there\n  ansible.builtin.shell: ls\n",
    "group_vars/wrong.yml": "---\nlist: [1,2]\nlist: [3]\n",
}
"""A play without a name, a role with a shell that nobody needs, and variables with one twice."""


def rendered() -> dict[str, dict[str, str | bytes]]:
    return {name: dict(oci_files(parse_spec(json.dumps(spec)))[0]) for name, spec in matrix().items()}


@pytest.mark.thorough
def test_checkov_finds_nothing_in_any_of_the_matrix() -> None:
    """Checks that are left out stand in tests/support/oci_checkov.py, each with its reason."""
    roots: dict[str, Any] = {
        f"{name}/{part}": json.loads(files[f"{part}/main.tf.json"])
        for name, files in rendered().items()
        for part in PARTS
    }
    wrong = copy.deepcopy(next(root for root in roots.values() if "kms_key_id" in json.dumps(root)))
    del wrong["resource"]["oci_objectstorage_bucket"]["site"]["kms_key_id"]
    wrong["resource"]["oci_objectstorage_bucket"]["site"]["access_type"] = "ObjectRead"
    found = judge({**roots, "wrong": wrong})
    assert {each.split()[2] for each in found.problems if each.startswith("wrong: ")} == {
        "CKV_OCI_9",
        "CKV_OCI_10",
    }
    assert [each for each in found.problems if not each.startswith("wrong: ")] == []
    assert found.left_out == LEFT_OUT.keys()


@pytest.mark.thorough
@pytest.mark.timeout(LINT_S + 300)
def test_ansible_lint_finds_nothing_in_any_of_the_matrix(tmp_path: Path) -> None:
    """At the strictest profile, together: what is alike in all playbooks is linted once."""
    gathered: list[dict[str, str]] = []
    for name, files in rendered().items():
        _gather(gathered, name, {path: text for path, text in files.items() if isinstance(text, str)})
    # Roles are the same in all playbooks but for those that a playbook lacks.
    assert len(gathered) == 1
    assert len([path for path in gathered[0] if path.startswith("site-")]) > 2
    assert len([path for path in gathered[0] if path.startswith("group_vars/")]) == len(matrix())
    for path, text in (gathered[0] | WRONG).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found = _lint(tmp_path)
    assert {each.partition(":")[0] for each in found} == WRONG.keys(), "\n".join(found)


def _gather(gathered: list[dict[str, str]], name: str, files: dict[str, str]) -> None:
    """Put a playbook into the first directory whose roles are its own, too; plays and variables by number."""
    roles = {path: text for path, text in files.items() if path.startswith(ROLES)}
    linted = {path: text for path, text in roles.items() if path.endswith(".yml")}
    fitting = (
        each for each in gathered if all(each.get(path, text) == text for path, text in linted.items())
    )
    directory = next(fitting, None)
    if directory is None:
        directory = {}
        gathered.append(directory)
    directory |= roles
    number = name.partition("-")[0]
    directory[f"group_vars/all{number}.yml"] = files["group_vars/all.yml"]
    if files["site.yml"] not in directory.values():
        directory[f"site-{number}.yml"] = files["site.yml"]


def _lint(directory: Path) -> list[str]:
    """One line for each fault, with its place."""
    plays = sorted(each.name for each in directory.glob("*.yml"))
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("ansible-lint"), "--offline", "--profile", "production"),
            *("--parseable", "--nocolor", "-q", *plays, "group_vars", "roles"),
        ],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=LINT_S,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert lines, done.stderr[-4000:]
    return [each for each in lines if each]
