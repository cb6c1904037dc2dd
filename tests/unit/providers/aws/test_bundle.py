"""The bundle: what is in it, under which name, the same bytes each time."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from gridwright.providers.aws.changes import deployment
from gridwright.providers.aws.claim.configuration import read_configuration
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.machine_files import CLAIM, machine_files
from gridwright.providers.boot.bundle import bundle
from gridwright.spec import load_spec, parse_spec

EXAMPLES = Path(__file__).parents[4] / "examples"


def entries(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        members = archive.getmembers()
        assert {(each.mtime, each.uid, each.gid, each.isfile()) for each in members} == {(0, 0, 0, True)}
        found = {}
        for each in members:
            file = archive.extractfile(each)
            assert file is not None
            found[each.name] = file.read()
        return found


def test_its_name_is_the_digest_of_its_content() -> None:
    made = bundle({"b": "2", "a": b"1"})
    assert made.key == f"bundles/{hashlib.sha256(made.content).hexdigest()}.tar.gz"
    assert entries(made.content) == {"a": b"1", "b": b"2"}


def test_neither_order_nor_time_of_files_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    first = bundle({"a": "1", "b": "2"})
    monkeypatch.setattr("time.time", lambda: 1e9)
    assert bundle({"b": "2", "a": "1"}) == first
    assert bundle({"a": "1", "b": "3"}).key != first.key


def test_it_has_all_that_a_machine_needs() -> None:
    made = deployment(load_spec(EXAMPLES / "aws-lustre.yaml")).machines.bundles
    found, servers = entries(made["nodes"].content), entries(made["servers"].content)
    assert set(found) >= {
        "boot/set_up.py",
        "boot/cloud.py",
        "boot/variables.json",
        "site.yml",
        "inventory.yml",
        "group_vars/all.yml",
        "slurm/slurm.conf",
        "claims/claim.pyz",
        "claims/compute-compute.json",
        "claims/shared-mds.json",
        "claims/shared-oss.json",
    }
    # A server has all that is its own, and nothing of the scheduler, nor of what replaces machines.
    assert {name for name in found if name not in servers} == {
        name for name in found if name.startswith(("slurm/", "roles/roll/", "roles/console/"))
    }
    assert YAML(typ="safe").load(servers["group_vars/all.yml"])["gridwright_slurm"] == {}


def test_servers_are_set_up_alike_whatever_jobs_need() -> None:
    text = (EXAMPLES / "aws-lustre.yaml").read_text()
    with_queue = text.replace("time: 8h", "time: 9h")
    assert with_queue != text
    before, after = (deployment(parse_spec(each)).machines.bundles for each in (text, with_queue))
    assert before["servers"] == after["servers"]
    assert before["nodes"] != after["nodes"]


def test_the_program_that_claims_reads_its_files(tmp_path: Path) -> None:
    spec = load_spec(EXAMPLES / "aws-lustre.yaml")
    layout = aws_layout(spec)
    files = machine_files(spec, layout, None).files
    claims = {path: text for path, text in files.items() if path.startswith("claims/")}
    names = set()
    for name, content in claims.items():
        if name.endswith(".json"):
            assert isinstance(content, str)
            path = tmp_path / Path(name).name
            path.write_text(content)
            names |= {slot.name for slot in read_configuration(path).slots}
    assert names == {each.name for each in layout.machines if each.replaced}
    oss = json.loads(claims["claims/shared-oss.json"])
    assert oss["mgs"] == "10.20.64.10@tcp"
    assert [each["index"] for each in oss["slots"][1]["targets"]][:1] == [len(oss["slots"][0]["targets"])]


def test_a_grid_without_claims_carries_no_program_for_them() -> None:
    text = (EXAMPLES / "aws-fsx.yaml").read_text()
    from gridwright.spec import parse_spec

    spec = parse_spec(text.replace("aws:\n", "aws:\n  replace_nodes: false\n", 1))
    assert not [
        name
        for name in entries(deployment(spec).machines.bundles["nodes"].content)
        if name.startswith("claims/")
    ]


@pytest.mark.parametrize(("replaced", "groups"), [("true", ["compute", "storage"]), ("false", ["storage"])])
def test_machines_that_are_replaced_claim_their_names(replaced: str, groups: list[str]) -> None:
    text = (
        (EXAMPLES / "aws-lustre.yaml").read_text().replace("aws:\n", f"aws:\n  replace_nodes: {replaced}\n")
    )
    found = entries(deployment(parse_spec(text)).machines.bundles["nodes"].content)
    assert YAML(typ="safe").load(found["group_vars/all.yml"])["gridwright_claims"] == groups
    assert found["roles/claim/files/claim.pyz"] == CLAIM.archive()
    tasks = {task["name"]: task for task in YAML(typ="safe").load(found["site.yml"])[1]["tasks"]}
    assert tasks["Serve Lustre"]["when"] == "gridwright_serves_lustre"
    assert "gridwright_claims" in tasks["Claim name, address and volumes"]["when"]
    assert {"roles/claim/tasks/main.yml", "roles/lustre_server/tasks/main.yml"} <= set(found)
