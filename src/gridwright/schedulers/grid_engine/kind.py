"""The kind `grid_engine`: its section of the grid spec, and how it is opened.

Grid Engine in a lab: sge_qmaster on the controller, sge_execd on the nodes that run jobs.

What the Grid Engine of a lab is told: its nodes, queues and limits, as files that its tools read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gridwright.schedulers.batch.kind import BatchKind
from gridwright.schedulers.grid_engine.commands import GridEngineSection, parse_answer, section_of
from gridwright.schedulers.machines import (
    GridPart,
    NetworkRule,
    NodeHardware,
    SchedulerNodes,
    hardware_of_nodes,
)
from gridwright.services.ports import Ports
from gridwright.services.service import (
    ServiceNode,
    call,
    make_directory,
    run_on_nodes,
    runs,
    start_daemon,
    wait_for,
)
from gridwright.spec.model import GridSpec
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.schedulers.batch.system import BatchSystem
    from gridwright.schedulers.head_node import HeadNode
    from gridwright.schedulers.usage import JobUsage
    from gridwright.services.service import Service


ROOT = "/var/lib/gridengine"
CELL = f"{ROOT}/default/common"
SPOOL = "/var/spool/gridengine"
USER = "sgeadmin"
DIRECTORY = "/etc/gridwright/grid_engine"
"""Where the controller has the files of this module."""

_GLOBAL = {
    # root submits jobs, too: a lab has no other user where the spec names none.
    "min_uid": "0",
    "min_gid": "0",
    # Nodes of a lab send no mail.
    "mailer": "/bin/true",
    # Every process of a job has a group of its own, and those of it that daemonised are killed by that.
    "execd_params": "ENABLE_ADDGRP_KILL=true",
    "reporting_params": "accounting=true reporting=false flush_time=00:00:01 joblog=false sharelog=00:00:00",
    "load_report_time": "00:00:05",
    "max_unheard": "00:00:30",
    "reschedule_unknown": "00:00:30",
    "gid_range": "65400-65499",
}
"""Values of the global configuration (sge_conf(5)) that differ from Debian's."""
_SCHEDULING = {
    "schedule_interval": "0:0:2",
    "flush_submit_sec": "1",
    "flush_finish_sec": "1",
    # The nodes of a lab share the load of one machine: the one with the most free slots is next.
    "load_formula": "-slots",
    "job_load_adjustments": "NONE",
    "max_pending_tasks_per_job": "1000",
}
"""Values of the scheduler's configuration (sched_conf(5)) that differ from its own."""
_QUEUE = {
    "load_thresholds": "NONE",
    "qtype": "BATCH",
    "shell_start_mode": "unix_behavior",
    "rerun": "FALSE",
}
_EXCLUSIVE = """\
name exclusive
shortcut excl
type BOOL
relop EXCL
requestable YES
consumable YES
default 0
urgency 0
"""
_MEMORY = """\
name {name}
shortcut {name}
type MEMORY
relop <=
requestable YES
consumable JOB
default 0
urgency 0
"""

INITIALISE = f"""\
set -e
rm -rf {SPOOL}/spooldb {SPOOL}/qmaster
install -d -o {USER} -g {USER} {SPOOL}/spooldb {SPOOL}/qmaster {SPOOL}/qmaster/job_scripts {CELL}
rm -rf {SPOOL}/complexes
cp -r {ROOT}/util/resources/centry {SPOOL}/complexes
cp {DIRECTORY}/complexes/* {SPOOL}/complexes/
chown -R {USER}:{USER} {SPOOL} {ROOT}/default
export SGE_ROOT={ROOT} SGE_CELL=default
as="setpriv --reuid={USER} --regid={USER} --clear-groups"
tools=/usr/lib/gridengine
$as $tools/spoolinit berkeleydb libspoolb {SPOOL}/spooldb init
$as $tools/spooldefaults configuration {DIRECTORY}/global
$as $tools/spooldefaults complexes {SPOOL}/complexes
$as $tools/spooldefaults usersets {ROOT}/util/resources/usersets
$as $tools/spooldefaults managers {USER} root
rm -rf {SPOOL}/complexes
touch {SPOOL}/initialised
"""
"""Makes the data base of sge_qmaster, as inst_sge does, without its questions."""

CONFIGURE = f"""\
set -e
cd {DIRECTORY}
# Users of the node know what is in /tmp: nothing there has a name that can be taken beforehand.
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
edit() {{ # NAME=VALUE lines in $1 replace those of standard input
    awk 'NR == FNR {{ i = index($0, "="); new[substr($0, 1, i - 1)] = substr($0, i + 1); next }}
        $1 in new {{ print $1, new[$1]; next }} {{ print }}' "$1" -
}}
while read -r name slots memory; do
    qconf -ah "$name" >/dev/null
    printf 'hostname %s\\nload_scaling NONE\\ncomplex_values %s\\n' \\
        "$name" "slots=$slots,exclusive=true,$memory" >"$made/host"
    for each in user_lists xuser_lists projects xprojects usage_scaling report_variables; do
        echo "$each NONE" >>"$made/host"
    done
    qconf -Ae "$made/host" >/dev/null
done <hosts
while read -r name; do
    qconf -as "$name" >/dev/null
done <submitters
qconf -Ap pe >/dev/null
qconf -sq >"$made/template"
for each in queues/*; do
    edit "$each" <"$made/template" >"$made/queue"
    qconf -Aq "$made/queue" >/dev/null
done
for each in quotas/*; do
    [ ! -e "$each" ] || qconf -Arqs "$each" >/dev/null
done
qconf -ssconf >"$made/template"
edit scheduling <"$made/template" >"$made/scheduling"
qconf -Msconf "$made/scheduling" >/dev/null
touch {SPOOL}/configured
"""
"""Tells a sge_qmaster that is new of its nodes and queues."""


def bootstrap(given: str) -> str:
    """The file bootstrap of a node, from the one that Debian has: names of nodes have no domain."""
    return re.sub(r"^ignore_fqdn.*$", "ignore_fqdn             true", given, flags=re.MULTILINE)


def global_configuration(given: str) -> str:
    """The global configuration, from the one that Debian has."""
    text = given
    for name, value in _GLOBAL.items():
        text, count = re.subn(rf"^{name}\s.*$", f"{name} {value}", text, flags=re.MULTILINE)
        if not count:
            text += f"{name} {value}\n"
    return text


def files(spec: GridSpec, controller: str, nodes: Sequence[NodeHardware]) -> Mapping[str, str]:
    """What the controller needs to tell sge_qmaster of a lab, by path below DIRECTORY."""
    section = section_of(spec)
    found = {
        "complexes/exclusive": _EXCLUSIVE,
        f"complexes/{section.memory}": _MEMORY.format(name=section.memory),
        "hosts": "".join(
            f"{node.name} {node.usable_cores} {section.memory}={int(node.memory_bytes)}\n" for node in nodes
        ),
        "submitters": "".join(f"{name}\n" for name in (controller, *(node.name for node in nodes))),
        "pe": _environment(section),
        "scheduling": _lines(_SCHEDULING),
    }
    for name, queue in section.queues.items():
        groups = queue.nodes or list(spec.nodes)
        names = {one for group in groups for one in spec.nodes[group].node_names(group)}
        members = [node for node in nodes if node.name in names]
        slots = "".join(f",[{member.name}={member.usable_cores}]" for member in members)
        values = {
            "qname": name,
            "hostlist": " ".join(member.name for member in members),
            "slots": f"1{slots}",
            "pe_list": section.parallel_environment,
            "h_rt": "INFINITY" if queue.time is None else str(int(queue.time)),
        }
        found[f"queues/{name}"] = _lines(_QUEUE | values)
        if queue.cores is not None:
            limit = f"limit queues {name} to slots={queue.cores}"
            found[f"quotas/{name}"] = f"{{\n name gridwright_{name}\n enabled TRUE\n {limit}\n}}\n"
    return found


def _environment(section: GridEngineSection) -> str:
    values = {
        "pe_name": section.parallel_environment,
        "slots": "999999",
        "user_lists": "NONE",
        "xuser_lists": "NONE",
        "start_proc_args": "NONE",
        "stop_proc_args": "NONE",
        "allocation_rule": "$pe_slots",
        "control_slaves": "FALSE",
        "job_is_first_task": "TRUE",
        "urgency_slots": "min",
        "accounting_summary": "FALSE",
        "qsort_args": "NONE",
    }
    return "".join(f"{name} {value}\n" for name, value in values.items())


def _lines(values: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())


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

        run_on_nodes(lab, nodes, put)

    def start(self, lab: SchedulerNodes, nodes: Sequence[str]) -> None:
        """Start sge_execd."""

        def start(node: ServiceNode) -> None:
            if not runs(node, "sge_execd"):
                start_daemon(node, ["/usr/sbin/sge_execd"], timeout_s=60.0)

        run_on_nodes(lab, nodes, start)

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
        heard = states and not any("u" in state for state in states)
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


QMASTER = Ports("Qmaster", 6444, 6444)
EXECD = Ports("Execd", 6445, 6445)
"""As /etc/services has sge_qmaster and sge_execd."""


class GridEngineKind(BatchKind[GridEngineSection]):
    """Hands jobs to Grid Engine through its own commands on the head node."""

    spec_model = GridEngineSection
    # Its mailer wants a mail system, and nullmailer is the smallest that Debian has.
    lab_packages = ("gridengine-client", "gridengine-exec", "gridengine-master", "nullmailer")

    def system(self, spec: GridSpec, head: HeadNode) -> BatchSystem:
        """The Grid Engine of a grid."""
        from gridwright.schedulers.grid_engine.system import GridEngine

        return GridEngine(spec, head)

    def usage(self, spec: GridSpec, head: HeadNode, since: float, until: float) -> list[JobUsage]:
        """What qacct has; see SchedulerKind."""
        from gridwright.schedulers.grid_engine.commands import tools
        from gridwright.schedulers.grid_engine.system import used

        return used(tools(section_of(spec), head), since, until)

    def lab_problems(self, section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """Grid Engine has no queues of higher priority: it orders jobs by shares, tickets and urgency."""
        queues = section.get("queues")
        for name, queue in queues.items() if isinstance(queues, Mapping) else ():
            if isinstance(queue, Mapping) and queue.get("priority", 1) != 1:
                yield (
                    ("queues", str(name), "priority"),
                    FieldError("Grid Engine gives queues no priority over others", "leave it out"),
                )

    def lab_services(
        self, spec: GridSpec, controller: str, workers: Sequence[str]
    ) -> Sequence[Service[SchedulerNodes]]:
        """sge_qmaster on the controller, sge_execd on the workers."""
        return (QueueMaster([controller], workers), ExecutionDaemons(workers))

    def network_rules(self, spec: GridSpec) -> Iterator[NetworkRule]:
        """Commands and nodes to the queue master, and the queue master to nodes."""
        for source in (GridPart.LOGIN, GridPart.COMPUTE):
            yield NetworkRule(GridPart.HEAD, source, QMASTER, "commands and nodes to sge_qmaster")
        yield NetworkRule(GridPart.COMPUTE, GridPart.HEAD, EXECD, "sge_qmaster to sge_execd")


KIND = GridEngineKind()
