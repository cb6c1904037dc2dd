"""`gridwright node claim` as a process, against EC2 and DynamoDB of moto over HTTP: failover, and errors.

Volumes are files here, on which real ext4 with Lustre's labels is made; mkfs.lustre, mount, lctl, ip and
modprobe are small scripts on PATH, as there is no kernel with Lustre to run them on. What EC2 does by itself
when an instance is terminated, and moto does not, the test does: it lets go of its interface.
"""

from __future__ import annotations

import http.client
import http.server
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from gridwright.providers.aws.layout import Role
from tests.support.aws_faults import Faults
from tests.support.aws_grid import LUSTRE
from tests.support.aws_permissions import CLAIM, RenderedGrid, action_name
from tests.support.command import GRIDWRIGHT, Ended
from tests.support.lustre_tools import FAKES

REGION = "us-east-1"
TABLE = "gridwright-demo-claims"
SECRET = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
KEYS = {"AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}
MIB = 1 << 20
ADDRESSES = {"shared-oss1": "10.20.64.11", "shared-oss2": "10.20.64.12"}

pytestmark = pytest.mark.root


class Metadata(http.server.ThreadingHTTPServer):
    """The metadata service of one instance, which wants a session token."""

    def __init__(self, instance: str) -> None:
        answers = {"instance-id": instance, "placement/region": REGION}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                self.reply("a-token" if self.path == "/latest/api/token" else None)

            def do_GET(self) -> None:
                name = self.path.removeprefix("/latest/meta-data/")
                if self.headers["X-aws-ec2-metadata-token"] != "a-token":
                    self.reply(None)
                elif name.endswith("subnet-ipv4-cidr-block"):
                    self.reply("10.20.64.0/24")
                else:
                    self.reply(answers.get(name))

            def reply(self, text: str | None) -> None:
                self.send_response(401 if text is None else 200)
                self.end_headers()
                self.wfile.write((text or "").encode())

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.daemon_threads = True
        threading.Thread(target=self.serve_forever, daemon=True).start()


@dataclass
class Site:
    """A storage stack in moto, and machines as directories."""

    root: Path
    endpoint: str
    before: Faults
    """What stands before the cloud, and sees the calls of the machines."""
    subnet: str = ""
    claim: dict[str, Any] = field(default_factory=dict)
    """What every machine is told that it may become."""
    interfaces: dict[str, dict[str, Any]] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    """Volume ID by target."""
    metadata: list[Metadata] = field(default_factory=list)

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=self.endpoint,
            **SECRET,
        )

    def moto(self, what: str, body: str) -> None:
        """Moto's own settings."""
        place = self.endpoint.removeprefix("http://")
        connection = http.client.HTTPConnection(place, timeout=10)
        connection.request("POST", f"/moto-api/{what}", body, {"Content-Type": "text/plain"})
        assert connection.getresponse().status == 200
        connection.close()

    def build(self) -> None:
        ec2 = self.client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.20.0.0/16")["Vpc"]["VpcId"]
        made = ec2.create_subnet(VpcId=vpc, CidrBlock="10.20.64.0/24", AvailabilityZone=f"{REGION}a")
        self.subnet = made["Subnet"]["SubnetId"]
        self.client("dynamodb").create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "slot", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "slot", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        for number, (slot, address) in enumerate(ADDRESSES.items()):
            self.interfaces[slot] = ec2.create_network_interface(
                SubnetId=self.subnet,
                PrivateIpAddress=address,
                TagSpecifications=[tags("network-interface", slot)],
            )["NetworkInterface"]
            for index in (2 * number, 2 * number + 1):
                self.volume(slot, f"shared-OST{index:04x}")
        for name, text in FAKES.items():
            path = self.root / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/sh\n{text}")
            path.chmod(0o755)
        slots = [
            {
                "name": slot,
                "address": address,
                "targets": [
                    {
                        "name": f"shared-OST{index:04x}",
                        "kind": "ost",
                        "index": index,
                        "fsname": "shared",
                        "with_mgt": False,
                        "mount": str(self.root / f"srv/shared-OST{index:04x}"),
                    }
                    for index in (2 * number, 2 * number + 1)
                ],
            }
            for number, (slot, address) in enumerate(ADDRESSES.items())
        ]
        self.claim = {
            "schema": 1,
            "grid": "demo",
            "region": REGION,
            "table": TABLE,
            "role": "oss",
            "mgs": "10.20.64.10@tcp",
            "slots": slots,
        }

    def volume(self, slot: str, target: str) -> str:
        made = self.client("ec2").create_volume(
            Size=10, AvailabilityZone=f"{REGION}a", TagSpecifications=[tags("volume", slot, target)]
        )
        self.volumes[target] = made["VolumeId"]
        disk = self.root / "dev" / f"nvme{len(self.volumes)}n1"
        disk.parent.mkdir(exist_ok=True)
        with disk.open("wb") as file:
            file.truncate(32 * MIB)
        serial = self.root / "sys/block" / disk.name / "device/serial"
        serial.parent.mkdir(parents=True)
        serial.write_text(made["VolumeId"].replace("-", "") + "\n")
        return str(made["VolumeId"])

    def disk(self, target: str) -> Path:
        serial = self.volumes[target].replace("-", "")
        (found,) = (
            each
            for each in (self.root / "sys/block").iterdir()
            if (each / "device/serial").read_text().strip() == serial
        )
        return self.root / "dev" / found.name

    def launch(self) -> Server:
        made = self.client("ec2").run_instances(
            ImageId="ami-12c6146b", MinCount=1, MaxCount=1, SubnetId=self.subnet
        )
        instance = made["Instances"][0]["InstanceId"]
        server = Server(self, instance, self.root / instance)
        server.directory.mkdir()
        (server.directory / "mounts").touch()
        # The kernel finds whatever interface is attached.
        for number, each in enumerate(self.interfaces.values()):
            address = server.directory / "sys/class/net" / f"ens{number + 6}/address"
            address.parent.mkdir(parents=True)
            address.write_text(each["MacAddress"])
        (server.directory / "sys/block").symlink_to(self.root / "sys/block")
        self.metadata.append(server.metadata)
        return server

    def end(self, server: Server) -> None:
        """Terminate it; moto lets go of its volumes, and not of its interface."""
        ec2 = self.client("ec2")
        ec2.terminate_instances(InstanceIds=[server.instance])
        for each in ec2.describe_network_interfaces()["NetworkInterfaces"]:
            held = each.get("Attachment", {})
            if held.get("InstanceId") == server.instance and held.get("DeviceIndex") == 1:
                ec2.detach_network_interface(AttachmentId=held["AttachmentId"], Force=True)

    def record(self, slot: str) -> Any:
        return self.client("dynamodb").get_item(TableName=TABLE, Key={"slot": {"S": slot}})["Item"]

    def attached(self, server: Server) -> set[str]:
        """Volumes and interfaces of the grid that an instance has."""
        ec2 = self.client("ec2")
        filters = [{"Name": "tag:gridwright:grid", "Values": ["demo"]}]
        volumes = {
            each["VolumeId"]
            for each in ec2.describe_volumes(Filters=filters)["Volumes"]
            if any(one["InstanceId"] == server.instance for one in each["Attachments"])
        }
        return volumes | {
            each["NetworkInterfaceId"]
            for each in ec2.describe_network_interfaces(Filters=filters)["NetworkInterfaces"]
            if each.get("Attachment", {}).get("InstanceId") == server.instance
        }

    def slots(self) -> dict[str, str]:
        """The slot that each volume and interface is tagged for, by its ID."""
        ec2 = self.client("ec2")
        found = ec2.describe_tags(Filters=[{"Name": "key", "Values": ["gridwright:slot"]}])["Tags"]
        return {each["ResourceId"]: each["Value"] for each in found}

    def formats(self) -> int:
        commands = self.root / "commands"
        return commands.read_text().count("mkfs.lustre --") if commands.exists() else 0


def tags(kind: str, slot: str, target: str | None = None) -> dict[str, Any]:
    given = {"gridwright:grid": "demo", "gridwright:slot": slot}
    if target is not None:
        given["gridwright:target"] = target
    return {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in given.items()]}


@dataclass
class Server:
    """One instance."""

    site: Site
    instance: str
    directory: Path
    metadata: Metadata = field(init=False)

    def __post_init__(self) -> None:
        self.metadata = Metadata(self.instance)

    def claim(self, *words: str, **environment: str) -> Ended:
        file = self.directory / "claim.json"
        directories = {
            "run": str(self.directory / "run"),
            "dev": str(self.site.root / "dev"),
            "sys": str(self.directory / "sys"),
            "modprobe": str(self.directory / "modprobe.d"),
            "mounts": str(self.directory / "mounts"),
        }
        file.write_text(json.dumps({**self.site.claim, "directories": directories}))
        done = subprocess.run(
            [GRIDWRIGHT, "node", "claim", "--config", str(file), *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={
                **KEYS,
                "AWS_ACCESS_KEY_ID": self.instance,
                "PATH": f"{self.site.root}/bin:{os.environ['PATH']}:/usr/sbin:/sbin",
                "AWS_ENDPOINT_URL": self.site.before.url,
                "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{self.metadata.server_port}",
                "WORLD": str(self.site.root),
                "MACHINE": str(self.directory),
                **environment,
            },
        )
        assert "Traceback" not in done.stderr
        return Ended(done.returncode, done.stdout, done.stderr)

    @property
    def name(self) -> str:
        return str(json.loads((self.directory / "run/node.json").read_text())["name"])


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> RenderedGrid:
    """The grid that the site is a part of, as it is rendered."""
    spec = tmp_path_factory.mktemp("grid") / "grid.yaml"
    spec.write_text(LUSTRE)
    return RenderedGrid.of(spec)


@pytest.fixture
def site(tmp_path: Path, grid: RenderedGrid) -> Iterator[Site]:
    """A site; none of its machines' calls is one that the policies of their role do not allow."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    direct = f"http://{host}:{port}"
    with Faults.before(direct) as before:
        made = Site(tmp_path, direct, before)
        # The backends are of this process, and outlive a server.
        made.moto("reset", "")
        made.build()
        yield made
        here = replace(grid, slots=made.slots())
        assert [no for each in before.calls for no in here.denied(Role.OSS, [each], each.key)] == []
    for each in made.metadata:
        each.shutdown()
        each.server_close()
    server.stop()


def test_a_replacement_takes_over_volumes_interface_and_name(site: Site) -> None:
    first, second = site.launch(), site.launch()
    for server in (first, second):
        done = server.claim("--json")
        assert done.status == 0, done.err
        assert done.json["ok"]
        assert done.json["name"] == server.name
    assert {first.name, second.name} == set(ADDRESSES)
    assert site.formats() == 4
    slot, had = first.name, site.attached(first)
    assert len(had) == 3
    commands = (site.root / "commands").read_text()
    assert "--ost --fsname=shared --index=3 --mgsnode=10.20.64.10@tcp" in commands
    assert site.record(slot)["owner"]["S"] == first.instance

    site.end(first)
    successor = site.launch()
    done = successor.claim("--json")
    assert done.status == 0, done.err
    assert (successor.name, done.json["address"], done.json["token"]) == (slot, ADDRESSES[slot], 2)
    assert site.attached(successor) == had
    record = site.record(slot)
    assert (record["owner"]["S"], record["token"]["N"]) == (successor.instance, "2")
    assert {each["M"]["state"]["S"] for each in record["volumes"]["M"].values()} == {"formatted"}
    assert set(record["volumes"]["M"]) | {record["interface"]["S"]} == had
    assert site.formats() == 4, "nothing is formatted again"
    assert len((successor.directory / "mounts").read_text().splitlines()) == 2
    link = "ens6" if slot == "shared-oss1" else "ens7"
    options = (successor.directory / "modprobe.d/61-gridwright-claim.conf").read_text()
    assert f"options lnet networks=tcp({link})" in options
    assert {action_name(each) for each in site.before.calls} == CLAIM


def test_two_that_start_at_once_become_two_machines(site: Site) -> None:
    servers = [site.launch(), site.launch()]
    with ThreadPoolExecutor(2) as both:
        done = list(both.map(lambda server: server.claim("--json"), servers))
    assert [each.status for each in done] == [0, 0], [each.err for each in done]
    assert {each.json["name"] for each in done} == set(ADDRESSES)
    assert site.attached(servers[0]).isdisjoint(site.attached(servers[1]))
    assert [len(site.attached(server)) for server in servers] == [3, 3]
    assert site.formats() == 4


def test_a_claim_that_was_killed_is_completed_by_the_next_start(site: Site) -> None:
    server = site.launch()
    (site.root / "kill").touch()
    assert server.claim().status == -signal.SIGKILL
    states = [each["M"]["state"]["S"] for each in site.record(server.name)["volumes"]["M"].values()]
    assert sorted(states) == ["formatting", "new"], "what it was about to do was written down before"
    assert server.claim().status == 0
    assert site.formats() == 2
    assert len((server.directory / "mounts").read_text().splitlines()) == 2


@pytest.mark.thorough
def test_a_second_run_changes_nothing_and_says_so(site: Site) -> None:
    server = site.launch()
    assert server.claim().status == 0
    commands = (site.root / "commands").read_text()
    before = site.record(server.name)
    done = server.claim()
    assert done.status == 0
    assert "nothing was to be done" in done.out
    since = (site.root / "commands").read_text().removeprefix(commands)
    assert all(" show" in line for line in since.splitlines())
    assert site.record(server.name) == before
    assert server.claim("--json").json["steps"] == []


def test_a_dry_run_says_what_is_next_and_claims_nothing(site: Site) -> None:
    done = site.launch().claim("--dry-run", "--json")
    assert done.status == 0, done.err
    assert done.json["next"].startswith("take slot shared-oss")
    assert site.client("dynamodb").scan(TableName=TABLE)["Count"] == 0


@pytest.mark.thorough
def test_the_name_alone_comes_first(site: Site) -> None:
    server = site.launch()
    (site.root / "bin/mkfs.lustre").rename(site.root / "bin/away")
    assert server.claim("--name-only").status == 0
    assert site.attached(server) == {site.interfaces[server.name]["NetworkInterfaceId"]}
    done = server.claim()
    assert done.status == 3
    assert "this machine cannot serve Lustre: mkfs.lustre is not installed" in done.text
    (site.root / "bin/away").rename(site.root / "bin/mkfs.lustre")
    assert server.claim().status == 0
    assert len(site.attached(server)) == 3


def test_a_volume_that_holds_something_else_is_left_alone(site: Site) -> None:
    for target in site.volumes:
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-L", "payroll", site.disk(target)], check=True)
    content = {target: site.disk(target).read_bytes() for target in site.volumes}
    done = site.launch().claim()
    assert done.status == 3
    assert "holds ext4 labelled 'payroll'; it is left alone" in done.text
    assert "make it blank by hand" in done.text
    assert {target: site.disk(target).read_bytes() for target in site.volumes} == content
    assert site.formats() == 0


def test_a_target_that_lost_its_data_is_not_formatted_again(site: Site) -> None:
    server = site.launch()
    assert server.claim().status == 0
    slot = server.name
    site.end(server)
    (target,) = [each for each in site.volumes if each.endswith("0" if slot == "shared-oss1" else "2")]
    with site.disk(target).open("wb") as file:
        file.truncate(32 * MIB)
    formats = site.formats()
    done = self_of(site, slot).claim()
    assert done.status == 3
    assert "is blank, and it was formatted before" in done.text
    assert site.formats() == formats


def self_of(site: Site, slot: str) -> Server:
    """A new instance that can become one slot alone."""
    site.claim = {**site.claim, "slots": [each for each in site.claim["slots"] if each["name"] == slot]}
    return site.launch()


def test_volumes_of_an_instance_that_runs_are_not_taken(site: Site) -> None:
    other, server = site.launch(), self_of(site, "shared-oss1")
    volume = site.volumes["shared-OST0000"]
    site.client("ec2").attach_volume(VolumeId=volume, InstanceId=other.instance, Device="/dev/sdf")
    done = server.claim()
    assert done.status == 3
    assert f"volume {volume} of shared-OST0000 is attached to {other.instance}, which is running" in done.text
    assert volume in site.attached(other)


def test_missing_volumes_are_named(site: Site) -> None:
    server = self_of(site, "shared-oss2")
    site.client("ec2").delete_volume(VolumeId=site.volumes["shared-OST0003"])
    done = server.claim("--json")
    assert done.status == 3
    (problem,) = done.json["problems"]
    assert "the volume of shared-OST0003 is not there" in problem["what"]
    assert "snapshot" in problem["remedy"]


def test_a_table_that_is_gone_is_named(site: Site) -> None:
    site.client("dynamodb").delete_table(TableName=TABLE)
    done = site.launch().claim()
    assert done.status == 3
    assert f"the table of claims, {TABLE}, is not there" in done.text
    assert "gridwright up makes it" in done.text


def test_a_role_that_may_not_see_interfaces_is_named(site: Site) -> None:
    server = site.launch()
    iam = site.client("iam")
    iam.create_user(UserName="nobody")
    allowed = {"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    iam.put_user_policy(UserName="nobody", PolicyName="table", PolicyDocument=policy)
    key = iam.create_access_key(UserName="nobody")["AccessKey"]
    site.moto("reset-auth", "0")
    try:
        done = server.claim(
            AWS_ACCESS_KEY_ID=key["AccessKeyId"], AWS_SECRET_ACCESS_KEY=key["SecretAccessKey"]
        )
    finally:
        site.moto("reset-auth", "inf")
    assert done.status == 3
    assert "this instance may not call DescribeNetworkInterfaces" in done.text
    assert "its role has to allow that" in done.text
    assert key["SecretAccessKey"] not in done.out + done.err


def test_a_silent_metadata_service_is_named(site: Site) -> None:
    server = site.launch()
    done = server.claim(AWS_EC2_METADATA_SERVICE_ENDPOINT="http://127.0.0.1:9")
    assert done.status == 3
    assert "the instance metadata service at 127.0.0.1:9 does not tell placement/region" in done.text


def test_aws_that_is_not_reached_is_named(site: Site) -> None:
    done = site.launch().claim(AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_MAX_ATTEMPTS="1")
    assert done.status == 3
    assert "see that the machine reaches AWS" in done.text


def test_a_wrong_claim_file_is_the_user_s_to_correct(site: Site) -> None:
    site.claim = {**site.claim, "role": "king", "table": 7}
    done = site.launch().claim()
    assert done.status == 2
    assert 'role: "king" is given it takes compute, machine, mgs, mds, oss' in done.text
    assert "table: 7 is given" in done.text
