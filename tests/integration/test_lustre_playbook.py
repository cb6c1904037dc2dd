"""Tasks of the playbook that a real Lustre broke, run by ansible-playbook in check mode on this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
BASE = ROOT / "src/gridwright/setup/ansible"
CLIENT = ROOT / "src/gridwright/filesystems/lustre_client/roles"
INSTANCE = "ffff8aa3b3282800"
IMPORT = ROOT / "tests/fixtures/lustre/052-param-mdc-import.out"


def play(
    directory: Path,
    tasks: list[dict[str, Any]],
    variables: dict[str, Any],
    path: str = "",
    *,
    check: bool = True,
) -> str:
    """Run tasks; what Ansible printed, whatever came of it."""
    file = directory / "play.yml"
    head = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": tasks}
    file.write_text(json.dumps([head]))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "--connection", "local",
         *(["--check"] if check else []), "--extra-vars",
         "ansible_python_interpreter=/usr/bin/python3", file],
        env={
            **kept, "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(directory / "home"),
            "ANSIBLE_ROLES_PATH": f"{BASE / 'roles'}:{CLIENT}", "PATH": f"{path}:{os.environ['PATH']}",
            "ANSIBLE_FILTER_PLUGINS": str(BASE / "filter_plugins"),
        },
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def facts_of_base() -> set[str]:
    """The names of all facts that role base sets: each hides a variable of a task that has its name."""
    found: set[str] = set()
    for file in (BASE / "roles/base/tasks").glob("*.yml"):
        for task in YAML(typ="safe").load(file) or []:
            found |= set(task.get("ansible.builtin.set_fact", {}))
    return found


@pytest.mark.thorough
def test_a_mount_is_judged_whatever_facts_the_base_has_set(tmp_path: Path) -> None:
    facts = sorted(facts_of_base())
    assert "base_there" in facts
    mount = {"path": "/proc", "source": "10.0.0.1@tcp:/scratch", "type": "lustre", "options": "flock"}
    tasks: list[dict[str, Any]] = [
        {"ansible.builtin.set_fact": {name: ["/run/udev/control"] for name in facts}},
        {"ansible.builtin.include_role": {"name": "base", "tasks_from": "mount.yml"}},
    ]
    said = play(tmp_path, tasks, {"base_mount": mount})
    assert "has no attribute" not in said
    assert "proc is mounted on /proc, not 10.0.0.1@tcp:/scratch." in " ".join(said.split())
    free = {**mount, "path": str(tmp_path / "free")}
    said = play(tmp_path, tasks, {"base_mount": free})
    assert "failed=0" in said
    assert "not mounted -> 10.0.0.1@tcp:/scratch" in said


@pytest.fixture
def lctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with lctl, and the recorded parameters behind it."""
    recorded = (ROOT / "tests/fixtures/lustre/drop-max-mod-rpcs.out").read_text()
    state = dict(re.findall(r"^((?:osc|mdc)\.\S+)=(\d+)$", recorded.partition("error:")[0], re.MULTILINE))
    state = {
        name: "8" if "rpcs_in_flight" in name and "osc" in name else value for name, value in state.items()
    }
    state[f"mdc.scratch-MDT0000-mdc-{INSTANCE}.import"] = "\n" + IMPORT.read_text().partition("=\n")[2]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/lctl").symlink_to(ROOT / "tests/support/lustre_double/lctl")
    limited(tmp_path, state, 8)
    monkeypatch.setenv("LCTL_DOUBLE", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path


def limited(place: Path, parameters: Mapping[str, str], limit: int) -> None:
    """Have lctl these parameters, and its server take so many modifying requests."""
    state = {"parameters": parameters, "limits": {"max_mod_rpcs_in_flight": limit}, "set": []}
    (place / "state").write_text(json.dumps(state))


def state_of(place: Path) -> Any:
    return json.loads((place / "state").read_text())


ROWS = [
    {"name": "lustre-rpcs-in-flight", "key": "osc.*.max_rpcs_in_flight", "wanted": 16, "compare": "at-least"},
    {
        "name": "lustre-metadata-changes", "key": "mdc.*.max_mod_rpcs_in_flight", "wanted": 15,
        "compare": "at-least", "bounded_by": "max_mod_rpcs",
    },
]  # fmt: skip


def rendered(directory: Path) -> Path:
    from jinja2 import Environment, select_autoescape

    template = (CLIENT / "lustre_client/templates/lustre-client.sh.j2").read_text()
    program = directory / "lustre-client.sh"
    program.write_text(
        Environment(trim_blocks=True, autoescape=select_autoescape())
        .from_string(template)
        .render(base_rows={"lustre-client": ROWS})
    )
    return program


def test_a_client_is_set_as_far_as_its_server_allows_and_a_servers_own_connections_are_left(
    lctl: Path,
) -> None:
    program = rendered(lctl)
    done = subprocess.run(["/bin/sh", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert state_of(lctl)["set"] == [
        f"osc.scratch-OST0000-osc-{INSTANCE}.max_rpcs_in_flight=16",
        f"osc.scratch-OST0001-osc-{INSTANCE}.max_rpcs_in_flight=16",
        f"mdc.scratch-MDT0000-mdc-{INSTANCE}.max_mod_rpcs_in_flight=8",
    ]
    again = subprocess.run(["/bin/sh", program], capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode == 0
    assert len(state_of(lctl)["set"]) == 3


def test_what_a_server_refuses_is_named_and_fails_no_play(lctl: Path) -> None:
    limited(lctl, state_of(lctl)["parameters"], 7)
    done = subprocess.run(
        ["/bin/sh", rendered(lctl)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert f"not set: mdc.scratch-MDT0000-mdc-{INSTANCE}.max_mod_rpcs_in_flight=8" in done.stderr


def test_the_play_wants_of_a_client_what_its_server_allows(lctl: Path) -> None:
    tasks: list[dict[str, Any]] = [
        {"ansible.builtin.include_role": {"name": "lustre_client", "tasks_from": "parameters.yml"}}
    ]
    variables = {"base_rows": {"lustre-client": ROWS}, "ansible_facts": {"service_mgr": "none"}}
    said = play(lctl, tasks, variables, str(lctl / "bin"))
    assert "failed=0" in said, said[-2000:]
    assert "osc.*.max_rpcs_in_flight: 8 -> 16" in said
    assert "mdc.*.max_mod_rpcs_in_flight: 7 -> 8" in said
    subprocess.run(["/bin/sh", rendered(lctl)], timeout=60, check=True)
    assert "->" not in play(lctl, tasks, variables, str(lctl / "bin"))
