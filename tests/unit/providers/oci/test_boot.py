"""Machines on Oracle Cloud: requests that they sign, and a set-up from the first look to the report."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.boot.bundle import bundle, lean
from tests.support.boot_programs import boot_programs, sources
from tests.support.oci_instance import INSTANCE, OciInstance

MACHINE: dict[str, Any] = {
    "schema": 3,
    "name": "nsd1",
    "claim": None,
    "group": None,
    "pointer": "bundles/current/servers",
    "key": {
        "name": "munge",
        "variable": "slurm_munge_key",
        "secret": "keys/munge",
        "length": 128,
        "makes": False,
    },
}
TOLD: dict[str, Any] = {
    "bucket": "site",
    "namespace": "ns",
    "sources": {"fast": "10.0.0.3@tcp:/fast"},
}
REQUESTS = {
    "report": "/p/of-the-report/n/ns/b/site/o/boot/nsd1.json",
    "logs": "/p/of-the-logs/n/ns/b/site/o/boot-logs/nsd1/",
}
OF_THE_VAULT = "ocid1.vaultsecret.oc1..aaaa"
TEXT_OF_KEY = "s3cret-of-munge"


CLOUD = ("cloud.py", "object_store.py", "instance_principal.py")


@pytest.fixture
def cloud() -> Iterator[OciInstance]:
    made = OciInstance({"gridwright": json.dumps(TOLD), "security-credentials": json.dumps(REQUESTS)})
    made.objects["keys/munge"] = TEXT_OF_KEY.encode()
    made.secrets[OF_THE_VAULT] = "of the vault"
    yield made
    made.close()


@pytest.fixture
def programs(cloud: OciInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in cloud.environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "programs").mkdir()
    with boot_programs(tmp_path / "programs", sources("oci"), "cloud", "instance_principal") as found:
        yield found


def test_what_it_asks_is_signed_and_what_is_refused_says_why(cloud: OciInstance, programs: Any) -> None:
    me = programs["cloud"].Cloud({"bucket": "site", "namespace": "ns"})
    me.keep("targets/a b/1.json", b"lines")
    assert cloud.objects["targets/a b/1.json"] == b"lines"
    assert me.get_object(Bucket="site", Key="targets/a b/1.json")["Body"].read() == b"lines"
    assert me.secret("the key", OF_THE_VAULT) == "of the vault"
    assert len(cloud.tokens) == 1
    with pytest.raises(Exception, match="status 404 NotAuthorizedOrNotFound: not authorized or not there"):
        me.get_object(Bucket="site", Key="none")


def test_a_machine_writes_its_own_report_and_logs_and_no_others(cloud: OciInstance, programs: Any) -> None:
    """Neither by its requests nor as an instance: what another machine tells stays what that told."""
    me = programs["cloud"].Cloud({"bucket": "site", "namespace": "ns", "name": "nsd1"})
    me.find()
    cloud.faults += [503, 429]
    me.tell({"name": "nsd1", "state": "done"}, 1)
    assert json.loads(cloud.objects["boot/nsd1.json"])["state"] == "done"
    me.keep_log("1.log", b"lines")
    assert cloud.objects[f"boot-logs/nsd1/{INSTANCE}/1.log"] == b"lines"
    before = dict(cloud.objects)
    other = programs["cloud"].Cloud({"bucket": "site", "namespace": "ns", "name": "nsd2"})
    writes: list[Callable[[], object]] = [
        lambda: other.tell({"name": "nsd2", "state": "done"}, 1),
        lambda: other.keep_log("1.log", b"lines"),
        lambda: other.keep("boot/nsd2.json", b"{}"),
        lambda: other.keep("boot-logs/nsd2/1.log", b""),
        lambda: other.keep("bundles/current/nodes", b""),
    ]
    for write in writes:
        with pytest.raises(Exception, match="status 404") as refused:
            write()
        assert "/p/" not in str(refused.value), "the address of a request is a secret"
    assert cloud.objects == before


def test_a_request_that_terraform_has_not_told_yet_is_looked_for_again(
    cloud: OciInstance, programs: Any
) -> None:
    del cloud.told["security-credentials"]
    me = programs["cloud"].Cloud({"bucket": "site", "namespace": "ns", "name": "nsd1"})
    me.find()
    with pytest.raises(Exception, match="no request for its report: apply the grid anew"):
        me.tell({"name": "nsd1", "state": "running"}, 1)
    cloud.told["security-credentials"] = json.dumps(REQUESTS)
    me.tell({"name": "nsd1", "state": "done"}, 1)
    assert json.loads(cloud.objects["boot/nsd1.json"])["state"] == "done"


def test_a_token_that_ended_is_renewed_and_an_overload_is_waited_for(
    cloud: OciInstance, programs: Any
) -> None:
    me = programs["cloud"].Cloud({"bucket": "site", "namespace": "ns"})
    me.keep("a", b"1")
    cloud.tokens.clear()
    cloud.faults += [429, 503]
    me.keep("a", b"2")
    assert cloud.objects["a"] == b"2"
    assert len(cloud.tokens) == 1
    # One refusal after the other is no reason to ask for ever.
    cloud.faults += [401] * 9
    with pytest.raises(Exception, match="status 401"):
        me.keep("a", b"3")
    assert len(cloud.faults) == 7


def test_attachments_are_read_page_by_page(cloud: OciInstance, programs: Any) -> None:
    cloud.attachments = [{"id": f"a{number}"} for number in range(5)]
    assert programs["cloud"].Cloud({}).attachments() == cloud.attachments


def test_no_key_is_on_a_command_line(programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    principal = programs["instance_principal"]
    seen: list[list[str]] = []
    real = subprocess.run

    def watched(command: list[str], **how: Any) -> Any:
        seen.append(command)
        return real(command, **how)

    monkeypatch.setattr(principal.subprocess, "run", watched)
    programs["cloud"].Cloud({"bucket": "site", "namespace": "ns"}).keep("a", b"1")
    assert [command[1] for command in seen] == ["genrsa", "rsa", "x509", "dgst", "dgst"]
    assert all("PRIVATE KEY" not in word for command in seen for word in command)


def machine(root: Path) -> dict[str, str]:
    """User data have been written, by cloud-init."""
    home = root / "var/lib/gridwright"
    (root / "etc/gridwright").mkdir(parents=True)
    home.mkdir(parents=True)
    (root / "dev").mkdir()
    (root / "etc/gridwright/machine.json").write_text(json.dumps(MACHINE))
    for name in ("fetch.py", "begin.py", "object_store.py", "instance_principal.py", "begin.sh"):
        text = lean(sources("oci")[name]) if name.endswith(".py") else BEGIN.read_text()
        (home / name).write_text(text)
    return {**os.environ, "GRIDWRIGHT_ROOT": str(root)}


BEGIN = Path(__file__).parents[4] / "src/gridwright/providers/oci/boot/begin.sh"


def upload(cloud: OciInstance, set_up: str) -> str:
    """A bundle whose program does `set_up` in place of installing and playing."""
    text = sources("oci")["set_up.py"]
    head, _, tail = text.partition('if __name__ == "__main__":')
    programs = {name: sources("oci")[name] for name in CLOUD}
    programs |= {"system_packages.py": sources("oci")["system_packages.py"]}
    files = {f"boot/{name}": each for name, each in programs.items()}
    files |= {"boot/variables.json": '{"from": "the bundle"}', "boot/distributions.json": "[]"}
    files["boot/set_up.py"] = f'{head}\n{set_up}\n\nif __name__ == "__main__":{tail}'
    made = bundle(files)
    cloud.objects[made.key] = made.content
    cloud.objects[MACHINE["pointer"]] = made.key.encode() + b"\n"
    return made.key


WORKS = (
    "install = lambda: None\nset_name = lambda name: None\nplay = lambda name, extra: say('played ' + name)"
)


def begin(root: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    with (root / "log").open("a+") as log:
        environment = {**environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        script = ["/bin/sh", str(root / "var/lib/gridwright/begin.sh")]
        return subprocess.run(
            script, env=environment, stdout=log, stderr=log, text=True, timeout=60, check=False
        )


def test_a_machine_sets_itself_up_and_tells_so(cloud: OciInstance, tmp_path: Path) -> None:
    environment = machine(tmp_path) | cloud.environment
    (tmp_path / "var/log").mkdir()
    (tmp_path / "var/log/gridwright-boot.log").write_text("")
    key = upload(cloud, WORKS)
    done = begin(tmp_path, environment)
    assert done.returncode == 0, (tmp_path / "log").read_text()
    report = json.loads(cloud.objects["boot/nsd1.json"])
    assert {name: report[name] for name in ("name", "state", "bundle", "tries")} == {
        "name": "nsd1",
        "state": "done",
        "bundle": key,
        "tries": 1,
    }
    etc = tmp_path / "etc/gridwright"
    assert (etc / "munge.key").read_text() == TEXT_OF_KEY
    assert (etc / "munge.key").stat().st_mode & 0o777 == 0o600
    told = json.loads((etc / "sources.json").read_text())
    assert told["gridwright_sources"] == TOLD["sources"]
    assert told["slurm_munge_key"] == str(etc / "munge.key")
    assert TEXT_OF_KEY not in (tmp_path / "log").read_text()
    # Nothing is new: nothing is done.
    del cloud.objects["boot/nsd1.json"]
    assert begin(tmp_path, environment).returncode == 0
    assert "boot/nsd1.json" not in cloud.objects


def test_what_terraform_tells_anew_sets_the_machine_up_again(cloud: OciInstance, tmp_path: Path) -> None:
    environment = machine(tmp_path) | cloud.environment
    upload(cloud, WORKS)
    (tmp_path / "var/log").mkdir()
    (tmp_path / "var/log/gridwright-boot.log").write_text("")
    assert begin(tmp_path, environment).returncode == 0
    cloud.told["gridwright"] = json.dumps({**TOLD, "sources": {"fast": "10.0.0.9@tcp:/fast"}})
    assert begin(tmp_path, environment).returncode == 0
    told = json.loads((tmp_path / "etc/gridwright/sources.json").read_text())
    assert told["gridwright_sources"] == {"fast": "10.0.0.9@tcp:/fast"}


def test_a_failure_is_told_with_its_reason_and_its_log_is_kept(cloud: OciInstance, tmp_path: Path) -> None:
    environment = machine(tmp_path) | cloud.environment
    (tmp_path / "var/log").mkdir()
    (tmp_path / "var/log/gridwright-boot.log").write_text("lines of this try\n")
    upload(cloud, "def install():\n    raise Failed('no ansible here')")
    assert begin(tmp_path, environment).returncode == 1
    report = json.loads(cloud.objects["boot/nsd1.json"])
    assert (report["state"], report["reason"]) == ("failed", "no ansible here")
    assert [key for key in cloud.objects if key.startswith(f"boot-logs/nsd1/{INSTANCE}/")]


def test_what_is_not_told_is_named(cloud: OciInstance, tmp_path: Path) -> None:
    cloud.told["gridwright"] = json.dumps({})
    assert begin(tmp_path, machine(tmp_path) | cloud.environment).returncode == 1
    words = "metadata gridwright of this instance lacks bucket, namespace: apply the grid anew"
    assert words in (tmp_path / "log").read_text()


def test_the_head_node_makes_the_key_once_and_others_wait_for_it(cloud: OciInstance, programs: Any) -> None:
    del cloud.objects["keys/munge"]
    store = {"bucket": "site", "namespace": "ns"}
    node = programs["cloud"].Cloud({**store, "key": MACHINE["key"]})
    with pytest.raises(Exception, match=r"the key: .*status 404"):
        node.secret("the key", "keys/munge")
    head = programs["cloud"].Cloud({**store, "key": {**MACHINE["key"], "makes": True}})
    made = head.secret("the key", "keys/munge")
    assert re.fullmatch("[A-Za-z0-9]{128}", made)
    assert head.secret("the key", "keys/munge") == node.secret("the key", "keys/munge") == made


def test_a_bundle_that_was_changed_on_its_way_is_refused(cloud: OciInstance, tmp_path: Path) -> None:
    environment = machine(tmp_path) | cloud.environment
    key = upload(cloud, WORKS)
    other = io.BytesIO()
    with tarfile.open(fileobj=other, mode="w:gz"):
        pass
    cloud.objects[key] = other.getvalue()
    assert begin(tmp_path, environment).returncode == 1
    assert "does not hold what its name says" in (tmp_path / "log").read_text()


def test_programs_are_for_the_python_of_red_hat_9() -> None:
    for text in sources("oci").values():
        ast.parse(text, feature_version=(3, 9))


@pytest.mark.parametrize("name", ["fetch.py", "begin.py", "object_store.py", "instance_principal.py"])
def test_what_user_data_carry_is_the_same_program(name: str) -> None:
    source = sources("oci")[name]

    def without_texts(text: str) -> str:
        tree = ast.parse(text)
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                kept = [
                    each
                    for each in body
                    if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
                ]
                node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
        return ast.dump(tree)

    assert without_texts(lean(source)) == without_texts(source)
    assert len(lean(source)) < len(source)


def test_what_looks_like_a_comment_in_a_text_stays() -> None:
    source = 'def a():\n    """Words."""\n\n\n# gone\nb = """\n# stays\n\n"""\n'
    assert lean(source) == 'def a():\n    pass\nb = """\n# stays\n\n"""\n'
