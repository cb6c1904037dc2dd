"""What the exporter's figures are for: alert rules for Prometheus, and dashboards for Grafana (pure).

Rules are made out of what a grid spec requires, and judge as `top` does (`monitor/libraries.py`): what a file
system moves for each busy core against the largest requirement of the libraries on it, and only while
somebody waits for storage.

Dashboards are written by the JSON model of Grafana's documents (schemaVersion 36, Grafana 9 and later); there
is no Grafana here that they could have been loaded in.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gridwright.monitor.causes.measured import FULL, MANY_AT_ONCE
from gridwright.monitor.exporter.metric_families import known_series
from gridwright.monitor.rows import HOLDS_UP, WAITING
from gridwright.spec.model import GridSpec
from gridwright.units import Rate

DEFAULT_SCRAPE_JOB = "gridwright"
BUSY, DELIVERED, WAITS = (
    f"gridwright:{name}" for name in ("busy_cores", "delivered_bytes_per_second", "storage_wait")
)
"""Series that the rules record."""
_WINDOW = "5m"
"""Over which rates are taken: with scrapes each minute, a lost one leaves four."""
_BELOW_FOR = "10m"
_FULL_PART = 0.05
"""Of its room that is left when a file system is as good as full: Lustre slows down from there on."""
_FILLS_S = 3 * 86_400
"""How long before a file system is full it is told: over a week-end."""
_TRAIL = "6h"
"""How long its filling is looked at."""
_CONNECTED = "FULL|IDLE|NEW"
"""States of connections of Lustre with which nothing is wrong (lustre/include/lustre_import.h)."""
_HEADER = """\
# Alert rules of grid {name}, by `gridwright exporter --rules`: make them anew when the grid spec changes.
# They are for scrapes under job_name {job}, of exporters that know the directories of libraries.
"""


def is_scrape_job(name: str) -> bool:
    """Whether a name can stand in the rules as that of a scrape job, within quotes."""
    return re.fullmatch(r"[A-Za-z0-9_.:/-]{1,64}", name) is not None


@dataclass(frozen=True, slots=True)
class _Libraries:
    """The libraries on one file system."""

    filesystem: str
    names: Sequence[str]
    directories: Sequence[str]
    required: Rate | None
    """The largest of them, for each core."""


def rules_text(spec: GridSpec, scrape_job: str = DEFAULT_SCRAPE_JOB) -> str:
    """The rules file of a grid, as YAML. The same spec gives the same file."""
    from ruamel.yaml import YAML

    libraries = list(_on_filesystems(spec))
    rules = [*_recorded(libraries, scrape_job), *_alerts(spec, libraries, scrape_job)]
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 110
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump({"groups": [{"name": f"gridwright-{spec.name}", "rules": rules}]}, text)
    return _HEADER.format(name=spec.name, job=scrape_job) + text.getvalue()


def _on_filesystems(spec: GridSpec) -> Iterator[_Libraries]:
    for filesystem in dict.fromkeys(library.filesystem for library in spec.libraries.values()):
        names = [name for name, library in spec.libraries.items() if library.filesystem == filesystem]
        required = [
            library.requires for library in spec.libraries.values() if library.filesystem == filesystem
        ]
        rates = [each for each in required if each is not None]
        yield _Libraries(
            filesystem,
            names,
            [str(spec.library_directory(name)) for name in names],
            max(rates, key=lambda rate: rate.bytes_per_s, default=None),
        )


def _recorded(libraries: Sequence[_Libraries], job: str) -> Iterator[dict[str, object]]:
    """What several alerts and dashboards need."""
    yield {"record": BUSY, "expr": busy_cores(job)}
    for library in libraries:
        for record, expression in ((DELIVERED, _delivered(library, job)), (WAITS, _waits(library, job))):
            yield {"record": record, "labels": {"filesystem": library.filesystem}, "expr": expression}


def busy_cores(job: str) -> str:
    """Cores of all nodes that run or wait for I/O; nodes of one machine see the same ones."""
    used = _used(job)
    cores = f'max by (job, instance) (gridwright_node_cores{{job="{job}"}})'
    least = f"({used} <= {cores}) or ({cores} < {used})"
    boot = f'group by (job, instance, boot) (gridwright_node_info{{job="{job}"}}{_of_nodes_only(job)})'
    return f"sum by (job) (max by (job, boot) (({least}) * on (job, instance) group_left (boot) {boot}))"


def _used(job: str) -> str:
    """CPUs of each node that run or wait for I/O."""
    return (
        f"sum by (job, instance) (rate(gridwright_node_cpu_seconds_total"
        f'{{job="{job}",mode=~"user|nice|system|irq|softirq|iowait"}}[{_WINDOW}]))'
    )


def _of_nodes_only(job: str) -> str:
    """What leaves servers out, which know no directories of libraries: nobody's job runs or waits there."""
    return f' and on (job, instance) gridwright_directory_info{{job="{job}"}}'


def _lies(
    libraries: _Libraries, job: str, label: str, *, more: str = "", info: str = "directory_info"
) -> str:
    """Of each node, the mounts or disks that the libraries lie on, each once."""
    paths = "|".join(_exactly(path) for path in libraries.directories)
    labels = f'job="{job}",directory=~"{paths}"{more}'
    return f"group by (job, instance, {label}) (gridwright_{info}{{{labels}}})"


def _delivered(libraries: _Libraries, job: str) -> str:
    """What clients moved where these count it; else what the disk of each machine moved."""

    def moved(kind: str) -> str:
        return " + ".join(
            f'rate(gridwright_{kind}_{way}_bytes_total{{job="{job}"}}[{_WINDOW}])'
            for way in ("read", "written")
        )

    clients = (
        f"({moved('mount')}) * on (job, instance, mountpoint) group_left () "
        f"{_lies(libraries, job, 'mountpoint')}"
    )
    disks = _lies(libraries, job, "device", more=',device!=""')
    boot = f'group by (job, instance, boot) (gridwright_node_info{{job="{job}"}})'
    on_disks = f"({moved('node_disk')}) * on (job, instance, device) group_left () {disks}"
    local = f"max by (job, boot, device) ({on_disks} * on (job, instance) group_left (boot) {boot})"
    return f"sum by (job) ({clients} or {local})"


def _waits(libraries: _Libraries, job: str) -> str:
    """1 while somebody waits for storage, on any node: tasks, CPUs, or requests at a full disk.

    A disk that takes many requests at once is full with many of them alone. Where the kernel tells no
    pressure (psi=0), one job that waits is somebody, however many CPUs the node has.
    """
    only = _of_nodes_only(job)
    pressure = f'rate(gridwright_node_pressure_io_waiting_seconds_total{{job="{job}"}}[{_WINDOW}])'
    iowait = f'rate(gridwright_node_cpu_seconds_total{{job="{job}",mode="iowait"}}[{_WINDOW}])'
    cpus = f'gridwright_node_cpus{{job="{job}"}}'
    busy = f'rate(gridwright_node_disk_io_time_seconds_total{{job="{job}"}}[{_WINDOW}])'
    below = _lies(libraries, job, "device", info="directory_disk_info")
    disk = "on (job, instance, device)"
    in_flight = f'rate(gridwright_node_disk_io_time_weighted_seconds_total{{job="{job}"}}[{_WINDOW}])'
    has_room = (
        f"{in_flight} < {MANY_AT_ONCE}"
        f' and {disk} (gridwright_disk_rotational{{job="{job}"}} == 0'
        f' or gridwright_disk_rotational{{job="{job}",device=~"nvme.*"}})'
    )
    told = f'gridwright_node_pressure_io_waiting_seconds_total{{job="{job}"}}'
    one = f"on (job, instance) group_left () ({WAITING} * clamp_min({_used(job)}, 1))"
    silent = f"({iowait} >= {one} unless on (job, instance) {told}{only})"
    return (
        f"clamp_max(max by (job) (({pressure} >= {HOLDS_UP}{only})"
        f" or ({iowait} / on (job, instance) group_left () {cpus} >= {WAITING}{only}) or {silent}"
        f" or (({busy} unless {disk} ({has_room})) * {disk} group_left () {below} >= {FULL})) * 1000, 1)"
    )


def _alerts(spec: GridSpec, libraries: Sequence[_Libraries], job: str) -> Iterator[dict[str, object]]:
    for library in libraries:
        if library.required is not None:
            yield _below(spec, library, library.required, job)
        yield from _space(spec, library, job)
    yield from _of_nodes(spec, job)


def _below(spec: GridSpec, libraries: _Libraries, required: Rate, job: str) -> dict[str, object]:
    which = f'{{job="{job}",filesystem="{libraries.filesystem}"}}'
    return _alert(
        spec,
        "GridwrightLibraryBelowRequirement",
        f"{DELIVERED}{which} / on (job) group_left () {BUSY}"
        f" < {float(required.bytes_per_s):.12g} and on (job) {WAITS}{which} == 1",
        _BELOW_FOR,
        f"{libraries.filesystem} gives each busy core {{{{ $value | humanize }}}}B/s, and less than "
        f"{required} are required",
        f"Libraries {', '.join(libraries.names)}; somebody waits for storage. "
        f"See: gridwright top {_file(spec)}",
        filesystem=libraries.filesystem,
    )


def _space(spec: GridSpec, libraries: _Libraries, job: str) -> Iterator[dict[str, object]]:
    lies = _lies(libraries, job, "mountpoint")
    names = ", ".join(libraries.names)

    def of_mounts(figure: str) -> str:
        joined = f"({figure}) * on (job, instance, mountpoint) group_left () {lies}"
        return f"min by (job, mountpoint) ({joined})"

    left, size = (f'gridwright_node_filesystem_{what}_bytes{{job="{job}"}}' for what in ("avail", "size"))
    yield _alert(
        spec,
        "GridwrightLibraryFull",
        of_mounts(f"{left} / {size}") + f" < {_FULL_PART}",
        "10m",
        f"{libraries.filesystem} has {{{{ $value | humanizePercentage }}}} of its room left",
        f"Libraries {names} on {{{{ $labels.mountpoint }}}} of the fullest node.",
        filesystem=libraries.filesystem,
    )
    window = f"{left}[{_TRAIL}]"
    known = of_mounts(f"{left} offset {_TRAIL}")
    yield _alert(
        spec,
        "GridwrightLibraryFills",
        of_mounts(f"predict_linear({window}, {_FILLS_S})") + f" < 0 and {known}",
        "1h",
        f"{libraries.filesystem} will be full in three days or sooner, as it fills now",
        f"Libraries {names} on {{{{ $labels.mountpoint }}}}, by the last {_TRAIL}.",
        filesystem=libraries.filesystem,
    )


def _of_nodes(spec: GridSpec, job: str) -> Iterator[dict[str, object]]:
    asleep = "|".join(re.escape(powered_node) for powered_node in sorted(spec.powered_nodes()))
    on = f',instance!~"{_escaped(f"({asleep})([.:].*)?")}"' if asleep else ""
    yield _alert(
        spec,
        "GridwrightNodeAway",
        f'up{{job="{job}"{on}}} == 0',
        "5m",
        "{{ $labels.instance }} does not answer",
        f"Its exporter, or the node: gridwright status {_file(spec)}",
    )
    yield _alert(
        spec,
        "GridwrightNothingScraped",
        f'absent(up{{job="{job}"}})',
        "10m",
        f"nothing of grid {spec.name} is scraped",
        f"Prometheus has no targets under job_name {job}.",
    )
    yield _alert(
        spec,
        "GridwrightSourceSilent",
        f'gridwright_source_silent{{job="{job}"}} == 1',
        "2m",
        "{{ $labels.source }} of {{ $labels.instance }} does not answer",
        f"A mount that hangs, or a counter that cannot be read. See: gridwright doctor {_file(spec)}",
    )
    yield from _of_targets(spec, job)


def _of_targets(spec: GridSpec, job: str) -> Iterator[dict[str, object]]:
    """Of file systems whose servers, or whose clients, tell how their targets are."""
    file, known = _file(spec), known_series()
    apart = f'gridwright_connection_state{{job="{job}",state!~"{_CONNECTED}"}}'
    for metric, name, condition, lasting, summary in (
        (
            "lustre_health_healthy",
            "GridwrightServerNotHealthy",
            f'lustre_health_healthy{{job="{job}"}} == 0',
            "2m",
            "Lustre on {{ $labels.instance }} says that it is not healthy",
        ),
        (
            "gridwright_connection_state",
            "GridwrightTargetAway",
            f"count by (job, target, state) ({apart})",
            "5m",
            "{{ $value }} connections to {{ $labels.target }} are in state {{ $labels.state }}",
        ),
        (
            "recovery_status",
            "GridwrightTargetRecovers",
            f'recovery_status{{job="{job}"}} > 1',
            "15m",
            "{{ $labels.target }} has not ended its recovery",
        ),
    ):
        if metric in known:
            yield _alert(spec, name, condition, lasting, summary, f"See: gridwright doctor {file}")


def _alert(
    spec: GridSpec, name: str, expression: str, lasting: str, summary: str, description: str, **labels: str
) -> dict[str, object]:
    return {
        "alert": name,
        "expr": expression,
        "for": lasting,
        "labels": {"severity": "warning", "grid": spec.name, **labels},
        "annotations": {"summary": summary, "description": description},
    }


def _file(spec: GridSpec) -> str:
    return spec.file.name if spec.file else "grid.yaml"


def _exactly(path: str) -> str:
    """A pattern that matches this path alone, within quotes of PromQL."""
    return _escaped(re.escape(path))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


_RATE = "[$__rate_interval]"
_OF = 'job="$job",instance=~"$instance"'
_CPU, _IS_WAITING, _IS_USED = "gridwright_node_cpu_seconds_total", ',mode="iowait"', ',mode!="idle"'


@dataclass(frozen=True, slots=True)
class PanelQuery:
    """A curve, or several, and what Grafana is to call them."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class GrafanaPanel:
    """A chart. The unit is one of Grafana's names: Bps, bytes, percentunit, short, s."""

    title: str
    unit: str
    queries: Sequence[PanelQuery]
    about: str = ""


def _rate(metric: str, more: str = "") -> str:
    return f"rate({metric}{{{_OF}{more}}}{_RATE})"


def _both(kind: str, by: str, legend: str) -> list[PanelQuery]:
    """What was read and written, by a label."""
    return [
        PanelQuery(f"sum by ({by}) ({_rate(f'gridwright_{kind}_{what}_bytes_total')})", f"{legend} {word}")
        for what, word in (("read", "read"), ("written", "written"))
    ]


def _pressure(resource: str) -> PanelQuery:
    metric = f"gridwright_node_pressure_{resource}_waiting_seconds_total"
    return PanelQuery(f"max by (instance) ({_rate(metric)})", f"{{{{instance}}}} {resource}")


def _used_room(by: str) -> str:
    of = f"{{{_OF}}}"
    left = f"gridwright_node_filesystem_avail_bytes{of} / gridwright_node_filesystem_size_bytes{of}"
    return f"max by ({by}) (1 - {left})"


def _cards() -> list[PanelQuery]:
    speed = f"gridwright_node_network_speed_bytes{{{_OF}}}"
    return [
        PanelQuery(
            f"max by (instance) ({_rate(f'gridwright_node_network_{way}_bytes_total')}"
            f" / on (job, instance, device) {speed})",
            f"{{{{instance}}}} {way}",
        )
        for way in ("receive", "transmit")
    ]


_IO_WAIT = PanelQuery(f"sum by (instance) ({_rate(_CPU, _IS_WAITING)})", "{{instance}}")
_BUSY_DISKS = PanelQuery(_rate("gridwright_node_disk_io_time_seconds_total"), "{{instance}} {{device}}")

_GRID = (
    GrafanaPanel(
        "MB/s for each busy core",
        "Bps",
        [
            PanelQuery(
                f'{DELIVERED}{{job="$job"}} / on (job) group_left () {BUSY}{{job="$job"}}', "{{filesystem}}"
            )
        ],
        "From the rules of gridwright exporter --rules; what is required is in the grid spec.",
    ),
    GrafanaPanel(
        "Busy cores",
        "short",
        [
            PanelQuery(f'{BUSY}{{job="$job"}}', "busy"),
            PanelQuery('sum (gridwright_node_cores{job="$job"})', "cores of all nodes"),
        ],
    ),
    GrafanaPanel("Moved by clients, by mount", "Bps", _both("mount", "mountpoint", "{{mountpoint}}")),
    GrafanaPanel("Moved by disks of nodes", "Bps", _both("node_disk", "instance", "{{instance}}")),
    GrafanaPanel(
        "Waiting for storage",
        "percentunit",
        [_pressure("io")],
        "Part of the time in which some task waited for I/O.",
    ),
    GrafanaPanel("Fullest card", "percentunit", _cards()),
    GrafanaPanel(
        "Room used",
        "percentunit",
        [PanelQuery(_used_room("mountpoint"), "{{mountpoint}}")],
        "Of the fullest node.",
    ),
    GrafanaPanel(
        "Does not answer",
        "short",
        [
            PanelQuery('up{job="$job"} == 0', "{{instance}} is away"),
            PanelQuery(f"gridwright_source_silent{{{_OF}}} == 1", "{{source}} of {{instance}}"),
        ],
    ),
)
_STORAGE = (
    GrafanaPanel(
        "Moved, by target",
        "Bps",
        _both("mount", "target", "{{target}}"),
        "The sum over the nodes that are shown.",
    ),
    GrafanaPanel(
        "Requests to servers, by target",
        "short",
        [
            PanelQuery(
                f"sum by (target) ({_rate(f'gridwright_mount_{what}_total')})", f"{{{{target}}}} {what}"
            )
            for what in ("reads", "writes")
        ],
    ),
    GrafanaPanel(
        "Unevenness of targets",
        "short",
        [
            PanelQuery(
                f"max by (mountpoint) ({moved}) / avg by (mountpoint) ({moved})",
                "{{mountpoint}}",
            )
            for moved in (f"sum by (mountpoint, target) ({_rate('gridwright_mount_written_bytes_total')})",)
        ],
        "The busiest target against the mean, in bytes written: 1 is even.",
    ),
    GrafanaPanel("Disks busy", "percentunit", [_BUSY_DISKS], "Part of the time with a request in flight."),
    GrafanaPanel(
        "Requests in flight at disks",
        "short",
        [PanelQuery(_rate("gridwright_node_disk_io_time_weighted_seconds_total"), "{{instance}} {{device}}")],
    ),
    GrafanaPanel(
        "Room used",
        "percentunit",
        [PanelQuery(_used_room("instance, mountpoint"), "{{instance}} {{mountpoint}}")],
    ),
)
_JOBS = (
    GrafanaPanel("Moved, by job", "Bps", _both("job", "jobid", "{{jobid}}")),
    GrafanaPanel(
        "CPUs, by job",
        "short",
        [PanelQuery(f"sum by (jobid) ({_rate('gridwright_job_cpu_seconds_total')})", "{{jobid}}")],
    ),
    GrafanaPanel(
        "Memory, by job",
        "bytes",
        [PanelQuery(f"sum by (jobid) (gridwright_job_resident_bytes{{{_OF}}})", "{{jobid}}")],
    ),
    GrafanaPanel(
        "Jobs that moved most",
        "bytes",
        [
            PanelQuery(
                "topk(20, sum by (jobid) ("
                + " + ".join(
                    f"increase(gridwright_job_{what}_bytes_total{{{_OF}}}[$__range])"
                    for what in ("read", "written")
                )
                + "))",
                "{{jobid}}",
            )
        ],
        "Within the range that is shown.",
    ),
)
_NODE = (
    GrafanaPanel(
        "CPUs, by what they do",
        "short",
        [PanelQuery(f"sum by (mode) ({_rate(_CPU, _IS_USED)})", "{{mode}}")],
    ),
    GrafanaPanel("Pressure", "percentunit", [_pressure(each) for each in ("cpu", "io", "memory")]),
    GrafanaPanel(
        "Memory",
        "bytes",
        [
            PanelQuery(
                f"sum by (instance) (gridwright_node_memory_{what}_bytes{{{_OF}}})",
                f"{{{{instance}}}} {what}",
            )
            for what in ("size", "available", "dirty")
        ],
    ),
    GrafanaPanel("CPUs in iowait", "short", [_IO_WAIT]),
    GrafanaPanel(
        "Network",
        "Bps",
        [
            PanelQuery(
                _rate(f"gridwright_node_network_{way}_bytes_total"), f"{{{{instance}}}} {{{{device}}}} {way}"
            )
            for way in ("receive", "transmit")
        ],
    ),
    GrafanaPanel("Disks", "Bps", _both("node_disk", "instance, device", "{{instance}} {{device}}")),
    GrafanaPanel("Load", "short", [PanelQuery(f"gridwright_node_load1{{{_OF}}}", "{{instance}}")]),
    GrafanaPanel(
        "What sampling costs",
        "percentunit",
        [PanelQuery(_rate("gridwright_exporter_cpu_seconds_total"), "{{instance}}")],
        "Part of one core.",
    ),
)


def _target_query(metric: str, word: str, component: str = "ost") -> PanelQuery:
    """What the targets of servers did, by target, whichever server has them."""
    return PanelQuery(
        f"sum by (target) ({_rate(metric, _component(component))})", f"{{{{target}}}} {word}".strip()
    )


def _component(name: str) -> str:
    return f',component="{name}"'


def _request_size(way: str) -> PanelQuery:
    moved, answered = (
        f"sum by (target) ({_rate(f'lustre_{way}_{what}_total')})" for what in ("bytes", "samples")
    )
    return PanelQuery(f"{moved} / {answered}", f"{{{{target}}}} {way}")


def _used_part(left: str, size: str) -> PanelQuery:
    return PanelQuery(f"max by (target) (1 - {left}{{{_OF}}} / {size}{{{_OF}}})", "{{target}}")


_SERVERS = (
    GrafanaPanel(
        "Moved, by target",
        "Bps",
        [
            _target_query("lustre_read_bytes_total", "read"),
            _target_query("lustre_write_bytes_total", "written"),
        ],
        "As servers of Lustre count it.",
    ),
    GrafanaPanel(
        "Moved, by job",
        "Bps",
        [
            PanelQuery(
                "topk(20, sum by (jobid) ("
                + " + ".join(
                    _rate(f"gridwright_served_job_{what}_bytes_total") for what in ("read", "written")
                )
                + "))",
                "{{jobid}}",
            )
        ],
        "The 20 that move most, as servers count them by Lustre's job ids.",
    ),
    GrafanaPanel(
        "Operations of metadata",
        "short",
        [
            PanelQuery(
                f"sum by (operation) ({_rate('lustre_stats_total', _component('mdt'))})", "{{operation}}"
            )
        ],
    ),
    GrafanaPanel(
        "Bytes for each request",
        "bytes",
        [_request_size("read"), _request_size("write")],
        "Much below the size of a stripe, somebody reads or writes in small pieces.",
    ),
    GrafanaPanel(
        "Room used",
        "percentunit",
        [_used_part("lustre_available_kilobytes", "lustre_capacity_kilobytes")],
    ),
    GrafanaPanel(
        "Files used",
        "percentunit",
        [_used_part("lustre_inodes_free", "lustre_inodes_maximum")],
        "Of those that a target has room for.",
    ),
    GrafanaPanel(
        "Connections, by state",
        "short",
        [PanelQuery(f"count by (state) (gridwright_connection_state{{{_OF}}})", "{{state}}")],
        "FULL, IDLE and NEW are well.",
    ),
    GrafanaPanel(
        "Recovery and health",
        "short",
        [
            PanelQuery(f"max by (target) (recovery_status{{{_OF}}})", "{{target}}"),
            PanelQuery(f"lustre_health_healthy{{{_OF}}}", "{{instance}} is healthy"),
        ],
        "Targets: 0 complete, 1 inactive, 2 and 3 waiting, 4 recovering. Servers: 1 is healthy.",
    ),
    GrafanaPanel(
        "Locks",
        "short",
        [PanelQuery(f"sum by (target) (lustre_lock_count{{{_OF}}})", "{{target}}")],
    ),
    GrafanaPanel(
        "Connected",
        "short",
        [PanelQuery(f"sum by (target) (lustre_exports{{{_OF}}})", "{{target}}")],
        "Clients of a target, and other targets.",
    ),
)
DASHBOARDS = {"grid": _GRID, "storage": _STORAGE, "servers": _SERVERS, "jobs": _JOBS, "node": _NODE}
"""By their names."""


_SCHEMA = 36
_WIDE, _HIGH = 12, 8
"""Of a panel, in the units of Grafana's grid of 24 columns."""


def dashboard_files() -> dict[str, str]:
    """Each dashboard as JSON by the name of its file; always the same."""
    return {
        f"gridwright-{name}.json": json.dumps(_dashboard(name, panels), indent=2) + "\n"
        for name, panels in DASHBOARDS.items()
    }


def _dashboard(name: str, panels: Sequence[GrafanaPanel]) -> dict[str, Any]:
    return {
        "uid": f"gridwright-{name}",
        "title": f"Gridwright: {name}",
        "tags": ["gridwright"],
        "schemaVersion": _SCHEMA,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    for name, label, query in (
        ("job", "Grid", "label_values(gridwright_node_info, job)"),
        ("instance", "Node", 'label_values(gridwright_node_info{job="$job"}, instance)'),
    ):
        several = name == "instance"
        yield {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "query": {"query": query, "refId": name},
            "refresh": 2,
            "sort": 1,
            "multi": several,
            "includeAll": several,
            **({"allValue": ".+", "current": {"text": "All", "value": "$__all"}} if several else {}),
        }


def _panel(number: int, panel: GrafanaPanel) -> dict[str, Any]:
    column, row = number % 2, number // 2
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": source,
        "gridPos": {"x": column * _WIDE, "y": row * _HIGH, "w": _WIDE, "h": _HIGH},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": source,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for place, query in enumerate(panel.queries)
        ],
    }
