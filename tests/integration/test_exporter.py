"""`gridwright exporter` beside Prometheus, VictoriaMetrics and promtool as Debian has them."""

from __future__ import annotations

import os
import re
import shlex
import signal
import ssl
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from gridwright.errors import ExitStatus
from gridwright.monitor.exporter.metric_families import escaped, known_series
from gridwright.monitor.exporter.rules import dashboard_files
from gridwright.setup.services import EXPORTER_UNIT, exporter_unit
from gridwright.spec import parse_spec
from tests.support.certificates import make_certificate
from tests.support.command import Command, Running, wait_until
from tests.support.hanging_mount import hanging_mount
from tests.support.prometheus import program
from tests.support.role_play import play, write_roles
from tests.support.scraping import expressions_of, free_port, prometheus, promtool, query, started
from tests.support.skips import needs

TOKEN = 2 * "0123456789abcdef"
SAMPLED = "gridwright_exporter_sampled_seconds"
PAGE_OF = re.compile(r"metrics of this node: (\S+)")
JOB = b"9\\\"'{}\n\xff-\xe6\x97\xa5"
"""What a user may set as the number of a job."""
SHOWN_JOB = "9\\\\\\\"'{}\\n\ufffd-\u65e5"
CONFIGURATION = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: gridwright
    scheme: {scheme}
    authorization: {{credentials_file: {token}}}
    tls_config: {{ca_file: {certificate}}}
    static_configs: [{{targets: ['{target}']}}]
"""


class Exporter:
    """One that runs."""

    def __init__(self, running: Running, url: str) -> None:
        self.running, self.url = running, url

    def text(self, accept: str = "", context: ssl.SSLContext | None = None) -> str:
        headers = {"Accept": accept, "Authorization": f"Bearer {TOKEN}"}
        request = urllib.request.Request(self.url, headers=headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:  # noqa: S310
            return str(answer.read().decode())

    @property
    def target(self) -> str:
        return urllib.parse.urlsplit(self.url).netloc


@contextmanager
def exporting(gridwright: Command, *more: str | Path, prefix: Sequence[str] = ()) -> Iterator[Exporter]:
    with gridwright.start("exporter", "--port", "0", *more, prefix=prefix) as running:
        running.says("metrics of this node")
        (url,) = PAGE_OF.findall(running._err.read_text())
        yield Exporter(running, url)


@contextmanager
def a_job() -> Iterator[int]:
    """A process of a job with a hostile number, that has written; gives how many bytes."""
    script = "import sys, os; f = open(os.devnull, 'wb'); print(os.getpid(), flush=True); sys.stdin.read()"
    environment = {**os.environb, b"GRIDWRIGHT_JOB_ID": JOB}
    with subprocess.Popen(
        ["python3", "-c", script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.communicate()


def series(metric: dict[str, str]) -> str:
    """A series as its line on the page begins, in the order of the page's labels."""
    name = metric["__name__"]
    labels = {each: metric[each] for each in known_series()[name] if each in metric}
    told = ",".join(f'{label}="{escaped(value)}"' for label, value in labels.items())
    return f"{name}{{{told}}}" if told else name


def read(text: str) -> dict[str, float]:
    """Series of a page, by their line."""
    lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {series: float(value) for series, _, value in lines}


@pytest.fixture
def guarded(gridwright: Command, tmp_path: Path) -> Iterator[tuple[Exporter, Path]]:
    """An exporter with TLS and a token; and the configuration by which Prometheus scrapes it."""
    certificate, key = make_certificate(tmp_path)
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    flags = ("--certificate", certificate, "--key", key, "--token-file", token, "--directory", tmp_path)
    with exporting(gridwright, *flags) as exporter:
        configuration = tmp_path / "prometheus.yml"
        configuration.write_text(
            CONFIGURATION.format(scheme="https", token=token, certificate=certificate, target=exporter.target)
        )
        yield exporter, configuration


@contextmanager
def victoria_metrics(configuration: Path) -> Iterator[int]:
    port, data = free_port(), configuration.with_name("victoria")
    with started(
        program("victoria-metrics"),
        f"-promscrape.config={configuration}",
        f"-storageDataPath={data}",
        f"-httpListenAddr=127.0.0.1:{port}",
        "-search.latencyOffset=0s",
        log=configuration.with_name("victoria.log"),
    ):
        yield port


def test_who_keeps_it_has_what_was_read(guarded: tuple[Exporter, Path]) -> None:
    exporter, configuration = guarded
    context = ssl.create_default_context(cafile=str(configuration.with_name("certificate.pem")))
    with a_job(), prometheus(configuration) as one, victoria_metrics(configuration) as another:
        for port in (one, another):
            ask = partial(query, port)
            rate = partial(ask, "rate(gridwright_node_cpu_seconds_total[10s])")
            wait_until(lambda: rate() or None, seconds=30, what="rates", last=partial(ask, "up"))  # noqa: B023
        before = read(exporter.text(context=context))
        # The next scrape has what was there before; what others begin on this machine may come meanwhile.
        for port in (one, another):
            taken = partial(newer, port, before)
            wait_until(taken, seconds=30, what="a scrape", last=partial(query, port, SAMPLED))
        kept = {port: kept_series(port) for port in (one, another)}
        panels = {each: query(one, each) for each in expressions_of("node")}
        after = read(exporter.text(context=context))
    # All series, no more and no fewer, the job's among them; counters are what they were a moment ago.
    assert f'gridwright_job_processes{{jobid="{SHOWN_JOB}"}}' in after
    for each in kept.values():
        assert set(before) & set(after) <= set(each) <= set(before) | set(after)
        for name in ("gridwright_node_cores", "gridwright_node_memory_size_bytes"):
            assert each[name] == after[name] > 0
        rising = [name for name in after if "_total" in name]
        assert [name for name in rising if not 0 <= each[name] <= after[name]] == []
        cpu = 'gridwright_node_cpu_seconds_total{mode="idle"}'
        assert after[cpu] - each[cpu] < 60 * after["gridwright_node_cpus"]

    told = {name.partition("{")[0] for name in after}
    shown = [each for each in panels if set(re.findall(r"gridwright_\w+", each)) <= told]
    assert len(shown) > 8
    assert [each for each in shown if not panels[each]] == []


def newer(port: int, before: Mapping[str, float]) -> bool | None:
    """Whether a server has a sample that was taken after this page."""
    found = query(port, SAMPLED)
    return (bool(found) and float(found[0]["value"][1]) > before[SAMPLED]) or None


def kept_series(port: int) -> dict[str, float]:
    found = query(port, '{__name__=~"gridwright_.*",__name__!~".*_created"}')
    return {series(each["metric"]): float(each["value"][1]) for each in found}


def test_promtool_finds_nothing_wrong_with_names_and_text(gridwright: Command, tmp_path: Path) -> None:
    with a_job(), exporting(gridwright, "--directory", tmp_path) as exporter:
        text = exporter.text()
    assert SHOWN_JOB in text
    assert promtool("check", "metrics", stdin=text) == ""


@pytest.mark.root
def test_a_mount_that_hangs_is_told_and_holds_up_neither_a_scrape_nor_the_end(
    gridwright: Command, tmp_path: Path
) -> None:
    with hanging_mount(tmp_path / "dead") as mount, exporting(gridwright) as exporter:
        # A scrape that waits for the mount waits for ever, and its limit of time ends the test.
        told = read(exporter.text())
        assert told[f'gridwright_source_silent{{source="{mount}"}}'] == 1
        assert told['gridwright_source_silent{source="/"}'] == 0
        assert read(exporter.text())["gridwright_node_cores"] > 0
        exporter.running.signal(signal.SIGTERM)
        assert exporter.running.end(5).status == ExitStatus.DONE


@pytest.mark.root
def test_with_no_more_rights_than_its_unit_gives_it_it_sees_jobs_of_all_users(gridwright: Command) -> None:
    (kept,) = re.findall(r"CapabilityBoundingSet=(.*)", exporter_unit(["true"]))
    rights = "".join(f",+{each.removeprefix('CAP_').lower()}" for each in kept.split())
    held = ["setpriv", f"--bounding-set=-all{rights}", "--no-new-privs"]
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "GRIDWRIGHT_JOB_ID=4711"]
    with subprocess.Popen([*user, "sleep", "60"]) as process:
        try:
            with exporting(gridwright, prefix=held) as exporter:
                told = read(exporter.text())
        finally:
            process.kill()
    assert told['gridwright_job_processes{jobid="4711"}'] == 1
    assert 'gridwright_job_read_bytes_total{jobid="4711"}' in told


def test_it_is_not_reached_from_elsewhere_without_tls_and_a_token(gridwright: Command) -> None:
    ended = gridwright("exporter", "--listen", "0.0.0.0")  # noqa: S104 - it is refused
    assert ended.status == ExitStatus.INPUT
    assert "unencrypted" in ended.text
    assert "nothing would keep them out" in ended.text


def test_the_unit_that_it_prints_serves_what_was_asked_for(gridwright: Command, tmp_path: Path) -> None:
    token, place = tmp_path / "token", tmp_path / "50% of it"
    token.write_text(TOKEN)
    token.chmod(0o600)
    flags = ("--port", "0", "--token-file", "token", "--directory", place.name, "--interval", "2s")
    ended = gridwright("exporter", *flags, "--unit", cwd=tmp_path)
    assert ended.status == ExitStatus.DONE, ended.err
    (line,) = re.findall(r"^ExecStart=(.*)$", ended.out, re.MULTILINE)
    # Elsewhere, as systemd starts it: `%%` is its sign for `%`.
    words = shlex.split(line.replace("%%", "%"))
    with gridwright.start(*words[1:], cwd=Path("/")) as running:
        running.says("metrics of this node")
        (url,) = PAGE_OF.findall(running._err.read_text())
        assert f'directory="{place}"' in Exporter(running, url).text()


def test_rules_and_dashboards_are_written_whole_or_it_says_why_not(
    gridwright: Command, tmp_path: Path
) -> None:
    spec = Path(__file__).parents[2] / "examples" / "lab.yaml"
    boards, rules = tmp_path / "boards", tmp_path / "rules.yml"
    refused = gridwright("exporter", spec, "--dashboards", boards, "--rules", tmp_path / "none" / "rules.yml")
    assert refused.status == ExitStatus.INPUT
    assert f"no directory {boards}" in refused.text
    assert f"no directory {tmp_path / 'none'}" in refused.text
    boards.mkdir()
    done = gridwright("exporter", spec, "--dashboards", boards, "--rules", rules, "--scrape-job", "lab")
    assert done.status == ExitStatus.DONE, done.err
    assert {each.name: each.read_text() for each in boards.iterdir()} == dashboard_files()
    promtool("check", "rules", rules)
    assert 'job="lab"' in rules.read_text()


def test_a_service_is_installed_where_its_files_are_and_leaves_with_the_spec(tmp_path: Path) -> None:
    needs("unshare", "mount")
    token, program, written = tmp_path / "token", tmp_path / "gridwright", tmp_path / "written"
    spec = f"""
        name: demo
        filesystems: {{disk: {{type: local, path: /data}}}}
        libraries: {{work: {{}}}}
        monitoring: {{exporter: {{token_file: {token}}}}}
    """
    write_roles(tmp_path, parse_spec(spec), "exporter")
    program.write_text("#!/bin/sh\nexit 0\n", "utf-8")
    program.chmod(0o755)

    def role(called: str, wanted: bool = True, **more: object) -> dict[str, object]:
        told = {"files": [str(token)], "address": "127.0.0.1", "port": 1} if wanted else {}
        variables = {"exporter_program": str(program), "gridwright_exporter": told, **more}
        return {"name": called, "ansible.builtin.include_role": {"name": "exporter"}, "vars": variables}

    def command(line: str) -> dict[str, object]:
        return {"ansible.builtin.command": line, "changed_when": False}

    said = " ".join(
        play(
            tmp_path,
            [
                {
                    "block": [role("bare", exporter_program="/no/such/gridwright")],
                    "rescue": [command(f"touch {token}")],
                },
                role("first"),
                command(f"cp -a /etc/systemd/system {written}"),
                role("on a server", group_names=["storage"]),
                command(f"cp -a /etc/systemd/system {written}-on-a-server"),
                role("gone", wanted=False),
                command("test ! -e /etc/systemd/system/gridwright-exporter.service"),
            ],
        ).split()
    )
    assert f"does: /no/such/gridwright cannot be run; {token} is missing. Install it by a role" in said, said
    assert "changed=3 " in said, said
    assert "failed=0" in said
    unit = (written / EXPORTER_UNIT).read_text("utf-8")
    command_line = (
        f"{program} exporter --port 29118 --listen 127.0.0.1 --token-file {token} --directory /data/"
    )
    assert f"ExecStart={command_line}" in unit
    assert "--directory" not in (tmp_path / "written-on-a-server" / EXPORTER_UNIT).read_text("utf-8")
