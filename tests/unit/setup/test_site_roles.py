"""A site's own roles: what is refused of them, where they run, and what a change of one sets up again."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.providers.aws.changes import deployment
from gridwright.setup import playbook
from gridwright.setup.playbook import Hosts, playbook_files
from gridwright.spec import GridSpec, load_spec, parse_spec
from tests.support.aws_grid import LUSTRE

SPEC = "filesystems: {disk: {type: local, path: /data}}\n"
TASKS = "---\n- name: Say so\n  ansible.builtin.debug:\n    msg: here\n"
HOSTS = Hosts.named(compute=["compute1"])


def role(directory: Path, name: str) -> Path:
    tasks = directory / "roles" / name / "tasks"
    tasks.mkdir(parents=True)
    (tasks / "main.yml").write_text(TASKS)
    return tasks.parent


def spec_of(directory: Path, setup: str, text: str = SPEC) -> GridSpec:
    file = directory / "grid.yaml"
    file.write_text(f"{text}setup: {setup}\n")
    return load_spec(file)


def refused(directory: Path, setup: str) -> dict[str, str]:
    """What is refused, by its place in the spec; the remedy of all is given."""
    with pytest.raises(GridwrightError) as caught:
        playbook_files(spec_of(directory, setup), HOSTS)
    assert caught.value.status is ExitStatus.INPUT
    assert all(
        each.remedy and (each.where or "").startswith(str(directory)) for each in caught.value.problems
    )
    return {str(each.field): each.what for each in caught.value.problems}


def test_roles_run_before_and_after_ours_with_their_files_and_variables(tmp_path: Path) -> None:
    role(tmp_path, "ad")
    files = role(tmp_path, "sas") / "files"
    files.mkdir()
    (files / "plan.bin").write_bytes(b"\xff\x00")
    setup = (
        "{before: [roles/ad], after: [./roles/sas], only_on: {sas: [compute]}, variables: {depot: [1, a]}}"
    )
    made = playbook_files(spec_of(tmp_path, setup), HOSTS)
    yaml = YAML(typ="safe")
    tasks = yaml.load(str(made["site.yml"]))[1]["tasks"]
    named = [each["ansible.builtin.include_role"]["name"] for each in tasks]
    assert (named[:2], named[-1]) == (["ad", "base"], "sas")
    assert [tasks[number]["when"] for number in (0, -1)] == [
        "group_names | intersect(['compute', 'head', 'machines']) | length > 0",
        "group_names | intersect(['compute']) | length > 0",
    ]
    assert made["roles/sas/files/plan.bin"] == b"\xff\x00"
    assert yaml.load(str(made["group_vars/all.yml"]))["depot"] == [1, "a"]


def test_a_role_runs_on_one_group_of_machines_alone(tmp_path: Path) -> None:
    role(tmp_path, "sas")
    text = SPEC + "scheduler: {type: slurm}\nmachines: {mid-tier: {hosts: web1}}\n"
    (tmp_path / "grid.yaml").write_text(text + "setup: {after: [roles/sas], only_on: {sas: [mid-tier]}}\n")
    spec = load_spec(tmp_path / "grid.yaml")
    made = playbook_files(spec, HOSTS.with_machines(spec))
    when = YAML(typ="safe").load(str(made["site.yml"]))[1]["tasks"][-1]["when"]
    # A group of an inventory takes no hyphen.
    assert when == "group_names | intersect(['mid_tier']) | length > 0"
    apart = playbook_files(spec, HOSTS.with_machines(spec), groups=("compute", "head"))
    assert "roles/sas/tasks/main.yml" not in apart


def test_a_spec_without_roles_has_the_playbook_that_it_had(tmp_path: Path) -> None:
    role(tmp_path, "sas")
    plain = playbook_files(parse_spec(SPEC), HOSTS)
    with_role = playbook_files(spec_of(tmp_path, "{after: [roles/sas]}"), HOSTS)
    assert {name for name in with_role if with_role[name] != plain.get(name)} == {
        "site.yml",
        "roles/sas/tasks/main.yml",
    }
    assert "ROLES OF" not in str(plain["site.yml"])


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "roles/bare").mkdir(parents=True)
    for name in ("base", "sas", "My-Role", "large"):
        role(tmp_path, name)
    monkeypatch.setattr(playbook, "LARGEST_BYTES", 4096)
    (tmp_path / "roles/large/depot.zip").write_bytes(bytes(4097))
    (tmp_path / "roles/sas/link").symlink_to("/etc/passwd")
    listed = "roles/gone, roles/bare, roles/base, roles/sas, roles/sas, roles/My-Role, roles/large"
    found = refused(tmp_path, f"{{after: [{listed}], only_on: {{sass: [head]}}}}")
    assert found == {
        "setup.after.0": f"there is no directory {tmp_path}/roles/gone",
        "setup.after.1": f"{tmp_path}/roles/bare has no tasks/main.yml",
        "setup.after.2": "Gridwright has a role base of its own",
        "setup.after.3": f"{tmp_path}/roles/sas/link is no plain file",
        "setup.after.4": f"{tmp_path}/roles/sas/link is no plain file",
        "setup.after.5": "My-Role is not a name of a role",
        "setup.after.6": f"{tmp_path}/roles/large has more than 0 MiB or 1000 files, "
        "and each machine fetches them",
        "setup.only_on.sass": "the spec has no role sass",
    }


def test_a_role_runs_once(tmp_path: Path) -> None:
    role(tmp_path, "sas")
    found = refused(tmp_path, "{before: [roles/sas], after: [roles/sas]}")
    assert found == {"setup.after.0": "there are two roles sas"}


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ("{ad_password: hunter2}", "ad_password"),
        ("{ad: {users: [{bind_secret: hunter2}]}}", "ad.users[0].bind_secret"),
        ("{note: 'id AKIAIOSFODNN7EXAMPLE here'}", "note"),
        ('{pem: "-----BEGIN RSA PRIVATE KEY-----"}', "pem"),
        ("{tokens: [hunter2]}", "tokens[0]"),
    ],
)
def test_secrets_stay_out_of_the_spec(tmp_path: Path, variables: str, named: str) -> None:
    with pytest.raises(GridwrightError, match="looks like a secret") as caught:
        spec_of(tmp_path, f"{{variables: {variables}}}")
    (problem,) = caught.value.problems
    assert problem.what.startswith(f"{named} looks")
    assert "hunter2" not in problem.what


def test_what_only_names_a_secret_is_taken(tmp_path: Path) -> None:
    named = {
        "bind_password_file": "/etc/sssd/bind",
        "bind_secret": "arn:aws:secretsmanager:us-east-1:123456789012:secret:ad-AbCdEf",
        "api_token": "{{ lookup('file', '/root/token') }}",
        "tokens_per_minute": 5,
    }
    assert spec_of(tmp_path, f"{{variables: {named}}}").setup.variables == named


@pytest.mark.parametrize("name", ["gridwright_mounts", "ansible_user", "my-depot"])
def test_variables_that_are_not_a_site_s_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(GridwrightError, match=name):
        spec_of(tmp_path, f"{{variables: {{{name}: 1}}}}")


def keys(directory: Path, setup: str) -> tuple[str, str]:
    """Keys of the bundles of nodes and of servers on AWS."""
    made = deployment(
        spec_of(directory, setup, LUSTRE if LUSTRE.endswith("\n") else f"{LUSTRE}\n")
    ).machines.bundles
    return made["nodes"].key, made["servers"].key


@pytest.mark.parametrize(
    ("where", "changes"),
    [("", (True, False)), (", only_on: {sas: [storage]}", (False, True))],
    ids=["nodes", "servers"],
)
def test_a_changed_role_sets_up_only_those_that_run_it(
    tmp_path: Path, where: str, changes: tuple[bool, bool]
) -> None:
    directory = role(tmp_path, "sas")
    setup = f"{{after: [roles/sas]{where}}}"
    before = keys(tmp_path, setup)
    assert keys(tmp_path, setup) == before
    (directory / "__pycache__").mkdir()
    (directory / "__pycache__/x.pyc").write_bytes(b"1")
    assert keys(tmp_path, setup) == before
    (directory / "tasks/main.yml").write_text(TASKS.replace("here", "there"))
    after = keys(tmp_path, setup)
    assert tuple(old != new for old, new in zip(before, after, strict=True)) == changes
