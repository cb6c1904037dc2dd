"""Alert rules for Prometheus, out of what a grid spec requires (pure).

They judge as `top` does (`monitor/libraries.py`): what a file system moves for each busy core against the
largest requirement of the libraries on it, and only while somebody waits for storage.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gridwright.monitor.causes.measured import MANY_AT_ONCE
from gridwright.monitor.causes.use import FULL
from gridwright.monitor.exporter.metric_families import known_series
from gridwright.monitor.waiting import HOLDS_UP, WAITING
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
