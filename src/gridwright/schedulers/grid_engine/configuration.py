"""What the Grid Engine of a lab is told: its nodes, queues and limits, as files that its tools read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gridwright.schedulers.grid_engine.section import GridEngineSection, section_of
from gridwright.schedulers.machines import NodeHardware
from gridwright.spec.model import GridSpec

ROOT = "/var/lib/gridengine"
CELL = f"{ROOT}/default/common"
SPOOL = "/var/spool/gridengine"
USER = "sgeadmin"
DIRECTORY = "/etc/gridwright/grid_engine"
"""Where the controller has the files of this module."""

_GLOBAL = {
    # root hands in jobs, too: a lab has no other user where the spec names none.
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
            f"{each.name} {each.usable_cores} {section.memory}={int(each.memory_bytes)}\n" for each in nodes
        ),
        "submitters": "".join(f"{name}\n" for name in (controller, *(each.name for each in nodes))),
        "pe": _environment(section),
        "scheduling": _lines(_SCHEDULING),
    }
    for name, queue in section.queues.items():
        groups = queue.nodes or list(spec.nodes)
        names = {one for group in groups for one in spec.nodes[group].node_names(group)}
        members = [each for each in nodes if each.name in names]
        slots = "".join(f",[{each.name}={each.usable_cores}]" for each in members)
        values = {
            "qname": name,
            "hostlist": " ".join(each.name for each in members),
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
