"""Rules and dashboards hold what the exporter tells against the grid spec; Prometheus' promtool judges it."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gridwright.monitor.exporter.metric_families import known_series
from gridwright.monitor.exporter.rules import BUSY, DELIVERED, WAITS, dashboard_files, rules_text
from gridwright.spec import parse_spec
from gridwright.spec.model import GridSpec
from tests.support.certificates import make_certificate
from tests.support.prometheus import program

SPEC = """\
name: demo
provider: site
nodes:
  compute: {hosts: 'node[1-3]'}
filesystems:
  shared: {type: nfs, path: /shared, server: server, export: /export}
  scratch: {type: local, path: /scratch}
libraries:
  data: {filesystem: shared, requires: 100 MB/s/core}
  work: {filesystem: scratch, requires: 50 MB/s/core}
  util: {filesystem: scratch}
scheduler: {type: slurm}
"""
DOCS = Path(__file__).parents[2] / "docs"
POWERED = """\
name: demo
provider: lab
nodes:
  compute: {count: 11, min: 1}
filesystems:
  shared: {type: local, path: /shared}
scheduler: {type: slurm}
"""
MINUTE = 60
RECORDED = {BUSY, DELIVERED, WAITS}
NAME = re.compile(r"(?<![\w$:\"'{])((?:gridwright|lustre|node)[:_]\w+)")
CORES = 4


@dataclass
class Node:
    """What a node does, minute by minute; rates per second."""

    name: str = "node1"
    boot: str = ""
    user: float = 0.0
    iowait: float = 0.0
    waiting: float = 0.0
    mount: float = 0.0
    """Bytes of the shared file system."""
    disk: float = 0.0
    disk_busy: float = 0.0
    up: str = "1x600"
    psi: bool = True
    """Whether its kernel tells pressure."""
    is_server: bool = False
    """Whether it knows no libraries."""
    more: dict[str, str] = field(default_factory=dict)

    def series(self) -> Iterator[tuple[str, str]]:
        def rising(per_s: float) -> str:
            return f"0+{per_s * MINUTE:.12g}x600"

        def counter(metric: str, per_s: float, labels: str = "") -> tuple[str, str]:
            return self.named(f"gridwright_{metric}_total", labels), rising(per_s)

        yield self.named("up"), self.up
        yield (
            self.named("gridwright_node_info", f'boot="{self.boot or self.name}",node="{self.name}"'),
            "1x600",
        )
        yield self.named("gridwright_node_cores"), f"{CORES}x600"
        yield self.named("gridwright_node_cpus"), f"{2 * CORES}x600"
        yield counter("node_cpu_seconds", self.user, 'mode="user"')
        yield counter("node_cpu_seconds", self.iowait, 'mode="iowait"')
        yield counter("node_cpu_seconds", 2 * CORES - self.user - self.iowait, 'mode="idle"')
        if self.psi:
            yield counter("node_pressure_io_waiting_seconds", self.waiting)
        for way in ("read", "written"):
            yield counter(f"mount_{way}_bytes", self.mount / 2, 'mountpoint="/shared",target="/shared"')
            yield counter(f"node_disk_{way}_bytes", self.disk / 2, 'device="sda"')
        yield counter("node_disk_io_time_seconds", self.disk_busy, 'device="sda"')
        if self.is_server:
            return
        lies = 'directory="/shared/data",mountpoint="/shared",fstype="nfs4"'
        yield self.named("gridwright_directory_info", lies), "1x600"
        for library in ("work", "util"):
            path = f'directory="/scratch/{library}"'
            lies = f'{path},mountpoint="/scratch",fstype="xfs",device="sda"'
            yield self.named("gridwright_directory_info", lies), "1x600"
            yield self.named("gridwright_directory_disk_info", f'{path},device="sda"'), "1x600"
        for series, values in self.more.items():
            metric, _, labels = series.partition("{")
            yield self.named(metric, labels.removesuffix("}")), values

    def named(self, metric: str, labels: str = "") -> str:
        own = f'job="gridwright",instance="{self.name}:29118"'
        return f"{metric}{{{own}{',' if labels else ''}{labels}}}"


@pytest.fixture
def spec() -> GridSpec:
    return parse_spec(SPEC, "grid.yaml")


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run(
        [program("promtool"), *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def fires(
    place: Path,
    nodes: Sequence[Node],
    expected: Sequence[tuple[str, str]],
    spec: str = SPEC,
    minute: int = 30,
) -> None:
    """Of all alerts, just those that are expected, each with the value of one label, at a time."""
    (place / "rules.yml").write_text(rules_text(parse_spec(spec, "grid.yaml")))
    inputs = [
        {"series": name, "values": values if minute > 50 else values.replace("x600", "x60")}
        for each in nodes
        for name, values in each.series()
    ]
    by = ("filesystem", "instance", "source", "target")
    firing = f"count by (alertname, {', '.join(by)}) (ALERTS{{alertstate='firing'}})"
    for label in by:
        firing = f'label_replace({firing}, "of", "$1", "{label}", "(.+)")'
    samples = [
        {"labels": f'{{alertname="{name}",of="{of}"}}' if of else f'{{alertname="{name}"}}', "value": 1}
        for name, of in expected
    ]
    test = {"expr": f"count by (alertname, of) ({firing})", "eval_time": f"{minute}m", "exp_samples": samples}
    document = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m" if minute <= 50 else "10m",
        "tests": [{"interval": "1m", "input_series": inputs, "promql_expr_test": [test]}],
    }
    (place / "test.yml").write_text(json.dumps(document))
    promtool("test", "rules", place / "test.yml")


def test_an_idle_grid_fires_nothing(tmp_path: Path) -> None:
    fires(tmp_path, [Node("node1", user=0.02), Node("node2", user=0.01)], [])


def test_a_grid_that_computes_fires_nothing_though_it_moves_little(tmp_path: Path) -> None:
    fires(tmp_path, [Node(user=4.0, mount=1e6, disk=1e6, disk_busy=0.1, waiting=0.02, iowait=0.02)], [])


def test_a_grid_that_gets_what_is_required_fires_nothing_though_it_waits(tmp_path: Path) -> None:
    fires(tmp_path, [Node(user=2.0, iowait=2.0, waiting=0.8, mount=450e6, disk=210e6)], [])


def test_a_library_below_its_requirement_is_told_while_somebody_waits(tmp_path: Path) -> None:
    node = Node(user=2.0, iowait=2.0, waiting=0.8, mount=390e6, disk=210e6)
    below = ("GridwrightLibraryBelowRequirement", "shared")
    fires(tmp_path, [node], [below])
    # Not at once: a job may begin with a moment of it.
    fires(tmp_path, [node], [], minute=8)


def test_a_full_disk_below_a_library_is_somebody_who_waits(tmp_path: Path) -> None:
    node = Node(user=3.9, mount=450e6, disk=100e6, disk_busy=0.95)
    fires(tmp_path, [node], [("GridwrightLibraryBelowRequirement", "scratch")])


def test_a_disk_that_takes_many_requests_at_once_is_full_with_many_of_them_alone(tmp_path: Path) -> None:
    node = Node(user=3.9, mount=450e6, disk=100e6, disk_busy=0.95)
    waited = 'gridwright_node_disk_io_time_weighted_seconds_total{device="sda"}'
    still = 'gridwright_disk_rotational{device="sda"}'
    below = ("GridwrightLibraryBelowRequirement", "scratch")
    for turns, in_flight, expected in ((0, 2, []), (0, 60, [below]), (1, 2, [below])):
        node.more = {still: f"{turns}x600", waited: f"0+{in_flight * MINUTE}x600"}
        fires(tmp_path, [node], expected)


def test_one_job_that_waits_is_somebody_on_a_kernel_that_tells_no_pressure(tmp_path: Path) -> None:
    below = ("GridwrightLibraryBelowRequirement", "shared")
    slow = Node(user=0.7, iowait=0.3, mount=50e6, disk=210e6)
    fires(tmp_path, [slow], [])
    slow.psi = False
    fires(tmp_path, [slow], [below])
    fires(tmp_path, [Node(user=3.9, iowait=0.1, psi=False, mount=1e6, disk=210e6)], [])


def test_another_disk_that_is_full_is_not(tmp_path: Path) -> None:
    busy = 'gridwright_node_disk_io_time_seconds_total{device="sdb"}'
    fires(tmp_path, [Node(user=3.9, mount=450e6, disk=100e6, more={busy: "0+59x600"})], [])


def test_more_cpus_than_cores_are_no_more_cores(tmp_path: Path) -> None:
    fires(tmp_path, [Node(user=7.5, iowait=0.5, waiting=0.5, mount=401e6, disk=201e6)], [])


def test_nodes_of_one_machine_count_once(tmp_path: Path) -> None:
    """Both see the CPUs and the disk of the machine; each client counts its own mount."""
    nodes = [
        Node(f"node{each}", "same", user=2.0, iowait=2.0, waiting=0.8, mount=210e6, disk=210e6)
        for each in (1, 2)
    ]
    fires(tmp_path, nodes, [])
    apart = [Node(each.name, each.name, 2.0, 2.0, 0.8, 210e6, 210e6) for each in nodes]
    fires(tmp_path, apart, [("GridwrightLibraryBelowRequirement", "shared")])


def test_a_server_that_is_busy_and_waits_is_no_node_that_does(tmp_path: Path) -> None:
    """It serves what nodes ask for, and its disks are what it waits for."""
    server = Node("oss1", user=4.0, iowait=4.0, waiting=0.9, is_server=True)
    fires(tmp_path, [Node(user=2.0, iowait=2.0, waiting=0.8, mount=450e6, disk=210e6), server], [])
    computes = Node(user=4.0, mount=1e6, disk=1e6, disk_busy=0.1)
    fires(tmp_path, [computes, server], [])


def test_counters_that_begin_anew_fire_nothing(tmp_path: Path) -> None:
    node = Node(user=2.0, iowait=2.0, waiting=0.8, mount=450e6, disk=210e6)
    whole = list(node.series())

    def restarted() -> Iterator[tuple[str, str]]:
        for name, values in whole:
            yield name, f"{values.replace('x600', 'x20')} {values}" if "_total" in name else values

    node.series = restarted  # type: ignore[method-assign]
    fires(tmp_path, [node], [], minute=40)


def test_a_node_that_is_away_is_told_and_one_that_may_be_off_is_not(tmp_path: Path) -> None:
    nodes = [Node("compute1", up="1x5 0x600"), Node("compute10", up="0x600"), Node("compute100", up="0x600")]
    away = [("GridwrightNodeAway", f"{node.name}:29118") for node in nodes]
    fires(tmp_path, nodes, away)
    fires(tmp_path, nodes, [away[0], away[2]], spec=POWERED)


def test_a_grid_that_nobody_scrapes_is_told(tmp_path: Path) -> None:
    stranger = Node("node1")
    stranger.named = lambda metric, labels="": f'{metric}{{job="other"}}'  # type: ignore[method-assign]
    stranger.series = lambda: iter([('up{job="other"}', "1x600")])  # type: ignore[method-assign]
    fires(tmp_path, [stranger], [("GridwrightNothingScraped", "")])


def test_a_mount_that_does_not_answer_is_told_by_its_name(tmp_path: Path) -> None:
    silent = 'gridwright_source_silent{source="/shared"}'
    told = [("GridwrightSourceSilent", "/shared")]
    node = Node(more={silent: "1x600"})
    fires(tmp_path, [node], told)
    fires(tmp_path, [Node(more={silent: "0x20 1x1 0x600"})], [], minute=22)


TARGETS = {
    'lustre_health_healthy{job="x"}': ("0x600", "1x600", "GridwrightServerNotHealthy"),
    'gridwright_connection_state{target="t",state="DISCONN"}': ("1x600", None, "GridwrightTargetAway"),
    'gridwright_connection_state{target="t",state="FULL"}': (None, "1x600", "GridwrightTargetAway"),
    'recovery_status{target="t"}': ("4x600", "1x600", "GridwrightTargetRecovers"),
}


def test_targets_that_are_not_well_are_told_where_they_are_known(tmp_path: Path) -> None:
    """Servers of Lustre tell it, and clients of their connections; a node without Lustre has none of it."""
    known = {name: each for name, each in TARGETS.items() if name.partition("{")[0] in known_series()}
    ill = Node(more={name.replace('job="x"', ""): bad for name, (bad, _, _) in known.items() if bad})
    well = Node("node2", more={name.replace('job="x"', ""): ok for name, (_, ok, _) in known.items() if ok})
    fires(tmp_path, [well], [])
    told = sorted({alert for bad, _, alert in known.values() if bad})
    fires(tmp_path, [ill], [(alert, "t" if "Target" in alert else "node1:29118") for alert in told])


def room(values: str, size: float = 1e12) -> Node:
    labels = '{mountpoint="/scratch",fstype="xfs",device="/dev/sda"}'
    left, all_ = (f"gridwright_node_filesystem_{what}_bytes{labels}" for what in ("avail", "size"))
    return Node(more={left: values, all_: f"{size:.0f}x600"})


def test_a_library_that_fills_is_told_days_before(tmp_path: Path) -> None:
    fires(tmp_path, [room("900000000000-200000000x600")], [("GridwrightLibraryFills", "scratch")], minute=480)


def test_what_a_job_writes_and_removes_is_no_filling(tmp_path: Path) -> None:
    saw = " ".join("900000000000-5000000000x59" for _ in range(10))
    fires(tmp_path, [room(saw)], [], minute=480)


def test_a_short_while_tells_nothing_of_days(tmp_path: Path) -> None:
    fires(tmp_path, [room("900000000000-5000000000x120")], [], minute=110)


def test_a_full_library_is_told_and_a_full_disk_of_no_library_is_not(tmp_path: Path) -> None:
    fires(tmp_path, [room("40000000000x600")], [("GridwrightLibraryFull", "scratch")])
    node = room("900000000000x600")
    for what, value in (("avail", 1), ("size", 10**12)):
        node.more[f'gridwright_node_filesystem_{what}_bytes{{mountpoint="/"}}'] = f"{value}x600"
    fires(tmp_path, [node], [])


def expressions(spec: GridSpec, place: Path) -> list[str]:
    """All expressions of dashboards, as Grafana hands them on, and of rules."""
    found = [
        target["expr"].replace("$__rate_interval", "1m").replace("$__range", "3h")
        for text in dashboard_files().values()
        for panel in json.loads(text)["panels"]
        for target in panel["targets"]
    ]
    (place / "rules.yml").write_text(rules_text(spec))
    from ruamel.yaml import YAML

    (group,) = YAML(typ="safe").load(place / "rules.yml")["groups"]
    return [*found, *(rule["expr"] for rule in group["rules"])]


def test_promtool_understands_every_expression(spec: GridSpec, tmp_path: Path) -> None:
    rules: list[Any] = [
        {"record": f"x:{number}", "expr": each} for number, each in enumerate(expressions(spec, tmp_path))
    ]
    assert len(rules) > 40
    (tmp_path / "all.yml").write_text(json.dumps({"groups": [{"name": "all", "rules": rules}]}))
    files = tmp_path / "rules.yml", tmp_path / "all.yml"
    promtool("check", "rules", *files)
    # VictoriaMetrics reads the same rules.
    rules_flags = [f"-rule={each}" for each in files]
    done = subprocess.run(
        [program("vmalert"), "-dryRun", *rules_flags], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_prometheus_and_victoria_metrics_take_the_configuration_of_the_page(
    spec: GridSpec, tmp_path: Path
) -> None:
    certificate, _ = make_certificate(tmp_path)
    (tmp_path / "token").write_text(2 * "0123456789abcdef")
    (tmp_path / "grid.rules.yml").write_text(rules_text(spec))
    blocks = re.findall(r"(?m)^(?: {4}.*\n)+", (DOCS / "exporter.md").read_text())
    scrapes, rules = (
        next(textwrap.dedent(each) for each in blocks if each.strip().startswith(section))
        for section in ("scrape_configs:", "rule_files:")
    )
    scrapes = re.sub("/etc/prometheus/[a-z-]+token", str(tmp_path / "token"), scrapes)
    scrapes = re.sub("/etc/prometheus/[a-z-]+[.]pem", str(certificate), scrapes)
    (tmp_path / "prometheus.yml").write_text(rules + scrapes)
    promtool("check", "config", tmp_path / "prometheus.yml")
    (tmp_path / "scrapes.yml").write_text(scrapes)
    dry = [
        "-dryRun",
        f"-promscrape.config={tmp_path / 'scrapes.yml'}",
        f"-storageDataPath={tmp_path / 'kept'}",
    ]
    done = subprocess.run(
        [program("victoria-metrics"), *dry], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_name_in_an_expression_is_one_that_the_exporter_tells_with_these_labels(
    spec: GridSpec, tmp_path: Path
) -> None:
    known, of_prometheus = known_series(), {"job", "instance", "filesystem"}
    names = set()
    for expression in expressions(spec, tmp_path):
        for found in NAME.finditer(expression):
            name = found[1]
            names.add(name)
            assert name in known or name in RECORDED, expression
            selector = re.match(r"\{(.*?)\}", expression[found.end() :])
            matched = re.findall(r"(\w+)(?:=~|!~|!=|=)\"", selector[1] if selector else "")
            assert set(matched) <= {*known.get(name, ()), *of_prometheus}, expression
    assert len(names) > 25
    assert known.keys() > names - RECORDED


def test_dashboards_are_whole_and_always_the_same() -> None:
    files = dashboard_files()
    assert files == dashboard_files()
    identities = set()
    for name, text in files.items():
        board = json.loads(text)
        assert name == f"{board['uid']}.json"
        identities.add(board["uid"])
        places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
        assert len(set(places)) == len(places)
        assert [panel["id"] for panel in board["panels"]] == list(range(1, len(places) + 1))
        for panel in board["panels"]:
            references = [target["refId"] for target in panel["targets"]]
            assert len(set(references)) == len(references) > 0
    assert len(identities) == 5
    for one, another in itertools.combinations(files.values(), 2):
        assert one != another
