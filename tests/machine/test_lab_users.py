"""Users of a lab, of its spec and of a real OpenLDAP behind a real SSSD: the same on every node, and kept."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.providers.lab.power import record_of
from gridwright.providers.lab.record import Places
from gridwright.providers.lab.services import node_of
from tests.support.command import Command, wait_until
from tests.support.lab import Lab, up
from tests.support.ldap_server import BASE, BIND_DN, BIND_SECRET, LdapServer, prepare, serving
from tests.support.skips import needs

pytestmark = pytest.mark.root
NODES = ("controller", "compute1", "compute2")
HOMES = "/mnt/grid/homes"
SPEC = """\
name: labusers
provider: lab
nodes: {{compute: {{count: 2, cores: 1, memory: 512 MiB}}}}
filesystems: {{shared: {{type: local, path: /mnt/grid}}}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
scheduler: {{type: slurm}}
lab: {{network: 10.94.0.0/24}}
users:
  groups: {{risk: 3001, audit: 3002}}
  homes: {{filesystem: shared}}
  local:
    anna: {{uid: 2001, groups: [risk], full_name: Anna Arendt, keys: ["{key}"]}}
    dora: {{uid: 2002, group: audit}}
  ldap:
    servers: ["{uri}"]
    base: "{base}"
    ca: {ca}
    bind: {{dn: "{bind}", secret: {secret}}}
    allow_groups: [gridusers]
    login: [keys, password]
"""


EXAMPLE = Path(__file__).parents[2] / "examples/roles/product"
DEPOT = "/mnt/grid/depots/thing"
INSTALLER = """#!/bin/sh
[ "$1" = -quiet ] && [ "$2" = -responsefile ] || exit 9
mkdir -p "$5/bin"
by="installed by $(id -un) on $(hostname) with $(grep edition "$3")"
printf '#!/bin/sh\\necho "%s"\\n' "$by" > "$5/bin/thing"
chmod +x "$5/bin/thing"
date >> "$5/times"
"""
PRODUCT = f"""\
setup:
  after: [./roles/product]
  variables: {{product_name: thing, product_depot: {DEPOT}, product_directory: /mnt/grid/products/thing,
    product_user: dora}}
"""


class Grid:
    """The lab with its directory of users."""

    def __init__(self, lab: Lab, server: LdapServer, key: Path) -> None:
        self.lab, self.server, self.key = lab, server, key

    def on(self, node: str, command: str) -> str:
        """What a line of shell prints on a node, as root."""
        done = self.lab.run(node, "sh", "-c", command)
        assert done.status == 0, done.err
        return done.out.strip()

    def job(self, user: str, command: str, *options: str) -> str:
        """What a job prints that a user, who logged in, starts from home."""
        job = shlex.join(["srun", *options, "sh", "-c", command])
        done = self.lab.run("controller", "su", "-", user, "-c", job)
        assert done.status == 0, done.err
        return done.out.strip()

    def ssh(self, user: str, node: str) -> tuple[int, str]:
        """Log in from the controller with the key that the spec and the directory have."""
        options = "-i /root/of-users -o IdentitiesOnly=yes"
        done = self.lab.run("controller", "sh", "-c", f"ssh {options} {user}@{node} 'id -u; pwd'")
        return done.status, done.out


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    needs("slapd")
    directory = tmp_path_factory.mktemp("users")
    key = directory / "of-users"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, timeout=30)
    public = key.with_suffix(".pub").read_text().strip()
    server = prepare(directory, "10.94.0.10", public)
    spec = directory / "labusers.yaml"
    spec.write_text(
        SPEC.format(key=public, uri=server.uri, base=BASE, ca=server.ca, bind=BIND_DN, secret=server.secret)
    )
    with up(Lab(Command(directory), spec, "labusers")) as lab:
        controller = node_of(record_of(lab.name), "controller")
        with serving(server, controller.process.pid):
            found = Grid(lab, server, key)
            controller.write("/root/of-users", key.read_bytes(), mode=0o600)
            for node in NODES:
                # SSSD found no server when it started: have it look again now (sssd(8), SIGUSR2).
                found.on(node, "pkill -USR2 -x sssd")
            for node in NODES:
                known(found, node)
            yield found


def known(grid: Grid, node: str) -> None:
    """Wait until a node knows somebody of the directory."""
    wait_until(
        lambda: grid.lab.run(node, "getent", "passwd", "bob").out or None,
        seconds=30,
        what=f"bob on {node}",
        last=lambda: grid.lab.run(node, "sh", "-c", "tail -n 5 /var/log/sssd/*.log"),
    )


def test_every_node_has_the_same_numbers_and_homes(grid: Grid) -> None:
    for node in NODES:
        assert grid.on(node, "id anna") == "uid=2001(anna) gid=2001(anna) groups=2001(anna),3001(risk)"
        assert grid.on(node, "id dora") == "uid=2002(dora) gid=3002(audit) groups=3002(audit)"
        assert grid.on(node, "id bob") == "uid=5001(bob) gid=5100(gridusers) groups=5100(gridusers)"
        homes = [line.split(":")[5] for line in grid.on(node, "getent passwd anna bob").splitlines()]
        assert homes == [f"{HOMES}/anna", f"{HOMES}/bob"]
        assert grid.on(node, f"stat -c '%U %G %a' {HOMES}/anna") == "anna anna 700"


def test_who_logs_in_gets_a_home_and_jobs_on_all_nodes_use_it(grid: Grid) -> None:
    assert grid.on("controller", "su - bob -c pwd").splitlines()[-1] == f"{HOMES}/bob"
    ids = grid.job("bob", "id -u; id -g; umask 077; date > $HOME/of-$(hostname)", "-N2")
    assert sorted(ids.split()) == ["5001", "5001", "5100", "5100"]
    assert grid.on("compute1", f"cd {HOMES}/bob; ls of-*").split() == ["of-compute1", "of-compute2"]
    assert grid.on("compute2", f"stat -c %u {HOMES}/bob/of-compute1") == "5001"
    assert grid.job("anna", "id -Gn; cat .profile > copy").split()[-1] == "risk"


def test_keys_of_spec_and_directory_let_in_and_groups_keep_out(grid: Grid) -> None:
    assert grid.ssh("anna", "compute1") == (0, f"2001\n{HOMES}/anna\n")
    assert grid.ssh("bob", "controller") == (0, f"5001\n{HOMES}/bob\n")
    assert grid.ssh("dora", "compute1")[0] == 255, "dora has no key"
    refused = grid.lab.run("controller", "su", "-", "carol", "-c", "id")
    assert refused.status != 0, "carol is in no group that is allowed"
    assert "uid=5002" not in refused.out


def test_the_secret_is_roots_alone(grid: Grid) -> None:
    assert grid.on("compute1", "stat -c '%U %a' /etc/sssd/sssd.conf") == "root 600"
    assert grid.on("compute1", f"stat -c '%U %a' {grid.server.secret}") == "root 600"
    readable = grid.lab.run(
        "compute1", "su", "-s", "/bin/sh", "nobody", "-c",
        f"grep -rsl {BIND_SECRET} /etc /var/lib/gridwright /var/log /usr/local",
    )  # fmt: skip
    assert readable.out == ""


def test_a_node_that_is_replaced_knows_everybody(grid: Grid) -> None:
    assert grid.lab.fault("power-off", "compute2").status == 0
    # A new machine in its place: nothing is left of what was written on the old one.
    for part in Places(grid.lab.name).node("compute2").iterdir():
        shutil.rmtree(part)
    assert grid.lab.fault("power-on", "compute2").status == 0
    known(grid, "compute2")
    assert grid.on("compute2", "id -u anna bob") == "2001\n5001"
    wait_until(
        lambda: grid.lab.run("controller", "sinfo", "-h", "-n", "compute2", "-t", "idle").out or None,
        seconds=60,
        what="compute2 to be idle",
        last=lambda: grid.lab.run("controller", "sinfo", "-N", "-l"),
    )
    assert grid.job("bob", "hostname; id -u; ls of-compute1", "-w", "compute2") == (
        "compute2\n5001\nof-compute1"
    )
    assert grid.ssh("anna", "compute2")[0] == 0


@pytest.mark.thorough
def test_who_leaves_the_spec_is_locked_and_keeps_files(grid: Grid) -> None:
    text = grid.lab.spec.read_text()
    line = next(line for line in text.splitlines() if line.startswith("    anna: "))
    other = line.replace("anna", "bob").replace("2001", "2009")
    role = grid.lab.spec.parent / "roles/product"
    shutil.copytree(EXAMPLE, role, dirs_exist_ok=True)
    grid.on(
        "controller",
        f"mkdir -p {DEPOT} && cat > {DEPOT}/setup.sh << 'END'\n{INSTALLER}END\nchmod +x {DEPOT}/setup.sh",
    )
    grid.lab.spec.write_text(text.replace(line, "    eva: {uid: 2003, groups: [risk]}") + PRODUCT)
    try:
        first, again = (setup(grid) for _ in range(2))
        assert "user anna, who left the spec: open -> locked" in first["compute1"]
        assert "user eva: missing -> 2003" in first["compute2"]
        assert again == {node: [] for node in NODES}
        # The site's own role: installed once, by an account of the spec, and used by a job of another one.
        assert (
            grid.job("eva", "thing", "-w", "compute2") == "installed by dora on controller with edition=grid"
        )
        assert grid.on("compute1", "wc -l < /mnt/grid/products/thing/times") == "1"
        assert grid.ssh("anna", "compute1")[0] == 255
        assert grid.on("compute2", f"stat -c %U {HOMES}/anna/.profile") == "anna"
        assert grid.job("eva", "id -Gn; pwd").split() == ["eva", "risk", f"{HOMES}/eva"]
        grid.lab.spec.write_text(text.replace(line, other))
        refused = grid.lab.command("setup", grid.lab.spec, seconds=280)
        assert refused.status == 3, refused.out
        assert "user bob has number 5001 in the directory, and 2009 in the spec" in refused.err
    finally:
        grid.lab.spec.write_text(text)
    for node in NODES:
        grid.on(node, "userdel bob; groupdel bob 2>/dev/null; true")
    setup(grid)
    assert grid.ssh("anna", "compute1")[0] == 0


def setup(grid: Grid) -> dict[str, list[str]]:
    """What the playbook changes on each node."""
    done = grid.lab.command("setup", grid.lab.spec, "--json", seconds=280)
    assert done.status == 0, done.err
    return {
        node["name"]: [
            f"{each['setting']}: {each['found']} -> {each['wanted']}"
            for each in node["changes"]
            if each["setting"]
        ]
        for node in done.json["nodes"]
    }


def test_who_is_known_may_work_while_no_server_answers(grid: Grid) -> None:
    grid.on("compute1", "getent passwd bob; getent initgroups bob")
    grid.server.stop()
    assert grid.job("bob", "id -u", "-w", "compute1") == "5001"
    assert grid.on("compute1", "id -Gn bob") == "gridusers"
