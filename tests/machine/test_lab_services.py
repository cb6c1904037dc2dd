"""The services of a lab, really running: Slurm, ssh and MooseFS on nodes of this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gridwright.filesystems.health import Condition
from gridwright.filesystems.moosefs.health import health, master_of_mount, traffic
from gridwright.providers.lab.power import record_of
from gridwright.providers.lab.record import LabRecord
from gridwright.providers.lab.services import Node, nodes_of
from tests.support.command import wait_until
from tests.support.lab import Lab, on, printed
from tests.support.skips import needs, no_such_kernel

pytestmark = pytest.mark.root

MASTER = "storage1"


@pytest.fixture(scope="module")
def lab(common_lab: Lab) -> LabRecord:
    return record_of(common_lab.name)


@pytest.fixture(scope="module")
def nodes(lab: LabRecord) -> dict[str, Node]:
    return dict(nodes_of(lab))


ALICE, MALLORY = 2001, 2002
# What mallory runs: whom it reaches, and then the own library of MooseFS, which asks her program who she is.
_ATTACK = """
import ctypes, os, socket, struct, sys
master, path = sys.argv[1:3]
password = sys.stdin.readline().strip().encode() or None

def reached(host, port):
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        return type(error).__name__
    return "reached"

info = open("/mnt/grid/.masterinfo", "rb").read()
print("tools", reached(socket.inet_ntoa(info[:4]), struct.unpack(">H", info[4:6])[0]))
for port in (9419, 9420, 9421, 9422):
    print(port, reached(master, port))

class Configuration(ctypes.Structure):
    names = ("host", "port", "password", "mount_point", "path")
    _fields_ = [*((name, ctypes.c_char_p) for name in names), ("numbers", ctypes.c_int * 32)]

library = ctypes.CDLL("libmfsio.so.1")
made = Configuration(master.encode(), b"9421", password, b"/mnt", b"/")
made.numbers[:4] = [16, 16, 3, 1]
if library.mfs_init(ctypes.byref(made), 0) == 0:
    text = ctypes.create_string_buffer(100)
    library.mfs_read(library.mfs_open(path.encode(), os.O_RDONLY), text, 100)
    print("read", text.value.decode(), library.mfs_chown(path.encode(), 2002, 2002))
"""
_ROOT_BY_NAME = "".join(f"int get{of}id(void) {{ return 0; }}\n" for of in ("u", "eu", "g", "eg"))


def queue_is_idle(nodes: dict[str, Node]) -> None:
    wait_until(
        lambda: True if on(nodes["controller"], "squeue", "-h") == "" else None,
        seconds=30,
        what="no job",
        last=lambda: on(nodes["controller"], "squeue"),
    )


def test_a_job_runs_on_every_node(nodes: dict[str, Node]) -> None:
    assert sorted(on(nodes["controller"], "srun", "-N3", "hostname").split()) == [
        "compute1",
        "compute2",
        "compute3",
    ]


def test_a_job_over_its_memory_is_ended_by_the_kernel(nodes: dict[str, Node], lab: LabRecord) -> None:
    if lab.cgroups[0] == "none":
        no_such_kernel("control groups cannot be written to")
    program = "print(len(bytearray({} << 20)))"
    command = ["srun", "--mem=100", "python3", "-c"]
    assert on(nodes["controller"], *command, program.format(20)) == f"{20 << 20}\n"
    over = nodes["controller"].run([*command, program.format(300)])
    assert over.status != 0
    assert over.stdout == b""
    assert b"Out Of Memory" in over.stderr


def test_a_job_that_names_no_memory_gets_the_share_of_its_cores(nodes: dict[str, Node]) -> None:
    shown = on(nodes["controller"], "srun", "-n1", "-c2", "bash", "-c", "scontrol show job $SLURM_JOB_ID")
    assert "mem=512M" in shown


def test_a_queue_uses_no_more_cores_than_the_spec_says(nodes: dict[str, Node]) -> None:
    controller = nodes["controller"]
    try:
        for _ in range(5):
            on(controller, "sbatch", "-p", "narrow", "-D", "/", "-o", "/dev/null", "--wrap", "sleep 60")
        running = ["squeue", "-h", "-p", "narrow", "-t", "running", "-o", "%N"]
        wait_until(
            lambda: True if len(on(controller, *running).split()) == 3 else None,
            seconds=20,
            what="3 jobs that run",
            last=lambda: on(controller, "squeue"),
        )
        on(controller, "sleep", "1.5")
        assert len(on(controller, *running).split()) == 3
    finally:
        on(controller, "scancel", "-p", "narrow")
        queue_is_idle(nodes)


def test_a_job_that_can_never_run_is_refused_at_once(nodes: dict[str, Node]) -> None:
    for wrong in (["-p", "short", "-t", "2:00"], ["-c", "5"], ["--mem=2G"]):
        answer = nodes["controller"].run(["sbatch", *wrong, "-D", "/", "--wrap", "true"])
        assert answer.status != 0, wrong


def test_jobs_that_ended_are_in_the_accounting(nodes: dict[str, Node]) -> None:
    on(nodes["controller"], "srun", "-J", "counted", "true")
    wait_until(
        lambda: True if "counted" in on(nodes["controller"], "sacct", "-c") else None,
        seconds=10,
        what="the job in the accounting",
        last=lambda: on(nodes["controller"], "sacct", "-c"),
    )


def test_every_node_reaches_every_node_by_ssh_without_a_question(nodes: dict[str, Node]) -> None:
    assert on(nodes["controller"], "ssh", "compute1", "hostname") == "compute1\n"
    assert on(nodes["storage3"], "ssh", "controller", "hostname") == "controller\n"
    everywhere = on(nodes["controller"], "clush", "-w", "compute[1-3],storage[1-3]", "hostname", seconds=60)
    assert len(everywhere.splitlines()) == 6


def test_secrets_are_the_same_on_all_nodes_and_for_root_alone(
    nodes: dict[str, Node], common_lab: Lab
) -> None:
    keys = {nodes[name].read("/etc/munge/munge.key") for name in ("controller", "compute1", "compute3")}
    assert len(keys) == 1
    assert on(nodes["compute1"], "stat", "-c", "%a %U", "/etc/munge/munge.key") == "400 munge\n"
    assert on(nodes["compute1"], "stat", "-c", "%a", "/root/.ssh/id_ed25519") == "600\n"
    secrets = common_lab.record.parent / "secrets"
    assert secrets.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in secrets.iterdir()} == {0}


def test_what_one_node_wrote_another_reads_at_once(nodes: dict[str, Node]) -> None:
    for round_ in range(5):
        writer, reader = (nodes[f"compute{1 + (round_ + step) % 3}"] for step in (0, 1))
        content = f"round {round_}".encode() * 10_000
        printed(writer.run(["dd", "of=/mnt/grid/work/shared", "bs=64k", "conv=fsync"], stdin=content))
        assert reader.run(["cat", "/mnt/grid/work/shared"]).stdout == content


def test_data_are_kept_as_often_as_the_spec_says(nodes: dict[str, Node]) -> None:
    on(nodes["compute1"], "dd", "if=/dev/zero", "of=/mnt/grid/data/kept", "bs=1M", "count=2", "conv=fsync")
    assert on(nodes["compute2"], "mfsgetgoal", "/mnt/grid/data/kept").strip().endswith(": 2")
    copies = on(nodes["compute2"], "mfsfileinfo", "/mnt/grid/data/kept").count("copy ")
    assert copies == 2


def test_the_file_system_tells_how_it_is(nodes: dict[str, Node]) -> None:
    found = health(nodes["controller"].run, MASTER)
    assert found.condition is Condition.HEALTHY
    assert [each.up for each in found.servers] == [True] * 3
    assert len(found.targets) == 3
    assert found.available_bytes
    assert found.capacity_bytes
    assert found.available_bytes < found.capacity_bytes
    # The first minute has no figures yet; what is there belongs to servers that were asked for.
    names = {each.name for each in found.servers}
    assert {each.server for each in traffic(nodes["controller"].run, found.servers, MASTER)} <= names
    mounts = on(nodes["compute1"], "cat", "/proc/mounts").splitlines()
    (source,) = [line.split()[0] for line in mounts if " /mnt/grid " in line]
    assert master_of_mount(source) == MASTER


def test_no_process_of_a_user_speaks_with_moosefs(nodes: dict[str, Node], tmp_path: Path) -> None:
    needs("cc")
    (tmp_path / "ids.c").write_text(_ROOT_BY_NAME)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "ids.so", tmp_path / "ids.c"], check=True)
    node, secret = nodes["compute1"], "/mnt/grid/work/of-alice"
    node.write("/tmp/attack.py", _ATTACK)
    node.write("/tmp/ids.so", (tmp_path / "ids.so").read_bytes(), mode=0o755)
    node.write(secret, "of alice", mode=0o600)
    on(node, "chown", f"{ALICE}:{ALICE}", secret)

    def attack(uid: int, password: str = "") -> list[str]:
        user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        program = ["env", "LD_PRELOAD=/tmp/ids.so", "python3", "/tmp/attack.py", MASTER, "/work/of-alice"]
        done = node.run([*user, *program], stdin=f"{password}\n".encode(), timeout_s=60)
        # The library writes there by itself, too.
        return [each for each in done.stdout.decode().splitlines() if not each.startswith("mfsmaster")]

    key = node.read("/etc/mfs/mount-shared.cfg").decode().strip().removeprefix("mfspassword=")
    assert on(node, "stat", "-c", "%a %U", "/etc/mfs/mount-shared.cfg") == "600 root\n"
    assert key not in on(node, "sh", "-c", "cat /proc/[0-9]*/cmdline /proc/mounts | tr '\\0' ' '")
    where = ["tools", "9419", "9420", "9421", "9422"]
    refused = [f"{each} ConnectionRefusedError" for each in where]
    assert attack(MALLORY) == attack(MALLORY, key) == refused
    assert on(node, "stat", "-c", "%u", secret) == f"{ALICE}\n"
    reached = [f"{each} reached" for each in where]
    assert attack(0) == reached, "root without the password, as on a machine that has no such rules"
    assert attack(0, key) == [*reached, "read of alice 0"], "the attack is one"
