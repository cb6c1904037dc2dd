"""User data of machines on AWS, run as they are, with real S3 and HTTP; Ansible and packages are fake."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import boto3
import pytest
from moto.server import ThreadedMotoServer

from gridwright.providers.aws.bundle import Bundle, bundle
from gridwright.providers.aws.layout import Machine, Role, aws_layout
from gridwright.providers.aws.user_data import user_data
from gridwright.spec import load_spec

FSX = Path(__file__).parents[2] / "examples" / "aws-fsx.yaml"
BUCKET = "site-bucket"
KEY = "s3cret-of-munge-" * 8
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}
# A claim is proven elsewhere: this one is a machine's second node.
CLAIM = """
import json, os, pathlib, sys
assert "--name-only" in sys.argv
place = pathlib.Path(os.environ["GRIDWRIGHT_ROOT"], "run/gridwright")
place.mkdir(parents=True, exist_ok=True)
wish = json.loads(pathlib.Path(sys.argv[sys.argv.index("--config") + 1]).read_text())
(place / "node.json").write_text(json.dumps({"schema": 1, "name": wish["slots"][1]["name"]}))
"""
PLAYBOOK = """#!/bin/sh
echo "$@" > "$GRIDWRIGHT_ROOT/played"
env > "$GRIDWRIGHT_ROOT/environment"
ls > "$GRIDWRIGHT_ROOT/directory"
cd "$GRIDWRIGHT_ROOT/etc/gridwright" && stat -c %a *.json munge.key > "$GRIDWRIGHT_ROOT/modes"
exit 0
"""
FAILING = """#!/bin/sh
seq 1 5000 | sed 's/^/ok: task /'
echo 'fatal: [compute2]: FAILED! => {"msg": "no package lustre-client-modules"}'
seq 1 30 | sed 's/^/a very long line of what Ansible says after a failure, number /'
exit 2
"""


@dataclass
class Listener:
    """What stands for the wait condition and the metadata service."""

    url: str
    told: list[dict[str, Any]] = field(default_factory=list)
    types: list[str | None] = field(default_factory=list)
    signalled: list[dict[str, list[str]]] = field(default_factory=list)


@pytest.fixture
def listener() -> Iterator[Listener]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path.startswith("/ready"):
                found.told.append(json.loads(body))
                found.types.append(self.headers.get("Content-Type"))
            self.answer("token")

        def do_GET(self) -> None:
            if self.path.startswith("/denied"):
                self.answer("<Error><Code>AccessDenied</Code><Message>not yours</Message></Error>", 403)
            else:
                self.answer("i-0123456789abcdef0")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found.signalled.append(parse_qs(body.decode()))
            self.answer("<SignalResourceResponse/>")

        def answer(self, text: str, status: int = 200) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Listener(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield found
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def cloud() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@dataclass
class Machines:
    """A machine that has just started, in a directory of its own."""

    cloud: str
    listener: Listener
    root: Path

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    def client(self, service: str) -> Any:
        keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
        return boto3.client(service, region_name="us-east-1", endpoint_url=self.cloud, **keys)

    def command(self, name: str, text: str) -> None:
        self.bin.mkdir(exist_ok=True)
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def upload(self, made: Bundle, content: bytes | None = None) -> None:
        self.client("s3").create_bucket(Bucket=BUCKET)
        self.client("s3").put_object(Bucket=BUCKET, Key=made.key, Body=content or made.content)

    def start(
        self, machine: Machine, bundle_key: str, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run its user data as cloud-init would."""
        secret = self.client("secretsmanager").create_secret(Name=str(uuid.uuid4()), SecretString=KEY)["ARN"]
        text = script(
            machine, ready=f"{self.listener.url}/ready?sig=a%2Fb", bundle_key=bundle_key, secret=secret
        )
        given = {
            **CREDENTIALS,
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "GRIDWRIGHT_ROOT": str(self.root),
            "GRIDWRIGHT_BOOT_PAUSE_S": "0",
            "AWS_ENDPOINT_URL": self.cloud,
            "AWS_ENDPOINT_URL_CLOUDFORMATION": self.listener.url,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.listener.url,
            **environment,
        }
        return subprocess.run(
            ["sh", "-c", text],
            env=given,
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @property
    def log(self) -> str:
        return (self.root / "var/log/gridwright-boot.log").read_text()


@pytest.fixture
def machines(cloud: str, listener: Listener, tmp_path: Path) -> Machines:
    found = Machines(cloud, listener, tmp_path)
    # The Python of the tests has boto3, as that of a machine has after its packages are installed.
    found.command("python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    found.command("ansible-playbook", PLAYBOOK)
    found.command("hostnamectl", '#!/bin/sh\necho "$2" > "$GRIDWRIGHT_ROOT/hostname"\n')
    return found


def script(machine: Machine, **given: str) -> str:
    """The shell part of its user data, as CloudFormation and cloud-init leave it."""
    spec = load_spec(FSX)
    group = "ComputeNodes" if machine.replaced else None
    text = user_data(spec, aws_layout(spec), tuple(alike(machine)), group).text
    values = {
        "AWS::StackName": "gridwright-fsx-grid",
        "AWS::Region": "us-east-1",
        "Bucket": BUCKET,
        "BundleKey": given["bundle_key"],
        "Ready": given["ready"],
        "MungeKey": given["secret"],
        "SharedDns": "fs-1.fsx.example",
        "SharedMount": "abcd",
    }
    text = re.sub(r"\$\{([A-Za-z:]+)\}", lambda found: values[found[1]], text)
    text = text.replace("${!", "${")
    part = text.split("--gridwright")[2]
    return part.partition("\n\n")[2]


def alike(machine: Machine) -> list[Machine]:
    return [each for each in aws_layout(load_spec(FSX)).machines if each.role is machine.role]


def machine_of(role: Role) -> Machine:
    return aws_layout(load_spec(FSX)).of_role(role)[0]


def files(**more: str) -> Bundle:
    claims = {"slots": [{"name": "compute1"}, {"name": "compute2"}]}
    content: Mapping[str, str] = {
        "site.yml": "[]\n",
        "claims/claim.pyz": CLAIM,
        "claims/compute-compute.json": json.dumps(claims),
    }
    return bundle({**content, **more})


def test_a_node_takes_its_name_and_runs_the_playbook_on_itself(machines: Machines) -> None:
    made = files()
    machines.upload(made)
    done = machines.start(machine_of(Role.COMPUTE), made.key)
    assert done.returncode == 0, machines.log
    assert (machines.root / "played").read_text().split() == [
        *("-i", "inventory.yml", "--connection", "local", "--limit", "compute2"),
        *("--extra-vars", f"@{machines.root}/etc/gridwright/sources.json", "site.yml"),
    ]
    assert "site.yml" in (machines.root / "directory").read_text().split()
    assert (machines.root / "hostname").read_text() == "compute2\n"
    given = json.loads((machines.root / "etc/gridwright/sources.json").read_text())
    assert given["gridwright_sources"] == {"shared": "fs-1.fsx.example@tcp:/abcd"}
    assert (machines.root / "etc/gridwright/munge.key").read_text() == KEY
    assert given["slurm_munge_key_file"] == str(machines.root / "etc/gridwright/munge.key")
    # claim.json says nothing that is secret; all else is root's alone.
    assert (machines.root / "modes").read_text().split() == ["600", "644", "600", "600"]
    (told,) = machines.listener.told
    assert told["Status"] == "SUCCESS"
    assert told["UniqueId"] == "compute2"
    assert machines.listener.types == [""]
    (signal,) = machines.listener.signalled
    assert signal["LogicalResourceId"] == ["ComputeNodes"]
    assert signal["UniqueId"] == ["i-0123456789abcdef0"]
    assert signal["Status"] == ["SUCCESS"]
    assert KEY not in machines.log + done.stdout + done.stderr + (machines.root / "environment").read_text()


def test_a_second_start_brings_what_is_new(machines: Machines) -> None:
    first, second = files(), files(new="file")
    machines.upload(first)
    assert machines.start(machine_of(Role.COMPUTE), first.key).returncode == 0
    machines.upload(second)
    assert machines.start(machine_of(Role.COMPUTE), second.key).returncode == 0
    assert "new" in (machines.root / "directory").read_text().split()
    assert [each["Status"] for each in machines.listener.told] == ["SUCCESS", "SUCCESS"]


def test_a_machine_that_is_not_replaced_knows_its_name(machines: Machines) -> None:
    made = files()
    machines.upload(made)
    assert machines.start(machine_of(Role.HEAD), made.key).returncode == 0, machines.log
    assert (machines.root / "hostname").read_text() == "controller\n"


def test_packages_are_installed_first_and_asked_for_again(machines: Machines) -> None:
    made = files()
    machines.upload(made)
    (machines.bin / "ansible-playbook").rename(machines.root / "ansible-playbook")
    machines.command(
        "apt-get",
        '#!/bin/sh\necho "$@" >> "$GRIDWRIGHT_ROOT/asked"\n'
        'case "$(grep -c update "$GRIDWRIGHT_ROOT/asked")" in 1) echo "E: no network yet"; exit 100;; esac\n'
        'case "$*" in *install*) mv "$GRIDWRIGHT_ROOT/ansible-playbook" "$GRIDWRIGHT_ROOT/bin";; esac\n',
    )
    done = machines.start(machine_of(Role.HEAD), made.key)
    assert done.returncode == 0, machines.log
    asked = (machines.root / "asked").read_text().splitlines()
    assert ["install" in line for line in asked] == [False, False, True]
    assert asked[-1].endswith("ansible-core")


def failure(machines: Machines, machine: Machine, key: str, **environment: str) -> str:
    done = machines.start(machine, key, **environment)
    assert done.returncode == 1
    (told,) = machines.listener.told
    assert told["Status"] == "FAILURE"
    assert len(told["Reason"]) <= 900
    assert KEY not in machines.log + told["Reason"]
    return str(told["Reason"])


def test_a_playbook_that_fails_tells_why_and_on_which_machine(machines: Machines) -> None:
    made = files()
    machines.upload(made)
    machines.command("ansible-playbook", FAILING)
    reason = failure(machines, machine_of(Role.COMPUTE), made.key)
    assert reason.startswith("compute2: the playbook failed: fatal: [compute2]: FAILED!")
    assert "no package lustre-client-modules" in reason


def test_packages_that_cannot_be_installed_are_named(machines: Machines) -> None:
    (machines.bin / "ansible-playbook").unlink()
    machines.command("apt-get", '#!/bin/sh\necho "E: Unable to locate package ansible-core"; exit 100\n')
    reason = failure(machines, machine_of(Role.HEAD), "bundles/none.tar.gz")
    assert reason == (
        "controller: ansible-core cannot be installed: E: Unable to locate package ansible-core"
    )


def test_a_bundle_with_another_content_is_refused(machines: Machines) -> None:
    made = files()
    machines.upload(made, content=files(other="content").content)
    reason = failure(machines, machine_of(Role.HEAD), made.key)
    assert "does not hold what its name says" in reason
    assert not (machines.root / "played").exists()


def test_a_bundle_that_leaves_its_directory_is_refused(machines: Machines) -> None:
    made = files(**{"../outside": "x"})
    machines.upload(made)
    assert "does not belong there: ../outside" in failure(machines, machine_of(Role.HEAD), made.key)
    assert not (machines.root / "var/lib/outside").exists()


def test_what_aws_refuses_is_told_in_its_words(machines: Machines) -> None:
    machines.upload(files())
    reason = failure(machines, machine_of(Role.HEAD), "bundles/missing.tar.gz")
    assert "bundle s3://site-bucket/bundles/missing.tar.gz" in reason
    assert "NoSuchKey" in reason


def test_a_permission_that_is_missing_is_named(machines: Machines) -> None:
    denied = f"{machines.listener.url}/denied"
    reason = failure(machines, machine_of(Role.HEAD), files().key, AWS_ENDPOINT_URL_S3=denied)
    assert "AccessDenied" in reason
    assert "GetObject" in reason
    assert machines.listener.signalled == []


def test_a_claim_that_fails_tells_why(machines: Machines) -> None:
    made = files(**{"claims/claim.pyz": "import sys\nsys.exit('no slot is free')\n"})
    machines.upload(made)
    reason = failure(machines, machine_of(Role.COMPUTE), made.key)
    assert reason == "compute-compute: it cannot claim its place in the grid: no slot is free"


def test_a_machine_whose_condition_is_long_over_sets_itself_up(machines: Machines) -> None:
    made = files()
    machines.upload(made)
    machines.listener.url = "http://127.0.0.1:9"  # nobody answers there
    done = machines.start(machine_of(Role.HEAD), made.key)
    assert done.returncode == 0, machines.log
    assert "not told" in machines.log
    assert (machines.root / "played").exists()
