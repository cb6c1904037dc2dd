"""Every command line of documents, examples and `--help` is read by the real parser, and nearly all are run.

What no rule of `RULES` names runs in a directory with grid specs, runs, a library and a store of objects:
a command that a page names anew cannot stay untested. `WANTS` says for want of what some may end.
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest
import typer

from tests.support.aws_cloud import ENVIRONMENT, AwsCloud, aws_cloud
from tests.support.certificates import make_certificate
from tests.support.command import Command, Ended
from tests.support.documented import ROOT, DocumentedCommand, documented, parsed
from tests.support.object_store import StoreServer, store_server


class Place(Enum):
    """Where a documented command is run."""

    LOCAL = "a directory with a grid of this machine, runs, and a store of objects"
    AWS = "a double of AWS, which has nothing of the grid"
    LAB = "a lab that other tests look at, too (tests/machine/test_documented_commands.py)"
    NOWHERE = "it is parsed alone"


@dataclass(frozen=True, slots=True)
class Rule:
    """Commands that fit a pattern, where they run, and why there."""

    pattern: str
    place: Place
    why: str


RULES = (
    Rule(r"^setup(?!.*--check)", Place.NOWHERE, "tunes its machine: test_setup_local, test_setup_lab"),
    Rule(r"^node (claim|scratch)(?!.*--dry-run)", Place.NOWHERE, "formats disks: test_node_scratch"),
    Rule(r"^node history$", Place.NOWHERE, "writes this machine's own history: test_history"),
    Rule(r"^(up|down) .*lab|^lab (power|partition|heal)|umount|storage2", Place.NOWHERE,
         "breaks a lab that others look at: test_lab_faults, bench/guides.py"),
    Rule(r"lab-grid-engine", Place.NOWHERE, "needs a lab of Grid Engine: test_batch_systems"),
    Rule(r"^lab exec .*-- gridwright", Place.NOWHERE, "needs an installation on nodes: bench/guides.py"),
    Rule(r"^(init|check|predict|render) ", Place.LOCAL, "needs no node"),
    Rule(r"lab\.yaml|^lab ", Place.LAB, "needs nodes"),
    Rule(r"^up (?!.*--check).*examples/(aws|oci)", Place.NOWHERE,
         "takes minutes on a double: test_aws_up_down, test_oci_up_down"),
    Rule(r"^(up|down|stop|start|status|doctor|repo|setup) .*examples/oci", Place.NOWHERE,
         "needs a double with the grid on it: test_oci_up_down"),
    Rule(r"^(up|down|stop|start|status|doctor|repo|setup|iotest|prove) .*examples/aws", Place.AWS,
         "needs AWS"),
    Rule(r"^catalog refresh --", Place.NOWHERE, "needs price lists of the net: test_catalog_refresh"),
)  # fmt: skip
"""The first that fits a command; what none fits is run locally."""
WANTS = {
    r"there is no job|--job: no node has": "jobs are those of a reader's grid: test_local_jobs",
    r"there is no grid here|is for grids that up makes": "a grid that is up",
    r"this machine alone is looked at|one node is tested|this machine is the grid": "nodes",
    r"Address already in use|Cannot assign requested address|is no address of this": "a port, an address",
    r"no layouts|has layouts|whose file system lets|nobody chooses over which targets": "a Lustre",
    r"/etc/gridwright/\S+: (cannot be read: )?No such file": "a machine that set-up made",
    r"cannot be started: No such file|is not installed|no program": "programs of a scheduler or a site",
    r"names no such|no such run|has no run": "runs of a reader",
    r"is not up|there is no such directory": "a grid that is up",
    r"nothing there holds back who reads": "a Lustre with HSM",
    r"there is no terminal|only what is watched|tuesday.top: cannot be read": "a terminal: test_top",
    r"the history of the nodes has nothing|of that time": "a history of that day",
    r"cannot be reached|cannot be resolved|Could not resolve|not known|timed out": "machines of a reader",
    r"starts no machines from images|provider local has none": "machines of a cloud",
    r"is away: nothing is known|no history is kept": "a history of that day",
    r"^job 17: ": "a job that does well: what runs here under that number is another test's",
    r"nobody has watched this grid yet": "a watch that runs",
    r"the account sees no|is not there$|image-unknown|vpc-unknown|no such VPC": "an account of AWS",
    r"cores are asked for": "a machine with more cores",
    r"no run of flow \S+ is remembered": "a flow that ran",
    r"units would carry nothing": "the command in the place of an installation",
    r"there is no command$|Show this message and exit": "an argument, which a sentence leaves out",
    r"^error: \S+: it (is missing|needs a value)": "an argument, which a sentence leaves out",
}
"""Messages of commands that end with 2 or 3: what a reader has and this place has not."""
STOPPED = re.compile(
    r"^(console(?!.*--unit)|exporter(?!.*--(rules|unit|dashboards))|watch(?!.*--(once|status|unit))"
    r"|top(?!.*--(once|play|at))"
    r"|jobs .*--watch|repo serve(?!.*--units)|node history"
    r"|.*--until-steady|.*--interval 30s|.*--seconds \d*[05](s|m)"
    r"|.*--(seconds 1m|seconds 10m|repeat))"
)
"""They go on until somebody stops them, or for longer than a test may take."""
LONG = re.compile(
    r"--papers|mixed-30|--sweep|requirements-night|--sensitivity|--scale small|--until-steady|--seconds [24]s"
    r"|^setup --local --check|^workload replay"
)
"""They take many seconds of a core: `make test-thorough` runs them."""
SHORTER = {
    "prove": ("--seconds 0.1s", "--scale tiny", "--matrix one.yaml"),
    "workload": ("--scale tiny", "--matrix one.yaml"),
    "iotest": ("--seconds 0.1s",),
}
"""Flags that a verb gets in addition, where a command has none of that name."""
GRIDS = {
    r"lake": "examples/aws-scale.yaml",
    r"oss|--free-space": "examples/aws-lustre.yaml",
    r"^plan": "examples/requirements-64-cores.yaml",
}
"""Of which example `grid.yaml` is a copy."""
SPEC = """\
name: demo
filesystems: {disk: {type: local, path: ./disk, delivers: {write: 1 GB/s, read: 1 GB/s}}}
libraries:
  data: {requires: 1 MB/s/core, capacity: 1 TiB}
  work: {requires: 1 MB/s/core}
  util: {requires: 1 MB/s/core}
repositories: {archive: {library: data, bucket: s3://site-sas/prod}}
"""
SAS_LOG = """\
NOTE: PROCEDURE SORT used (Total process time):
      real time           4:00.31
      user cpu time       1:10.20
"""
FLOW = "flow: nightly\njobs:\n  load: {command: ['true']}\n  score: {command: ['true'], after: load}\n"
COMMANDS = documented()


def rule_of(command: DocumentedCommand) -> Rule:
    """The first rule that fits a command."""
    fits = (each for each in RULES if re.search(each.pattern, command.text))
    return next(fits, Rule("", Place.LOCAL, ""))


def of(place: Place) -> Sequence[object]:
    """Parameters of a test: few commands, with each flag of each verb among them; the others are thorough."""
    there = [each for each in COMMANDS if rule_of(each).place is place]
    chosen = _with_each_flag([each for each in there if not _is_long(each)])
    return [
        pytest.param(each, id=each.text, marks=[] if each in chosen else [pytest.mark.thorough])
        for each in there
    ]


def _with_each_flag(commands: Sequence[DocumentedCommand]) -> list[DocumentedCommand]:
    chosen: list[DocumentedCommand] = []
    lacks = {flag for each in commands for flag in each.flags}
    while lacks:
        best = max(
            commands,
            key=lambda each: (len(lacks & each.flags), not STOPPED.search(each.text), -len(each.words)),
        )
        chosen.append(best)
        lacks -= best.flags
    return chosen


def _is_long(command: DocumentedCommand) -> bool:
    return bool(LONG.search(command.text))


def can_parse(command: DocumentedCommand) -> None:
    """Fail where a verb, a flag or the type of a value is none; a sentence may leave out an argument."""
    try:
        parsed(command.words)
    except typer.Exit:
        pass
    except Exception as error:
        # Classes of click, which typer has under no public name.
        lacks = type(error).__name__ in ("MissingParameter", "NoArgsIsHelpError")
        assert command.is_mention, error
        assert lacks or "requires an argument" in str(error), error


def run(
    command: DocumentedCommand, place: Path, environment: dict[str, str], words: Sequence[str] = ()
) -> Ended:
    """Run it in a directory, stop it where it would go on, and hold its end."""
    gridwright = Command(place.parent)
    gridwright.runs = place / "runs"
    words = list(words or command.words)
    if words[0] in ("down", "status") and not any(each.endswith(".yaml") for each in words):
        # Without a file they take the only lab of the machine, which may be that of other tests.
        words.append("grid.yaml")
    is_run = (
        words[0] != "workload" or words[1:2] in ([], ["run"]) or "." in words[1] or words[1].startswith("-")
    )
    for each in SHORTER.get(words[0], ()) if is_run else ():
        flag = each.split()[0]
        if flag not in words and not (flag == "--seconds" and {"--until-steady", "--size"} & set(words)):
            words += each.split()
    is_stopped = bool(STOPPED.search(command.text)) and rule_of(command).place is not Place.AWS
    with gridwright.start(*words, cwd=place, environment=environment) as running:
        if is_stopped:
            try:
                running.process.wait(3)
            except subprocess.TimeoutExpired:
                running.signal(signal.SIGINT)
        ended = running.end(60)
    wants = any(re.search(each, f"{ended.err}\n{ended.out}", re.MULTILINE) for each in WANTS)
    allowed = {0, 1, *((130,) if is_stopped else ()), *((2, 3) if wants else ())}
    assert ended.status in allowed, f"{ended.status} {words}: {ended.err[-800:]}"
    return ended


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    # moto: some commands ask for more of AWS than its store.
    with store_server(tmp_path_factory.mktemp("store"), "moto") as server:
        yield server


@pytest.fixture(scope="module")
def cloud() -> Iterator[AwsCloud]:
    with aws_cloud() as made:
        yield made


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with all files that documents name."""
    here = tmp_path_factory.mktemp("template")
    for name in ("grid", "small", "slow", "data", "new-grid", "other", "other-grid", "risky"):
        (here / f"{name}.yaml").write_text(SPEC)
    (here / "new-grid.yaml").write_text(SPEC.replace("./disk", "./new"))
    for name in ("one", "my-jobs", "two-sorts"):
        (here / f"{name}.yaml").write_text("name: one\nstreams: [[sort]]\n")
    (here / "nightly.yaml").write_text(FLOW)
    shutil.copy(ROOT / "examples/aws-fsx.yaml", here / "aws.yaml")
    shutil.copy(ROOT / "examples/requirements-64-cores.yaml", here / "requirements.yaml")
    shutil.copy(ROOT / "tests/fixtures/accounting/sacct-22.05.json", here / "sacct.json")
    (here / "examples").symlink_to(ROOT / "examples")
    for name in ("scratch", "old", "logs", "dashboards", "new/data", "disk/data", "disk/work", "disk/util"):
        (here / name).mkdir(parents=True)
    for name in ("old/costs.csv", "disk/data/claims.dat"):
        (here / name).write_text("1\n")
    for name in ("nightly.log", "logs/nightly.log"):
        (here / name).write_text(SAS_LOG)
    for made, name in zip(make_certificate(here), ("node.pem", "node.key"), strict=True):
        made.rename(here / name)
    (here / "token").write_text("0123456789abcdef" * 2 + "\n")
    (here / "token").chmod(0o600)
    (here / "site.yml").write_text("{}\n")
    (here / "key").touch(mode=0o600)
    gridwright = Command(here)
    flags = ("--seconds", "0.1s", "--scale", "tiny", "--matrix", "one.yaml")
    assert gridwright("prove", *flags, cwd=here).status in (0, 1)
    made_run = gridwright.only_run()
    for name in (
        "20261101T080000Z-demo",
        "20261121T050000Z-grid",
        "20261101T080000Z-before",
        "20261102T080000Z-after",
    ):
        shutil.copytree(made_run, made_run.with_name(name))
    assert gridwright("workload", "profile", "last", "profiles.json", cwd=here).status == 0
    apart = {"GRIDWRIGHT_RUNS": str(here / "imported")}
    assert gridwright("workload", "import", "sacct.json", cwd=here, environment=apart).status in (0, 1)
    for name in ("jobs.json", "jobs-profiles.json"):
        ended = gridwright("workload", "profile", "last", name, cwd=here, environment=apart)
        assert ended.status == 0, ended.text
    shutil.rmtree(here / "imported")
    return here


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Path:
    """A copy of it, which is the test's own."""
    return Path(shutil.copytree(template, tmp_path / "place", symlinks=True))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.text)
def test_a_documented_command_is_one(command: DocumentedCommand) -> None:
    can_parse(command)


@pytest.mark.parametrize("command", of(Place.LOCAL))
def test_a_documented_command_runs(command: DocumentedCommand, place: Path, store: StoreServer) -> None:
    for pattern, example in GRIDS.items():
        if re.search(pattern, command.text):
            shutil.copy(ROOT / example, place / "grid.yaml")
    if command.words[0] == "init" or "--write" in command.words:
        named = [each for each in command.words if each.endswith(".yaml") and "/" not in each]
        (place / (named[-1] if named else "grid.yaml")).unlink(missing_ok=True)
    state = {"XDG_STATE_HOME": str(place / "state"), "HOME": str(place), "GRIDWRIGHT_ALLOW_DISTURBED": "1"}
    run(command, place, {**ENVIRONMENT, **store.environment, **state})


@pytest.mark.parametrize("command", of(Place.AWS))
def test_a_documented_command_runs_on_aws(command: DocumentedCommand, place: Path, cloud: AwsCloud) -> None:
    run(command, place, {**cloud.environment, "XDG_STATE_HOME": str(place / "state")})


def test_nearly_all_documented_commands_are_run() -> None:
    """How many, and that each rule is of use; whoever adds one that is parsed alone gives the reason."""
    places = [rule_of(each) for each in COMMANDS]
    parsed_alone = [each for each in places if each.place is Place.NOWHERE]
    assert len(COMMANDS) > 400
    assert len(parsed_alone) / len(COMMANDS) < 0.15
    assert all(each.why for each in RULES)
    assert [each.pattern for each in RULES if each not in places] == []


def test_a_wrong_flag_verb_or_value_of_a_page_is_seen() -> None:
    for wrong in ("repo release --until-fre 20%", "prowe", "runs prune --keep many", "jobs --watch 17 --no"):
        with pytest.raises(AssertionError):
            can_parse(DocumentedCommand(tuple(shlex.split(wrong)), ("docs",), is_mention=False))
