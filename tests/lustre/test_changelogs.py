"""Exports by changelogs of a real Lustre, some of which are killed; and records as their model has them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

import gridwright
from tests.support import changelog_model
from tests.support.lustre_vm import LustreMachine
from tests.support.object_store import BUCKET, StoreServer

MDT, FILE = "testfs-MDT0000", "/root/changelog.json"
PLACE, MODEL = "/mnt/lustre/changes", "/mnt/lustre/modelled"
"""Below the first each test has a directory of its own."""
FIRST = """
mkdir year d && for i in $(seq 30); do echo $i >year/$i; done
for i in kept grown cut linked over moved gone; do echo $i >$i; done
"""
THEN = """
for i in $(seq 100 160); do echo $i >d/$i; done
echo more >>grown; : >cut; ln linked link; mv moved over; mv year last; rm gone; chmod 600 kept
ln -s kept symlink; mkdir new && echo new >new/file; touch -d 2020-01-01 last/7
"""
MEANWHILE = "echo again >>grown; mv last/8 d/8; echo late >late; rm link"
KILLED = f"""
index() {{ lctl get_param -n mdd.{MDT}.changelog_users | sed -n 's/^USER[- ][^ ]* *\\([0-9]*\\).*/\\1/p'; }}
before=$(index)
setsid sh -c COMMAND >/tmp/killed.log 2>&1 </dev/null &
for i in $(seq 1500); do
  [ "$(index)" != "$before" ] && break
  kill -0 $! 2>/dev/null || exit 3
  sleep 0.02
done
sleep PAUSE
kill -KILL -$!
"""
"""Killed once the records are given up: from then on only its own state knows of them."""
RECORDS = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, "/root")
from changelog_model import LustreModel
from gridwright.repository.changelog.lustre_source import LustreSource
from gridwright.repository.changelog.records import ChangeType as T

NAMED = (T.CREATE, T.MKDIR, T.HARDLINK, T.SOFTLINK, T.UNLINK, T.RMDIR, T.RENAME)

class Real(LustreModel):
    def note(self, *given):
        pass

def work(lustre):
    lustre.mkdir(b"d")
    lustre.create(b"a", b"content")
    lustre.create(b"empty")
    lustre.create(b"d/b", b"b")
    lustre.link(b"a", b"d/link")
    lustre.symlink(b"a", b"symlink")
    lustre.rename(b"d/b", b"c")
    lustre.rename(b"c", b"empty")
    lustre.rename(b"a", b"d/link")
    lustre.rename(b"d", b"e")
    lustre.chmod(b"e/link", 0o600)
    lustre.chmod(b"e/link", 0o640)
    lustre.touch(b"a", 10**18)
    lustre.truncate(b"a", 3)
    lustre.setxattr(b"a", b"x")
    lustre.write_and_close(lustre.open(b"a"), b"more")
    held = lustre.open(b"empty")
    lustre.unlink(b"empty")
    lustre.write_and_close(held, b"gone")
    lustre.unlink(b"e/link")
    lustre.unlink(b"a")
    lustre.unlink(b"symlink")
    lustre.rmdir(b"e")

def told(records):
    labels = {None: None}
    # A record without a name has the parent that was in its memory before.
    parent = lambda each: each.parent if each.type in NAMED else None
    fids = lambda each: (each.target, parent(each), each.source, each.source_parent)
    return [
        [each.type.name, *(labels.setdefault(fid, len(labels)) for fid in fids(each))] for each in records
    ]

mdt, real, modelled = sys.argv[1:]
model = LustreModel(Path(modelled))
log = model.logs["scratch-MDT0000"]
log.register()
work(model)
source = LustreSource(Path("/mnt/lustre"))
first = max((each.index for each in source.records(mdt, 0)), default=0) + 1
work(Real(Path(real)))
print(json.dumps([told(log.records), told(source.records(mdt, first))]))
"""


@dataclass(frozen=True)
class Exported:
    """Directories of a file system whose changelog has a user of ours."""

    machine: LustreMachine
    store: StoreServer
    user: str

    def words(self, verb: str, name: str, *more: str) -> list[str]:
        return ["repo", verb, "--directory", f"{PLACE}/{name}", "--bucket", f"s3://{BUCKET}/{name}", *more]

    def export(self, name: str) -> str:
        return self.machine.gridwright(*self.words("export", name, "--changelog", FILE, "--deletions")).out

    def killed(self, name: str, pause_s: float) -> None:
        """An export that is killed so long after it has given up records."""
        command = shlex.quote(self.machine.command(*self.words("export", name, "--changelog", FILE)))
        script = KILLED.replace("USER", self.user).replace("PAUSE", str(pause_s)).replace("COMMAND", command)
        self.machine.run(script)

    def files(self, name: str) -> dict[str, str]:
        """SHA-256 of each file."""
        told = self.machine.run(f"cd {PLACE}/{name} && find . -type f -exec sha256sum {{}} +").out
        return {name.removeprefix("./"): sum_ for sum_, name in (each.split() for each in told.splitlines())}

    def objects(self, name: str) -> dict[str, str]:
        """SHA-256 of each object of a file."""
        client, found = self.store.client(), {}
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{name}/"):
            for each in page.get("Contents", ()):
                key = each["Key"].removeprefix(f"{name}/")
                if key.startswith(".gridwright/") or key.endswith("/") or key in ("", "symlink"):
                    continue
                body = client.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read()
                found[key] = hashlib.sha256(body).hexdigest()
        return found


@pytest.fixture(scope="module")
def exported(lustre: LustreMachine, lustre_store: StoreServer) -> Iterator[Exported]:
    """A directory that nobody has exported, and a registered user."""
    role = Path(gridwright.__file__).parent / "filesystems/lustre/roles/lustre_changelog/defaults/main.yml"
    types = ",".join(yaml.safe_load(role.read_text())["lustre_changelog_types"])
    register = f"lctl --device {MDT} changelog_register -u gw-test -m {types}"
    lustre.run(register)
    try:
        lustre.run(f"mkdir -p {PLACE} {MODEL} /tmp/modelled")
        yield Exported(lustre, lustre_store, as_setup_writes(lustre))
    finally:
        lustre.run(f"lctl --device {MDT} changelog_deregister -u gw-test; rm -rf {PLACE} {MODEL}")


def as_setup_writes(lustre: LustreMachine) -> str:
    """The registered user, which is in the file now with the records that it has given up."""
    known = lustre.run(f"lctl get_param -n mdd.{MDT}.changelog_users").out
    found = re.search(r"^(cl\d+)-gw-test +(\d+)", known, re.MULTILINE)
    assert found is not None, known
    users = {MDT: {"user": found[1], "index": int(found[2])}}
    lustre.run(f"cat >{FILE}", given=json.dumps({"mount": "/mnt/lustre", "users": users}).encode())
    return found[1]


def test_the_model_notes_what_lustre_notes(exported: Exported) -> None:
    machine = exported.machine
    machine.run("cat >/root/changelog_model.py", given=Path(changelog_model.__file__).read_bytes())
    modelled, real = json.loads(machine.python(RECORDS, MDT, MODEL, "/tmp/modelled"))
    assert modelled == real


@pytest.mark.thorough
@pytest.mark.parametrize("pause_s", [0, 1])
def test_a_kill_after_records_were_given_up_loses_no_change(exported: Exported, pause_s: int) -> None:
    name = f"killed-{pause_s}"
    # Lustre may have removed by now what the test before has given up.
    as_setup_writes(exported.machine)
    exported.machine.run(f"mkdir {PLACE}/{name} && cd {PLACE}/{name}\n{FIRST}")
    assert "all files were looked at: nothing was scanned yet" in exported.export(name)
    exported.machine.run(f"cd {PLACE}/{name}\n{THEN}")
    exported.killed(name, pause_s)
    exported.machine.run(f"cd {PLACE}/{name}\n{MEANWHILE}")
    assert "changelogs named" in exported.export(name)
    assert exported.objects(name) == exported.files(name)


@pytest.mark.thorough
def test_status_tells_how_far_changelogs_are_read(exported: Exported) -> None:
    exported.machine.run(f"mkdir {PLACE}/status && echo one >{PLACE}/status/one")
    exported.export("status")
    words = exported.words("status", "status", "--changelog", FILE, "--json")
    (status,) = exported.machine.gridwright(*words).json["repositories"]
    (changelog,) = status["changelogs"]
    assert changelog["mdt"] == MDT
    assert changelog["user"] == exported.user


REGISTERED = f"""
lctl --device {MDT} changelog_register -u gw-double -m CREAT,MKDIR
lctl get_param 'mdd.*-MDT*.changelog_users'
lctl --device {MDT} changelog_deregister -u gw-double
lctl get_param 'mdd.*-MDT*.changelog_users'
"""


def test_the_double_of_lctl_registers_users_as_lustre_does(lustre: LustreMachine, tmp_path: Path) -> None:
    (tmp_path / "mdts.json").write_text(json.dumps({MDT: {"index": 0, "last": 0, "users": {}}}))
    double = Path(changelog_model.__file__).parent / "lustre_double"
    environment = {"LCTL_DOUBLE": f"{tmp_path}/mdts.json", "PATH": f"{double}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["sh", "-ec", REGISTERED],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    assert _without_others(ended.stdout.decode()) == _without_others(lustre.run(REGISTERED).out)


def _without_others(said: str) -> list[str]:
    """Without other users, numbers and the width of columns."""
    lines = [" ".join(re.sub(r"\d+", "N", each).split()) for each in said.splitlines()]
    return [each for each in lines if "gw-double" in each or not each.startswith("cl")]
