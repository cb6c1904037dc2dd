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
PLAYBOOK = ("roles/", "group_vars/", "site.yml")


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
def test_ansible_lint_finds_nothing_in_any_of_the_matrix(tmp_path: Path) -> None:
    """At the strictest profile: a playbook of which each play and role was linted before is left out."""
    seen: set[tuple[str, str | bytes]] = set()
    for name, files in rendered().items():
        new = {each for each in files.items() if each[0].startswith(PLAYBOOK)} - seen
        # A play is linted beside its roles.
        if any(path == "site.yml" or path.startswith("roles/") for path, _ in new):
            _lint(tmp_path / name, files)
        seen |= new
    assert len(seen) > len(matrix())


def _lint(directory: Path, files: dict[str, str | bytes]) -> None:
    for path, content in files.items():
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    lint = Path(sys.executable).with_name("ansible-lint")
    done = subprocess.run(
        [lint, "--offline", "--profile", "production", "-q", "site.yml", "group_vars", "roles"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=LINT_S,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
