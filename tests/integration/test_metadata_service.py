"""Who reaches the metadata service of a machine, and with it the machine's identity: rules of role metadata.

They are loaded by nft into a network name space, in which a double of the service answers at the cloud's own
addresses: root gets the key of the instance, a job (uid 2002) and a container get nothing.
"""

from __future__ import annotations

import pwd
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml  # type: ignore[import-untyped]

from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.machine_files import machine_files
from gridwright.providers.builtin import BUILT_IN
from gridwright.providers.machines import HostMachine
from gridwright.providers.oci.files import oci_machine_files
from gridwright.providers.oci.layout import oci_layout
from gridwright.providers.oci.provider import OCI
from gridwright.schedulers.machines import NodeHardware
from gridwright.spec import init_text, parse_spec
from gridwright.spec.load import load_spec
from gridwright.spec.provider import PROVIDERS, MetadataService
from tests.support.skips import needs, root_only

EXAMPLES = Path(__file__).parents[2] / "examples"
ROLE = resources.files("gridwright.setup").joinpath("ansible", "roles", "metadata")
WITH_IDENTITY = {
    name: kind.metadata_service for name, kind in PROVIDERS.kinds() if kind.metadata_service is not None
}
"""By provider; a machine of any other one has no identity in a cloud."""
MALLORY = 2002
AGENT = pwd.getpwnam("daemon").pw_uid
"""Stands for a system account that the service is open to."""
HTTP, ISCSI, DNS, NTP = 80, 3260, 53, 123
_HOLD = ("setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", "echo up; exec sleep infinity")
_SERVE = """
import http.server, socket, socketserver, sys, threading
class Opc(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers.get("Authorization") == "Bearer Oracle"
        known = known and self.path == "/opc/v2/identity/key.pem"
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(b"the key of the instance" if known else b"")
    def log_message(self, *_words):
        pass
class Names(socketserver.BaseRequestHandler):
    def handle(self):
        self.request[1].sendto(b"answered", self.client_address)
class Greeting(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"answered")
for host in sys.argv[1:]:
    def made(kind, port, handler):
        class Server(socketserver.ThreadingMixIn, kind):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True
        threading.Thread(target=Server((host, port), handler).serve_forever).start()
    made(socketserver.TCPServer, 80, Opc)
    for port in (3260, 53):
        made(socketserver.TCPServer, port, Greeting)
    for port in (53, 123):
        made(socketserver.UDPServer, port, Names)
print("up", flush=True)
"""
_ASK = """
import socket, sys, urllib.request
address, protocol, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
try:
    if port == 80:
        host = f"[{address}]" if ":" in address else address
        request = urllib.request.Request(
            f"http://{host}/opc/v2/identity/key.pem", headers={"Authorization": "Bearer Oracle"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        print(opener.open(request, timeout=10).read().decode())
    else:
        asking = socket.socket(family, socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM)
        asking.settimeout(10)
        asking.connect((address, port))
        if protocol == "udp":
            asking.send(b"?")
        print(asking.recv(100).decode())
except OSError as error:
    # The sender of a datagram that is rejected is told so at once.
    print("refused" if "refused" in str(error) or isinstance(error, PermissionError) else repr(error))
"""
KEY, ANSWERED, REFUSED = "the key of the instance", "answered", "refused"


def rules(service: MetadataService, allowed: list[int]) -> str:
    """As the role writes them; Ansible's templates drop the line end after a block."""
    source = ROLE.joinpath("templates", "metadata.nft.j2").read_text("utf-8")
    template = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True).from_string(source)  # noqa: S701
    return template.render(gridwright_metadata=service.variables(), metadata_allowed=allowed)


def addresses(service: MetadataService) -> list[str]:
    """Where the double answers: at each address, and in networks where Oracle's services and volumes are."""
    single = [each for each in service.addresses if "/" not in each]
    networks = [IPv4Network(each) for each in service.addresses if "/" in each]
    inside = [
        each
        for each in ("169.254.169.254", "169.254.0.2", "169.254.2.7")
        if any(IPv4Network(each).subnet_of(network) for network in networks)
    ]
    return single + inside


def _ran(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (argv, done.stderr)
    return done.stdout.strip()


@dataclass
class Machine:
    """A network name space with the double in it, and a container behind it."""

    enter: tuple[str, ...]
    container: tuple[str, ...]

    def load(self, directory: Path, text: str) -> None:
        """Put rules into force."""
        (directory / "metadata.nft").write_text(text)
        _ran(*self.enter, "nft", "--file", str(directory / "metadata.nft"))

    def ask(self, uid: int, address: str, port: int = HTTP, protocol: str = "tcp") -> str:
        """What a process of this user gets."""
        as_user = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
        return _ran(*self.enter, *as_user, sys.executable, "-c", _ASK, address, protocol, str(port))

    def ask_from_container(self, address: str, port: int = HTTP, protocol: str = "tcp") -> str:
        """What root of a container gets, whose packets the machine forwards."""
        return _ran(*self.container, sys.executable, "-c", _ASK, address, protocol, str(port))


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """Its parameter is the service whose addresses the double has."""
    needs("nft", "ip", "nsenter", "setpriv")
    started: list[subprocess.Popen[str]] = []

    def begin(*argv: str) -> int:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process.pid

    inside, beside, far = begin(*_HOLD), begin(*_HOLD), begin(*_HOLD)
    enter, container, cloud = (("nsenter", f"--net=/proc/{pid}/ns/net") for pid in (inside, beside, far))
    _ran(*enter, "ip", "link", "set", "lo", "up")
    _ran(*enter, "sysctl", "--quiet", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
    for number, (side, name, pid) in enumerate(
        ((container, "inner", beside), (cloud, "outer", far)), start=1
    ):
        _ran(*enter, "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        for here, device, last in ((enter, name, 1), (side, "eth0", 2)):
            _ran(*here, "ip", "address", "add", f"10.9.{number}.{last}/24", "dev", device)
            _ran(*here, "ip", "address", "add", f"fd09:{number}::{last}/64", "dev", device, "nodad")
            _ran(*here, "ip", "link", "set", device, "up")
        for default in (f"10.9.{number}.1", f"fd09:{number}::1"):
            _ran(*side, "ip", "route", "add", "default", "via", default)
    for address in addresses(request.param):
        whole, router = (128, "fd09:2::2") if ":" in address else (32, "10.9.2.2")
        _ran(
            *cloud, "ip", "address", "add", f"{address}/{whole}", "dev", "eth0", *(["nodad"] * (whole == 128))
        )
        _ran(*enter, "ip", "route", "add", f"{address}/{whole}", "via", router)
    begin(*cloud, "setpriv", "--pdeathsig", "KILL", sys.executable, "-c", _SERVE, *addresses(request.param))
    yield Machine(enter, container)
    for each in started:
        each.kill()
        each.communicate()


PARAMETERS = [pytest.param(each, id=name) for name, each in WITH_IDENTITY.items()]


@pytest.mark.few(2)
@root_only
@pytest.mark.parametrize(("machine", "service"), [(each.values[0],) * 2 for each in PARAMETERS],
                         ids=[each.id for each in PARAMETERS], indirect=["machine"])  # fmt: skip
def test_a_job_and_a_container_get_nothing_of_the_machine_s_identity(
    machine: Machine, service: MetadataService, tmp_path: Path
) -> None:
    address = addresses(service)[0]
    assert machine.ask(MALLORY, address) == KEY, "without rules whoever asks gets it"
    machine.load(tmp_path, rules(service, [0, AGENT]))
    machine.load(tmp_path, rules(service, [0, AGENT]))
    for each in addresses(service):
        assert (machine.ask(0, each), machine.ask(AGENT, each)) == (KEY, KEY), each
        assert machine.ask(MALLORY, each) == REFUSED, each
        assert machine.ask_from_container(each) == REFUSED, each
        assert (machine.ask(0, each, ISCSI), machine.ask(MALLORY, each, ISCSI)) == (ANSWERED, REFUSED), each
        for protocol, ports in (("tcp", (DNS,)), ("udp", (DNS, NTP))):
            for port in ports:
                is_open = port in (service.open_tcp if protocol == "tcp" else service.open_udp)
                expected = ANSWERED if is_open else REFUSED
                assert machine.ask(MALLORY, each, port, protocol) == expected, (each, protocol, port)
                assert machine.ask_from_container(each, port, protocol) == expected, (each, protocol, port)


def test_every_cloud_that_machines_are_bought_in_has_one() -> None:
    """A provider has to say: without the attribute it is not one."""
    assert set(WITH_IDENTITY) >= {"aws", "oci", "azure", "google"}
    assert set(BUILT_IN) - set(WITH_IDENTITY) == {"local", "lab", "site"}
    for name, kind in PROVIDERS.kinds():
        assert not kind.is_cloud or name in WITH_IDENTITY
    assert "metadata_service" in PROVIDERS.answers
    families = {6 if ":" in each else 4 for each in OCI.metadata_service.addresses}
    assert families == {4, 6}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_machine_with_an_identity_is_given_the_guard_before_users_and_scheduler(name: str) -> None:
    """In the files that `render` shows, and in each bundle that machines set themselves up from."""
    spec = parse_spec(init_text(name), base=Path("/srv"))
    host = HostMachine(NodeHardware(name="here", cores_per_socket=4, threads_per_core=2, memory_bytes=2**34))
    playbooks: list[Any] = [PROVIDERS.get(name).render(spec, host, None).files]  # type: ignore[attr-defined]
    playbooks += bundled(name)
    assert (len(playbooks) > 1) == PROVIDERS.get(name).is_cloud
    for files in playbooks:
        known = yaml.safe_load(files["group_vars/all.yml"]).get("gridwright_metadata")
        service = PROVIDERS.get(name).metadata_service
        assert known == (service.variables() if service else None)
        tasks = [each["name"] for each in yaml.safe_load(files["site.yml"])[1]["tasks"]]
        guard = tasks.index("Keep the metadata of the machine from users")
        assert guard == tasks.index("Set kernel, limits, disks and services") + 1 <= 1
        assert "roles/metadata/templates/metadata.nft.j2" in files


def bundled(name: str) -> list[Any]:
    """What machines of each part of a cloud's grid fetch at their start: of examples that have servers."""
    if name == "aws":
        spec = load_spec(EXAMPLES / "aws-lustre.yaml")
        parts = machine_files(spec, aws_layout(spec), None).parts
    elif name == "oci":
        spec = load_spec(EXAMPLES / "oci-lustre.yaml")
        parts = oci_machine_files(spec, oci_layout(spec), None).parts
    else:
        return []
    assert set(parts) == {"nodes", "servers"}
    return list(parts.values())


def test_the_guard_is_in_force_at_each_start_before_programs_of_users() -> None:
    unit = ROLE.joinpath("files", "gridwright-metadata.service").read_text("utf-8")
    before = next(line for line in unit.splitlines() if line.startswith("Before="))
    assert {"network-pre.target", "sysinit.target"} <= set(before.removeprefix("Before=").split())
    assert "WantedBy=sysinit.target" in unit
