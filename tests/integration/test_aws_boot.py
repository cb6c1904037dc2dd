"""User data of machines on AWS, run as they are, with real S3 and HTTP; Ansible and packages are fake."""

from __future__ import annotations

import json
import re
import shlex
import stat
import subprocess
import sys
import threading
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import boto3
import pytest
from moto.server import ThreadedMotoServer

from gridwright.providers.aws.layout import Machine, Role, aws_layout
from gridwright.providers.aws.machine_files import machine_files, user_data
from gridwright.providers.boot.bundle import Bundle, bundle
from gridwright.spec import load_spec
from tests.support.aws_faults import Call, Faults
from tests.support.aws_permissions import BOOT, RenderedGrid, action_name

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
# Whether it has boto3 is asked first, by an import that takes a quarter of a second.
PYTHON = f"""#!/bin/sh
test "${{2#import sys, boto3}}" = "$2" || exit 0
exec {sys.executable} "$@"
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


MESS = """#!/bin/sh
if [ "$1" = --audit ]; then
    test -e "$GRIDWRIGHT_ROOT/mended" || echo "The following packages are in a mess: ansible-core"
else
    test ! -e "$GRIDWRIGHT_ROOT/played" && echo dpkg "$@" >> "$GRIDWRIGHT_ROOT/mended"
fi
"""


INSTANCE = "i-0123456789abcdef0"
ARN = f"arn:aws:ec2:us-east-1:123456789012:instance/{INSTANCE}"
TABLE = "gridwright-fsx-grid-claims"
ANSWERS = {
    "/latest/dynamic/instance-identity/document": json.dumps(
        {"instanceId": INSTANCE, "accountId": "123456789012", "region": "us-east-1"}
    ),
    "/latest/meta-data/services/partition": "aws",
}


@dataclass
class Listener:
    """What stands for the metadata service, and for services that only take what they are told."""

    url: str
    signalled: list[dict[str, list[str]]] = field(default_factory=list)


@pytest.fixture
def listener() -> Iterator[Listener]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.answer("token")

        def do_GET(self) -> None:
            if self.path.startswith("/denied"):
                self.answer("<Error><Code>AccessDenied</Code><Message>not yours</Message></Error>", 403)
            else:
                self.answer(ANSWERS[self.path])

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path.startswith("/denied"):
                self.answer('{"__type": "AccessDeniedException", "message": "not yours"}', 400)
                return
            found.signalled.append(parse_qs(body.decode()))
            self.answer("<Response/>")

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
    before: Faults
    """What stands before the cloud, and sees the calls of the machine."""
    grid: RenderedGrid
    role: Role = Role.COMPUTE

    @property
    def calls(self) -> list[Call]:
        """What it asked of AWS."""
        told = [{name: values[0] for name, values in each.items()} for each in self.listener.signalled]
        return self.before.calls + [Call(f"autoscaling:{each['Action']}", "/", each) for each in told]

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

    def system(self, identity: str, version: str) -> None:
        """What it says of itself, as os-release(5)."""
        (self.root / "etc").mkdir(exist_ok=True)
        text = f'PRETTY_NAME="{identity} {version}"\nID="{identity}"\nVERSION_ID="{version}"\n'
        (self.root / "etc/os-release").write_text(text)

    def upload(self, made: Bundle, content: bytes | None = None) -> None:
        self.client("s3").put_object(Bucket=BUCKET, Key=made.key, Body=content or made.content)
        self.point_at(made.key)

    def point_at(self, key: str) -> None:
        self.client("s3").put_object(Bucket=BUCKET, Key="bundles/current/nodes", Body=f"{key}\n".encode())

    @property
    def told(self) -> dict[str, str]:
        """What the machine told last."""
        found = self.client("dynamodb").get_item(TableName=TABLE, Key={"slot": {"S": f"boot#{ARN}"}})
        return {name: str(next(iter(value.values()))) for name, value in found.get("Item", {}).items()}

    def start(self, machine: Machine, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run its user data as cloud-init would, then what systemd would start."""
        secret = self.client("secretsmanager").create_secret(Name=str(uuid.uuid4()), SecretString=KEY)["ARN"]
        self.role, self.grid = machine.role, replace(self.grid, secret=secret)
        begun = self._run(["sh", "-c", script(machine, secret)], environment)
        assert begun.returncode == 0, begun.stderr
        return self.look(**environment)

    def look(self, **environment: str) -> subprocess.CompletedProcess[str]:
        """What the timer starts."""
        unit = (self.root / "etc/systemd/system/gridwright-boot.service").read_text()
        found = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)
        assert found
        command = re.sub(r"(?<= )/var/", f"{self.root}/var/", found[1])
        return self._run(shlex.split(command), environment)

    def _run(self, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        given = {
            **CREDENTIALS,
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "GRIDWRIGHT_ROOT": str(self.root),
            "GRIDWRIGHT_BOOT_PAUSE_S": "0",
            "AWS_ENDPOINT_URL": self.before.url,
            "AWS_ENDPOINT_URL_CLOUDFORMATION": self.listener.url,
            "AWS_ENDPOINT_URL_AUTO_SCALING": self.listener.url,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.listener.url,
            **environment,
        }
        return subprocess.run(
            command, env=given, cwd=self.root, capture_output=True, text=True, timeout=120, check=False
        )

    def later(self, tries: int) -> None:
        """Have so many tries be made, and so much time go by that another one is."""
        path = self.root / "var/lib/gridwright/boot-state.json"
        state = json.loads(path.read_text())
        path.write_text(json.dumps({**state, "at": state["at"] - 3600, "tries": tries}))

    @property
    def log(self) -> str:
        return (self.root / "var/log/gridwright-boot.log").read_text()


@pytest.fixture(scope="module")
def grid() -> RenderedGrid:
    return RenderedGrid.of(FSX)


@pytest.fixture(scope="module")
def before(cloud: str) -> Iterator[Faults]:
    with Faults.before(cloud) as faults:
        yield faults


@pytest.fixture
def machines(
    cloud: str, listener: Listener, before: Faults, grid: RenderedGrid, tmp_path: Path
) -> Iterator[Machines]:
    """A machine; none of its calls is one that the policies of its role do not allow."""
    before.clear()
    found = Machines(cloud, listener, tmp_path, before, grid)
    urllib.request.urlopen(urllib.request.Request(f"{cloud}/moto-api/reset", method="POST"), timeout=30)  # noqa: S310
    found.client("s3").create_bucket(Bucket=BUCKET)
    found.client("dynamodb").create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": "slot", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "slot", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    found.system("ubuntu", "24.04")
    found.command("systemctl", '#!/bin/sh\necho "$@" >> "$GRIDWRIGHT_ROOT/systemd"\n')
    # The Python of the tests has boto3, as that of a machine has after its packages are installed.
    found.command("python3", PYTHON)
    found.command("ansible-playbook", PLAYBOOK)
    found.command("dpkg", "#!/bin/sh\nexit 0\n")
    found.command("hostnamectl", '#!/bin/sh\necho "$2" > "$GRIDWRIGHT_ROOT/hostname"\n')
    yield found
    assert found.grid.denied(found.role, found.calls, INSTANCE) == []


def script(machine: Machine, secret: str) -> str:
    """The shell part of its user data, as CloudFormation and cloud-init leave it."""
    spec = load_spec(FSX)
    group = "ComputeNodes" if machine.replaced else None
    text = user_data(spec, aws_layout(spec), tuple(alike(machine)), group).text
    values = {
        "AWS::StackName": "gridwright-fsx-grid",
        "AWS::Region": "us-east-1",
        "Bucket": BUCKET,
        "MungeKey": secret,
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
    """A bundle; its claim is of the second node."""
    claims = {"slots": [{"name": "compute1"}, {"name": "compute2"}]}
    spec = load_spec(FSX)
    made = machine_files(spec, aws_layout(spec), None).parts["nodes"]
    content: Mapping[str, str | bytes] = {
        **{name: text for name, text in made.items() if name.startswith("boot/")},
        "site.yml": "[]\n",
        "claims/claim.pyz": CLAIM,
        "claims/compute-compute.json": json.dumps(claims),
    }
    return bundle({**content, **more})


def test_a_node_takes_its_name_and_runs_the_playbook_on_itself(machines: Machines) -> None:
    made = files()
    machines.upload(made)
    done = machines.start(machine_of(Role.COMPUTE))
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
    told = machines.told
    assert (told["state"], told["name"], told["instance"]) == ("done", "compute2", INSTANCE)
    assert (told["bundle"], told["tries"]) == (made.key, "1")
    assert machines.listener.signalled == []
    assert KEY not in machines.log + done.stdout + done.stderr + (machines.root / "environment").read_text()
    assert stat.S_IMODE((machines.root / "var/log/gridwright-boot.log").stat().st_mode) == 0o600


def test_the_secret_of_the_directory_of_users_goes_into_a_file_of_root(
    machines: Machines, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bind = "of-the-directory-7"
    arn = machines.client("secretsmanager").create_secret(Name="directory", SecretString=bind)["ARN"]
    spec = tmp_path_factory.mktemp("people") / "grid.yaml"
    people = (
        f"users: {{ldap: {{servers: ['ldaps://l'], base: 'dc=a', bind: {{dn: 'cn=a', secret: '{arn}'}}}}}}"
    )
    spec.write_text(f"{FSX.read_text()}\n{people}\n")
    loaded = load_spec(spec)
    made = machine_files(loaded, aws_layout(loaded), None).parts["nodes"]
    listed = made["boot/secrets.json"]
    machines.grid = RenderedGrid.of(spec)
    machines.upload(files(**{"boot/secrets.json": str(listed)}))
    done = machines.start(machine_of(Role.COMPUTE))
    assert done.returncode == 0, machines.log
    file = machines.root / "etc/gridwright/directory.secret"
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (bind, 0o600)
    assert bind not in machines.log + done.stdout + done.stderr
    assert bind not in (machines.root / "etc/gridwright/sources.json").read_text()
    asked = [
        each.parameters["SecretId"] for each in machines.calls if each.action.startswith("secretsmanager")
    ]
    assert arn in asked, "and its permission allows it, as of all calls (see the fixture)"
    # Who has no right to it says so, and is tried again.
    machines.client("secretsmanager").delete_secret(SecretId=arn, ForceDeleteWithoutRecovery=True)
    machines.upload(files(**{"boot/secrets.json": str(listed), "site.yml": "[other]\n"}))
    assert machines.look().returncode != 0
    assert f"secret {arn}" in machines.told["reason"]


def test_systemd_goes_on_from_there(machines: Machines) -> None:
    machines.upload(files())
    machines.start(machine_of(Role.COMPUTE), https_proxy="http://proxy.example:3128")
    assert (machines.root / "systemd").read_text().splitlines() == [
        *("daemon-reload", "enable gridwright-boot.timer", "restart gridwright-boot.timer"),
        "--no-block start gridwright-boot.service",
    ]
    assert "https_proxy=http://proxy.example:3128" in (machines.root / "etc/gridwright/boot.env").read_text()
    units = [
        *sorted((machines.root / "etc/systemd/system").iterdir()),
    ]
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *units],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "gridwright" not in checked.stderr


def test_what_is_new_is_brought_and_what_is_not_is_left_alone(machines: Machines) -> None:
    first, second = files(), files(new="file")
    machines.upload(first)
    assert machines.start(machine_of(Role.COMPUTE)).returncode == 0
    (machines.root / "played").unlink()
    assert machines.look().returncode == 0
    assert not (machines.root / "played").exists()
    machines.upload(second)
    assert machines.look().returncode == 0
    assert "new" in (machines.root / "directory").read_text().split()
    assert machines.told["bundle"] == second.key
    assert machines.listener.signalled == []


@pytest.mark.thorough
def test_a_machine_that_is_not_replaced_knows_its_name(machines: Machines) -> None:
    machines.upload(files())
    assert machines.start(machine_of(Role.HEAD)).returncode == 0, machines.log
    assert (machines.root / "hostname").read_text() == "controller\n"
    assert machines.listener.signalled == []


def test_packages_are_installed_first_and_asked_for_again(machines: Machines) -> None:
    machines.upload(files())
    (machines.bin / "ansible-playbook").rename(machines.root / "ansible-playbook")
    machines.command(
        "apt-get",
        '#!/bin/sh\necho "$@" >> "$GRIDWRIGHT_ROOT/asked"\n'
        'case "$(grep -c update "$GRIDWRIGHT_ROOT/asked")" in 1) echo "E: no network yet"; exit 100;; esac\n'
        'case "$*" in *install*) mv "$GRIDWRIGHT_ROOT/ansible-playbook" "$GRIDWRIGHT_ROOT/bin";; esac\n',
    )
    done = machines.start(machine_of(Role.HEAD))
    assert done.returncode == 0, machines.log
    asked = (machines.root / "asked").read_text().splitlines()
    assert ["install" in line for line in asked] == [False, False, True]
    assert asked[-1].endswith("ansible-core")


def failure(machines: Machines, machine: Machine, **environment: str) -> str:
    done = machines.start(machine, **environment)
    assert done.returncode == 1
    told = machines.told
    assert told["state"] == "failed"
    assert len(told["reason"]) <= 900
    assert KEY not in machines.log + told["reason"] + told["log"]
    return told["reason"]


def test_a_playbook_that_fails_tells_why_and_on_which_machine(machines: Machines) -> None:
    machines.upload(files())
    machines.command("ansible-playbook", FAILING)
    reason = failure(machines, machine_of(Role.COMPUTE))
    assert reason.startswith("the playbook failed: fatal: [compute2]: FAILED!")
    assert "no package lustre-client-modules" in reason
    assert machines.told["name"] == "compute2"
    assert "compute2 is not set up, try 1" in machines.told["log"]
    (log,) = machines.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="boot-logs/arn:")["Contents"]
    kept = machines.client("s3").get_object(Bucket=BUCKET, Key=log["Key"])["Body"].read().decode()
    assert "ok: task 1\n" in kept


def test_what_failed_is_tried_again_when_its_time_has_come_and_given_up_at_last(machines: Machines) -> None:
    machines.upload(files())
    machines.command("ansible-playbook", FAILING)
    failure(machines, machine_of(Role.COMPUTE))
    machines.look()
    assert machines.told["tries"] == "1"
    machines.later(tries=4)
    machines.look()
    assert machines.told["tries"] == "5"
    (given_back,) = machines.listener.signalled
    assert (given_back["Action"], given_back["HealthStatus"]) == (["SetInstanceHealth"], ["Unhealthy"])
    (metric,) = machines.client("cloudwatch").list_metrics(Namespace="Gridwright")["Metrics"]
    assert metric["MetricName"] == "SetUpFailures"
    assert metric["Dimensions"] == [{"Name": "Grid", "Value": "fsx-grid"}], "as its alarm looks for it"
    machines.command("ansible-playbook", PLAYBOOK)
    machines.later(tries=5)
    assert machines.look().returncode == 0
    assert machines.told["state"] == "done"
    # With what a claim is seen to call, these are all permissions that a machine has.
    assert {action_name(each) for each in machines.calls} == BOOT


RESTARTING = """#!/bin/sh
if ! grep -q '"gridwright_restart": "asked"' "$GRIDWRIGHT_ROOT/etc/gridwright/sources.json"; then
  echo 'fatal: [compute2]: the restart is pending'
  exit 2
fi
mkdir -p "$GRIDWRIGHT_ROOT/run/gridwright"
echo '{"kernel": "6.8.0-1057-aws"}' > "$GRIDWRIGHT_ROOT/run/gridwright/restart.json"
echo 'fatal: [compute2]: FAILED! => {"msg": "the machine is about to restart"}'
exit 2
"""


def restarted(machines: Machines) -> int:
    """How often the machine was restarted; the next look is that after the last one."""
    asked = (machines.root / "systemd").read_text().splitlines().count("reboot")
    path = machines.root / "var/lib/gridwright/boot-state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "another one"}))
    return asked


def test_a_machine_restarts_for_a_kernel_and_goes_on_as_if_nothing_had_been(machines: Machines) -> None:
    machines.upload(files())
    machines.command("ansible-playbook", RESTARTING)
    done = machines.start(machine_of(Role.COMPUTE))
    assert done.returncode == 0, machines.log
    told = machines.told
    assert (told["state"], told["reason"], told["tries"]) == (
        *("running", "restarting for kernel 6.8.0-1057-aws"),
        "1",
    )
    assert restarted(machines) == 1
    assert machines.listener.signalled == []
    machines.command("ansible-playbook", PLAYBOOK)
    assert machines.look().returncode == 0
    assert (machines.told["state"], machines.told["tries"], machines.told["reason"]) == ("done", "1", "")
    assert restarted(machines) == 1
    assert machines.listener.signalled == []
    assert str(machines.client("s3").list_objects_v2(Bucket=BUCKET)).count("boot-logs") == 1


@pytest.mark.thorough
def test_a_machine_restarts_once_for_a_kernel_that_does_not_start(machines: Machines) -> None:
    machines.upload(files())
    machines.command("ansible-playbook", RESTARTING)
    machines.start(machine_of(Role.COMPUTE))
    for _ in range(3):
        assert restarted(machines) == 1
        assert machines.look().returncode == 1
        assert machines.told["state"] == "failed"
    assert "it was restarted for kernel 6.8.0-1057-aws, and started " in machines.told["reason"]
    # One that needs still another kernel may.
    machines.command("ansible-playbook", RESTARTING.replace("1057", "1063"))
    assert restarted(machines) == 1
    assert machines.look().returncode == 0
    assert restarted(machines) == 2


@pytest.mark.thorough
def test_a_machine_that_was_set_up_is_never_restarted(machines: Machines) -> None:
    machines.upload(files())
    assert machines.start(machine_of(Role.COMPUTE)).returncode == 0
    machines.command("ansible-playbook", RESTARTING)
    machines.upload(files(new="file"))
    assert machines.look().returncode == 1
    assert "the restart is pending" in machines.told["reason"]
    assert restarted(machines) == 0
    # Neither by what the role of an earlier try has left, nor when it starts by itself.
    (machines.root / "run/gridwright/restart.json").write_text('{"kernel": "6.8.0-1057-aws"}')
    assert machines.look().returncode == 1
    assert restarted(machines) == 0


@pytest.mark.thorough
def test_a_machine_whose_fifth_try_was_cut_off_is_given_back_after_the_sixth(machines: Machines) -> None:
    machines.upload(files())
    machines.command("ansible-playbook", FAILING)
    failure(machines, machine_of(Role.COMPUTE))
    machines.later(tries=5)
    machines.look()
    assert machines.told["tries"] == "6"
    assert [each.get("HealthStatus") for each in machines.listener.signalled] == [["Unhealthy"]]


def test_what_a_power_cut_left_half_installed_is_finished_before_the_playbook(machines: Machines) -> None:
    machines.upload(files())
    asked = '#!/bin/sh\necho apt-get "$@" "$DEBIAN_FRONTEND" >> "$GRIDWRIGHT_ROOT/mended"\n'
    machines.command("apt-get", asked)
    machines.command("dpkg", MESS)
    assert machines.start(machine_of(Role.COMPUTE)).returncode == 0, machines.log
    assert (machines.root / "mended").read_text().splitlines() == [
        "dpkg --force-confold --configure -a",
        "apt-get -o DPkg::Lock::Timeout=300 -qq update noninteractive",
        "apt-get -o DPkg::Lock::Timeout=300 -qq -y -f install noninteractive",
    ]
    assert (machines.root / "played").exists()


@pytest.mark.thorough
def test_a_machine_that_is_long_at_work_tells_that_it_goes_on(machines: Machines) -> None:
    machines.upload(files())
    machines.command("ansible-playbook", "#!/bin/sh\necho TASK [long]\nexec sleep 3\n")
    assert machines.start(machine_of(Role.COMPUTE), GRIDWRIGHT_BOOT_PULSE_S="0.3").returncode == 0
    told = [each.parameters["Item"] for each in machines.calls if each.action == "dynamodb:PutItem"]
    states = [each["state"]["S"] for each in told]
    assert states[:3] == ["running"] * 3
    assert states.count("done") == 1 and states[-1] == "done"
    assert "TASK [long]" in [each["reason"]["S"] for each in told]


def test_a_machine_that_worked_is_never_given_back(machines: Machines) -> None:
    machines.upload(files())
    assert machines.start(machine_of(Role.COMPUTE)).returncode == 0
    machines.command("ansible-playbook", FAILING)
    machines.upload(files(new="file"))
    machines.look()
    machines.later(tries=4)
    machines.look()
    assert machines.told["tries"] == "5"
    assert machines.listener.signalled == []


def test_packages_that_cannot_be_installed_are_named(machines: Machines) -> None:
    machines.upload(files())
    (machines.bin / "ansible-playbook").unlink()
    machines.command("apt-get", '#!/bin/sh\necho "E: Unable to locate package ansible-core"; exit 100\n')
    reason = failure(machines, machine_of(Role.HEAD))
    assert reason == "ansible-core cannot be installed: E: Unable to locate package ansible-core"


@pytest.mark.parametrize(
    ("identity", "version", "why"),
    [
        ("amzn", "2", "its Python is 3.7, and modules of Ansible need 3.9"),
        pytest.param("ubuntu", "22.04", "its ansible-core is 2.12", marks=pytest.mark.thorough),
        pytest.param("gentoo", "2.17", "it is not in the table of distributions", marks=pytest.mark.thorough),
    ],
)
def test_a_distribution_that_is_not_supported_is_said_so(
    machines: Machines, identity: str, version: str, why: str
) -> None:
    machines.system(identity, version)
    machines.upload(files())
    reason = failure(machines, machine_of(Role.HEAD))
    assert f"{identity} {version} is not supported: {why}" in reason
    assert not (machines.root / "played").exists()


@pytest.mark.parametrize(
    ("identity", "version"),
    [
        ("rocky", "8.10"),
        *(
            pytest.param(*each, marks=pytest.mark.thorough)
            for each in [("almalinux", "9.4"), ("amzn", "2023")]
        ),
    ],
)
def test_a_machine_of_the_red_hat_family_installs_ansible_by_dnf(
    machines: Machines, identity: str, version: str
) -> None:
    machines.system(identity, version)
    machines.upload(files())
    (machines.bin / "ansible-playbook").rename(machines.root / "ansible-playbook")
    machines.command(
        "dnf",
        '#!/bin/sh\necho "$@" >> "$GRIDWRIGHT_ROOT/asked"\n'
        'mv "$GRIDWRIGHT_ROOT/ansible-playbook" "$GRIDWRIGHT_ROOT/bin"\n',
    )
    # apt-get of the machine that the tests run on is out of sight.
    for name in ("sh", "mkdir", "mv", "cat", "env", "grep", "timeout", "stat", "ls"):
        (machines.bin / name).symlink_to(f"/usr/bin/{name}")
    done = machines.start(machine_of(Role.HEAD), PATH=str(machines.bin))
    assert done.returncode == 0, machines.log
    assert (machines.root / "asked").read_text() == "-y -q install ansible-core\n"
    assert (machines.root / "played").exists()


def not_begun(machines: Machines, **environment: str) -> str:
    """The log of a machine that could not begin; its console has the last line of it."""
    (machines.root / "dev").mkdir()
    (machines.root / "dev/console").touch()
    done = machines.start(machine_of(Role.HEAD), **environment)
    assert done.returncode == 1
    assert machines.told == {}
    assert not (machines.root / "played").exists()
    console = (machines.root / "dev/console").read_text().removeprefix("gridwright: ").strip()
    assert console in machines.log
    return machines.log


def test_a_bundle_with_another_content_is_refused(machines: Machines) -> None:
    machines.upload(files(), content=files(other="content").content)
    assert "does not hold what its name says" in not_begun(machines)


def test_a_bundle_that_leaves_its_directory_is_refused(machines: Machines) -> None:
    machines.upload(files(**{"../outside": "x"}))
    assert "does not belong there: ../outside" in not_begun(machines)
    assert not (machines.root / "var/lib/outside").exists()


def test_what_aws_refuses_is_told_in_its_words(machines: Machines) -> None:
    machines.point_at("bundles/missing.tar.gz")
    log = not_begun(machines)
    assert "s3://site-bucket/bundles/missing.tar.gz" in log
    assert "NoSuchKey" in log


def test_a_permission_that_is_missing_is_named(machines: Machines) -> None:
    log = not_begun(machines, AWS_ENDPOINT_URL_S3=f"{machines.listener.url}/denied")
    assert "AccessDenied" in log
    assert "GetObject" in log


def test_a_claim_that_fails_tells_why(machines: Machines) -> None:
    machines.upload(files(**{"claims/claim.pyz": "import sys\nsys.exit('no slot is free')\n"}))
    reason = failure(machines, machine_of(Role.COMPUTE))
    assert reason == "it cannot claim its place in the grid: no slot is free"


def test_a_machine_that_can_tell_nobody_sets_itself_up(machines: Machines) -> None:
    machines.upload(files())
    done = machines.start(machine_of(Role.HEAD), AWS_ENDPOINT_URL_DYNAMODB=f"{machines.listener.url}/denied")
    assert done.returncode == 0, machines.log
    assert "not told" in machines.log
    assert (machines.root / "played").exists()


@pytest.mark.thorough
def test_a_state_that_was_damaged_is_no_obstacle(machines: Machines) -> None:
    machines.upload(files())
    assert machines.start(machine_of(Role.HEAD)).returncode == 0
    (machines.root / "var/lib/gridwright/boot-state.json").write_text("{")
    (machines.root / "played").unlink()
    assert machines.look().returncode == 0
    assert (machines.root / "played").exists()
