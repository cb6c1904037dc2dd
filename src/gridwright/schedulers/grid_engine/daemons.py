"""Grid Engine in a lab: sge_qmaster on the controller, sge_execd on the nodes that run jobs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gridwright.schedulers.grid_engine.configuration import (
    CELL,
    CONFIGURE,
    DIRECTORY,
    INITIALISE,
    SPOOL,
    USER,
    bootstrap,
    files,
    global_configuration,
)
from gridwright.schedulers.grid_engine.xml_answer import parse_answer
from gridwright.schedulers.in_lab import SchedulerNodes
from gridwright.schedulers.machines import NodeHardware, hardware_of_nodes
from gridwright.services.daemon import call, make_directory, on_each, runs, start_daemon, wait_for
from gridwright.services.service import ServiceNode

_DEFAULTS = "/usr/share/gridengine"
_INITIALISED, _CONFIGURED = f"{SPOOL}/initialised", f"{SPOOL}/configured"


class QueueMaster:
    """sge_qmaster on the controller, which knows all nodes and gives out their slots."""

    name = "sge_qmaster"
    patience_s = 60.0

    def __init__(self, nodes: Sequence[str], workers: Sequence[str]) -> None:
        self.nodes = nodes
        self._workers = workers

    def prepare(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Write the configuration, and make its data base where there is none yet."""
        for name in nodes:
            node = lab.nodes[name]
            _write_cell(lab, node)
            if _exists(node, _INITIALISED):
                continue
            given = node.read(f"{_DEFAULTS}/default-configuration").decode()
            node.write(f"{DIRECTORY}/global", global_configuration(given))
            for path, text in files(lab.spec, lab.controller, _hardware(lab)).items():
                node.write(f"{DIRECTORY}/{path}", text)
            call(node, ["/bin/sh", "-c", INITIALISE])

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start it, and tell it of nodes and queues where it is new."""
        for name in nodes:
            node = lab.nodes[name]
            if not runs(node, "sge_qmaster"):
                start_daemon(node, ["/usr/sbin/sge_qmaster"])
            wait_for(partial(self.lacking, lab, name))
            if not _exists(node, _CONFIGURED):
                call(node, ["/bin/sh", "-c", CONFIGURE], timeout_s=120.0)

    def lacking(self, lab: SchedulerNodes, node: str) -> str | None:
        """It answers."""
        here = lab.nodes[node]
        if not runs(here, "sge_qmaster"):
            return f"sge_qmaster does not run: its log is {SPOOL}/qmaster/messages"
        answered = here.run(["qconf", "-sql"], timeout_s=4.0).status == 0
        return None if answered else "sge_qmaster does not answer"


class ExecutionDaemons:
    """sge_execd on every node that runs jobs."""

    name = "sge_execd"
    patience_s = 60.0

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes

    def prepare(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Tell the node where the queue master is."""

        def put(node: ServiceNode) -> None:
            _write_cell(lab, node)
            make_directory(node, f"{SPOOL}/execd", owner=USER)

        on_each(lab, nodes, put)

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start sge_execd."""

        def start(node: ServiceNode) -> None:
            if not runs(node, "sge_execd"):
                start_daemon(node, ["/usr/sbin/sge_execd"], timeout_s=60.0)

        on_each(lab, nodes, start)

    def lacking(self, lab: SchedulerNodes, node: str) -> str | None:
        """The queue master has heard of it."""
        if not runs(lab.nodes[node], "sge_execd"):
            return f"sge_execd does not run: its log is {SPOOL}/execd/{node}/messages"
        controller = lab.nodes.get(lab.controller)
        if controller is None:
            return None  # It registers when the controller is powered on.
        answer = controller.run(["qhost", "-q", "-h", node, "-xml"], timeout_s=4.0)
        if answer.status:
            return f"sge_qmaster does not answer on {controller.name}"
        host = parse_answer(answer.stdout, "qhost")
        states = [each.text or "" for each in host.iter("queuevalue") if each.get("name") == "state_string"]
        heard = states and not any("u" in each for each in states)
        return None if heard else "sge_qmaster has not heard of it yet"


def _exists(node: ServiceNode, path: str) -> bool:
    return node.run(["test", "-e", path], timeout_s=5.0).status == 0


def _write_cell(lab: SchedulerNodes, node: ServiceNode) -> None:
    given = node.read(f"{_DEFAULTS}/default-bootstrap").decode()
    node.write(f"{CELL}/bootstrap", bootstrap(given), owner=USER)
    node.write(f"{CELL}/act_qmaster", f"{lab.controller}\n", owner=USER)


def _hardware(lab: SchedulerNodes) -> list[NodeHardware]:
    """The nodes of a lab; the controller is asked for what the spec leaves open."""
    asked = lab.nodes[lab.controller]
    cores = int(call(asked, ["nproc"]).decode())
    memory = 1024 * int(call(asked, ["awk", '$1 == "MemTotal:" { print $2 }', "/proc/meminfo"]).decode())
    machine = NodeHardware(name="", cores_per_socket=cores, memory_bytes=memory)
    machines = dict.fromkeys(lab.spec.nodes, machine)
    return hardware_of_nodes(lab.spec, machines, share_one_machine=True)
