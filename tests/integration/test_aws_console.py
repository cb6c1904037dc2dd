"""The console of a grid on AWS: its stack, its role by Ansible, its token, what a load balancer asks."""

from __future__ import annotations

import http.client
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridwright.monitor.console.server import session_token
from gridwright.monitor.console.watching import Watching
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.machine_files import machine_files
from gridwright.services.listening import ListeningChoice, listening_of
from gridwright.spec import parse_spec
from tests.support.aws_cloud import AwsCloud, aws_cloud
from tests.support.aws_grid import FSX, grid_of
from tests.support.certificates import make_certificate
from tests.support.command import Command
from tests.support.console_server import served
from tests.support.operator_permissions import judged
from tests.support.pretend_histories import PretendHistories
from tests.support.role_play import play
from tests.support.skips import needs

CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/00000000-0000-0000-0000-000000000000"
WITH = FSX.replace("aws: {", f"aws: {{certificate: '{CERTIFICATE}', ")
PROGRAMS = Path(__file__).parents[2] / "src/gridwright/providers/aws/roles/console/files"
WORLD = """\
cp -a /etc "$0"; mount --bind "$0" /etc; rm -rf /etc/systemd/system/*
mount -t tmpfs state /var/lib; mount -t tmpfs programs /usr/local/lib
exec "$@"
"""
READS_KEYS = """\
#!/bin/sh
# In the place of Python with console_key.py: the public key, or a private one where none is.
case $# in
    3) echo ssh-ed25519 AAAA ;;
    *) [ -e "$4" ] || { ssh-keygen -q -t ed25519 -N "" -f "$4" && echo changed; } ;;
esac
"""


@pytest.fixture
def cloud() -> Iterator[AwsCloud]:
    with aws_cloud() as made:
        yield made


def balancers(cloud: AwsCloud) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cloud.client("elbv2").describe_load_balancers()["LoadBalancers"]
    return found


def test_it_comes_and_goes_with_the_certificate_and_leaves_nothing(
    gridwright: Command, cloud: AwsCloud, tmp_path: Path
) -> None:
    certificate, key = make_certificate(tmp_path)
    acm = cloud.client("acm")
    known = acm.import_certificate(Certificate=certificate.read_bytes(), PrivateKey=key.read_bytes())
    named = f"certificate: '{known['CertificateArn']}', "
    text = FSX.replace("aws: {", f"aws: {{{named}")
    with judged(cloud, text):
        grid = grid_of(text, gridwright, cloud, tmp_path)
        grid.done("up")
        (balancer,) = balancers(cloud)
        assert (balancer["Type"], balancer["Scheme"]) == ("network", "internal")
        secrets = cloud.client("secretsmanager").list_secrets()["SecretList"]
        assert "gridwright-demo-console" in {each["Name"] for each in secrets}
        machines = cloud.running("demo")
        _key_is_the_one_that_nodes_know(cloud, tmp_path)

        grid.edit(named, "")
        (field,) = grid.done("up", "--json").json["fields"]
        assert (field["field"], field["policy"]) == ("aws.certificate", "live")
        assert balancers(cloud) == []
        assert cloud.running("demo") == machines, "a machine was touched"

        grid.edit("aws: {", f"aws: {{{named}")
        grid.done("up")
        assert len(balancers(cloud)) == 1
        gone = grid.done("down", "--yes", "--delete-data", "shared", "--json").json
        assert gone["left"] == []
    assert balancers(cloud) == []
    left = [each["Name"] for each in cloud.client("secretsmanager").list_secrets()["SecretList"]]
    assert [name for name in left if name.startswith("gridwright-")] == []
    assert cloud.client("ec2").describe_key_pairs()["KeyPairs"] == []


def _key_is_the_one_that_nodes_know(cloud: AwsCloud, place: Path) -> None:
    """What a node is told of the key pair is the other half of what the head node has."""
    key = place / "watch-key"
    for said in ("changed\n", ""):
        done = run_program("console_key.py", cloud, "gridwright-demo-console", "us-east-1", key)
        assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    assert key.stat().st_mode & 0o777 == 0o600
    told = run_program("console_key.py", cloud, "gridwright-demo-console", "us-east-1").stdout
    half = subprocess.run(
        ["ssh-keygen", "-y", "-f", key], capture_output=True, text=True, check=True, timeout=60
    )
    assert (
        told.split() == half.stdout.split()[:2] == key.with_name("watch-key.pub").read_text("ascii").split()
    )
    lacking = run_program("console_key.py", cloud, "gridwright-other-console", "us-east-1", key)
    assert lacking.returncode == 1
    assert "key pair gridwright-other-console in us-east-1 cannot be had" in lacking.stderr
    assert "Traceback" not in lacking.stderr


def run_program(name: str, cloud: AwsCloud, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", PROGRAMS / name, *words],
        # Machines have permissions of their own, and not those of who runs Gridwright.
        env={**os.environ, **cloud.environment, "AWS_ENDPOINT_URL": cloud.direct},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_its_token_is_read_into_a_file_of_its_own_and_never_said(cloud: AwsCloud, tmp_path: Path) -> None:
    secret = session_token()
    cloud.client("secretsmanager").create_secret(Name="gridwright-demo-console", SecretString=secret)
    place = tmp_path / "run"
    place.mkdir()
    (place / ".token").symlink_to(tmp_path / "elsewhere")
    for _ in range(2):
        done = run_program("console_token.py", cloud, "gridwright-demo-console", "us-east-1", place / "token")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (place / "token").read_text("ascii") == f"{secret}\n"
    assert (place / "token").stat().st_mode & 0o777 == 0o400
    assert not (tmp_path / "elsewhere").exists(), "a link was followed"

    lacking = run_program("console_token.py", cloud, "gridwright-other-console", "us-east-1", place / "token")
    assert lacking.returncode == 1
    assert "secret gridwright-other-console in us-east-1, cannot be had" in lacking.stderr
    assert "Traceback" not in lacking.stderr
    assert (place / "token").read_text("ascii") == f"{secret}\n"


def write_bundle(directory: Path, spec: str) -> None:
    """Write what nodes set themselves up from."""
    parsed = parse_spec(spec)
    files = machine_files(parsed, aws_layout(parsed), None).parts["nodes"]
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")
def test_the_role_makes_a_certificate_and_a_unit_once_and_removes_them(tmp_path: Path) -> None:
    needs("unshare", "mount", "openssl")
    write_bundle(tmp_path, WITH)
    program = tmp_path / "gridwright"
    program.write_text("#!/bin/sh\nexit 0\n", "utf-8")
    program.chmod(0o755)
    made = tmp_path / "made"
    keys = tmp_path / "python"
    keys.write_text(READS_KEYS, "utf-8")
    keys.chmod(0o755)

    def included(called: str, there: str, program: str) -> dict[str, Any]:
        chosen = {"gridwright_console": there, "console_program": program, "console_packages": []}
        return {
            "name": called,
            "ansible.builtin.include_role": {"name": "console"},
            "vars": {**chosen, "watch_here": True, "console_python": str(keys)},
        }

    places = ("/etc/gridwright/console/.", "/etc/systemd/system/.", "/var/lib/gridwright-watch/.ssh/.")
    copies = " && ".join(f"cp -a {place} {made}" for place in places)
    tasks: list[dict[str, Any]] = [
        {
            "block": [included("absent", "localhost", "/no/such/gridwright")],
            "rescue": [{"ansible.builtin.debug": {"msg": "refused"}}],
        },
        included("first", "localhost", str(program)),
        {"ansible.builtin.shell": f"mkdir {made} && {copies}", "changed_when": False},
        {"ansible.builtin.debug": {"msg": "first is done"}},
        included("second", "localhost", str(program)),
        {"ansible.builtin.debug": {"msg": "second is done"}},
        included("gone", "", str(program)),
        {
            "ansible.builtin.command": "ls /etc/systemd/system /etc/gridwright",
            "register": "rest",
            "changed_when": False,
        },
        {"ansible.builtin.assert": {"that": "'console' not in rest.stdout"}},
    ]
    world = ["unshare", "--mount", "sh", "-ec", WORLD, str(tmp_path / "etc")]
    more = {
        "gridwright_console_key": {"name": "demo", "region": "us-east-1"},
        "ansible_facts": {"service_mgr": "none", "os_family": "Debian"},
    }
    said = play(tmp_path, tasks, more, world=world)
    assert "take aws.certificate out of the grid spec" in " ".join(said.split())
    assert "failed=0" in said, said
    second = said.partition("first is done")[2].partition("second is done")[0]
    assert "ok: [localhost]" in second
    assert "changed: [localhost]" not in second, second

    unit = (made / "gridwright-console.service").read_text("utf-8")
    assert f"ExecStart={program} console /etc/gridwright/console/grid.yaml" in unit
    assert "--listen 10.20.128.10" in unit and "--proxy 10.20.0.12" in unit
    assert "\nUser=gridwright-watch\n" in unit
    assert (made / "authorized_keys").read_text("ascii").splitlines()[-1] == "restrict ssh-ed25519 AAAA"
    assert "PRIVATE KEY" in (made / "id_ed25519").read_text("ascii")
    assert (made / "key.pem").stat().st_mode & 0o777 == 0o640
    assert parse_spec((made / "grid.yaml").read_text("utf-8")).name == "demo"

    # What the load balancer does: TLS that takes any certificate, from the one address that may connect.
    choice = ListeningChoice(
        port=0,
        token=session_token(),
        certificate=made / "certificate.pem",
        key=made / "key.pem",
        proxies=["127.0.0.1"],
        has_sessions=True,
    )
    shown = Watching(name="demo", histories=PretendHistories(count=2))
    with served(shown, listening=listening_of(choice)) as console:

        def asked(path: str, **headers: str) -> tuple[int, str]:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connection = http.client.HTTPSConnection("127.0.0.1", console.port, timeout=30, context=context)
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("set-cookie") or ""

        assert asked("/health")[0] == 200
        assert asked("/api/about")[0] == 401
        status, cookie = asked(f"/?token={console.token}")
        assert (status, "Secure" in cookie) == (303, True)
        assert asked("/api/about", Cookie=cookie.partition(";")[0])[0] == 200
    elsewhere = replace(choice, proxies=["192.0.2.1"])
    with served(shown, listening=listening_of(elsewhere)) as console:
        assert asked("/health")[0] == 403
