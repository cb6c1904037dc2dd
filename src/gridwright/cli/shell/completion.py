"""`gridwright completion`: the script for a shell, and what may stand where TAB was pressed, by metavar."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from gridwright.cli.arguments import Reader
from gridwright.cli.output import Output
from gridwright.cli.verbs import VERBS
from gridwright.errors import GridwrightError

if TYPE_CHECKING:
    from gridwright.spec import GridSpec


SHELLS = ("bash", "zsh", "fish")
PATIENCE_S = 3.0
"""A user at a TAB waits no longer, whatever a scheduler or a mount is busy with."""


def completion(
    context: typer.Context,
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="The shell.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- WORD...]", help="Print what the last word may become, as the script asks."
        ),
    ] = None,
) -> None:
    """Print the script by which bash, zsh or fish completes commands of gridwright.

    It completes verbs, flags, grid files, directories of libraries, nodes, runs and jobs. An installed Debian
    package has it where shells look for it.

    \b
    Examples:
      eval "$(gridwright completion bash)"             # in ~/.bashrc
      eval "$(gridwright completion zsh)"              # in ~/.zshrc, behind compinit
      gridwright completion fish | source              # in ~/.config/fish/config.fish
    """  # noqa: D301 - \b is a control character for click
    if shell not in SHELLS:
        reader = Reader()
        reader.choice(shell, SHELLS, "SHELL")
        reader.finish(None)
    output = Output("completion")
    if words is None:
        output.write(files(__package__).joinpath(f"gridwright.{shell}").read_text(encoding="utf-8"))
        return
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        found = answer(context.find_root().command, typed(words) if shell == "bash" else words)
    except Exception:  # what is wrong is said by the command, when it is run; a TAB prints nothing
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    lines = [f"{word}\t{' '.join(meaning.split())}" for word, meaning in found.words.items()]
    output.write("\n".join([found.paths, *lines]))


def _give_up(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError


def typed(words: Sequence[str]) -> list[str]:
    """Words of bash as the command would get them: without quotes, and not torn apart at `=`."""
    joined: list[str] = []
    for word in words:
        if joined and (word == "=" or joined[-1].endswith("=")) and joined[-1].startswith("--"):
            joined[-1] += word
        else:
            joined.append(word)
    return [_unquoted(word) for word in joined]


def _unquoted(word: str) -> str:
    for ending in ("", '"', "'"):
        try:
            return "".join(shlex.split(word + ending, comments=False))
        except ValueError:
            continue
    return word


def answer(root: Any, words: Sequence[str]) -> Candidates:  # noqa: ANN401 - typer hides the class of commands
    """What the last of the words behind `gridwright` may become."""
    *before, current = words or [""]
    found = _candidates(root, before, current)
    _, equals, value = current.partition("=")
    if current.startswith("-") and equals:
        current = value
    # What ends a line or commands a terminal is no word that anybody types.
    fitting = {
        word: meaning
        for word, meaning in found.words.items()
        if word.startswith(current) and word.isprintable()
    }
    return Candidates(fitting, found.paths)


def _candidates(root: Any, before: list[str], current: str) -> Candidates:  # noqa: ANN401
    # typer shows where its click is by the class of what that completes.
    engine = import_module(vars(typer.core)["CompletionItem"].__module__)
    context = engine._resolve_context(root, {}, "gridwright", list(before))
    target, incomplete = engine._resolve_incomplete(context, list(before), current)
    if target is not context.command:
        if before and before[-1] in target.opts:
            # A flag without its value ends the reading of all others.
            context = engine._resolve_context(root, {}, "gridwright", before[:-1])
        name = target.name if target.param_type_name == "argument" else target.opts[0]
        return candidates(context, name, target.metavar or "")
    if not isinstance(target, TyperGroup):
        return Candidates(dict(_items(target.shell_complete(context, incomplete))))
    below = _below(target, context)
    flags = dict(_items(super(TyperGroup, target).shell_complete(context, incomplete)))
    default = getattr(target, "default", None)
    more = _candidates(root, [*before, default], current) if default else Candidates()
    paths: Paths = "none" if any(name.startswith(current) for name in below if current) else more.paths
    return Candidates({**below, **flags, **more.words}, paths)


def _items(items: Iterable[Any]) -> Iterable[tuple[str, str]]:
    return ((item.value, item.help or "") for item in items)


def _below(group: Any, context: Any) -> dict[str, str]:  # noqa: ANN401
    """The commands of a group, each with its first sentence; no verb is imported for that."""
    if context.parent is None:
        return {verb: line for verbs in VERBS.values() for verb, line in verbs.items()}
    return {name: (command.help or "").partition("\n\n")[0] for name, command in group.commands.items()}


Paths = Literal["none", "grids", "files", "directories"]
"""Which paths a shell offers itself; `grids` are YAML files."""
Context = Any
"""typer hides its class."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Words with what they mean, and paths that the shell finds itself."""

    words: Mapping[str, str] = field(default_factory=dict)
    paths: Paths = "none"


def candidates(context: Context, name: str, metavar: str) -> Candidates:
    """What may stand for a parameter of a command: `name` is its long flag, or that of an argument."""
    found = _BY_NAME.get(name) or _BY_METAVAR.get(metavar)
    if found is None:
        choices = metavar.split("|")
        all_words = len(choices) > 1 and metavar == metavar.lower()
        return Candidates(dict.fromkeys(choices, "") if all_words else {})
    look, paths = found
    try:
        return Candidates(dict(look(context)), paths)
    except (GridwrightError, OSError):
        # No grid spec, or one that is being written: what the command itself will say in full.
        return Candidates(paths=paths)


def _nothing(_context: Context) -> Iterator[tuple[str, str]]:
    return iter(())


def _runs(context: Context) -> Iterator[tuple[str, str]]:
    """The newest first: `last` is what is wanted most. What has no name of a run is not offered."""
    from gridwright.cli.arguments import DEFAULT_RUNS
    from gridwright.runs.place import NAME, find_run, run_directories

    runs = Path(context.params.get("runs") or os.environ.get("GRIDWRIGHT_RUNS") or DEFAULT_RUNS)
    names = [path.name for path in reversed(run_directories(runs)) if NAME.fullmatch(path.name)]
    with suppress(GridwrightError):
        yield "last", find_run(runs, "last").name
    yield from ((name, "") for name in names)


def _spec(context: Context) -> GridSpec:
    from gridwright.cli.spec_file import load

    return load(context.params.get("grid") or context.params.get("file"))


def _jobs(context: Context) -> Iterator[tuple[str, str]]:
    """The jobs that the command could be about, the newest first."""
    from gridwright.cli.spec_file import open_grid

    wants_waiting = context.info_name in {"cancel", "wait"}
    jobs = open_grid(context.params.get("grid")).scheduler.jobs()
    for job in sorted(jobs, key=lambda job: job.submitted or 0.0, reverse=True):
        if not (wants_waiting and job.state.final):
            yield str(job.id), f"{job.state} {job.name}"


def _nodes(context: Context) -> Iterator[tuple[str, str]]:
    """The nodes of a lab as it runs, for its commands; else those of the grid spec."""
    from gridwright.cli.build import lab

    if context.parent is not None and context.parent.info_name == lab.NAME:
        yield from lab.nodes_as_it_runs(context.params.get("grid"))
        return
    for group, nodes in _spec(context).nodes.items():
        for name in nodes.node_names(group):
            yield name, group


def _libraries(context: Context) -> Iterator[tuple[str, str]]:
    """The directories of libraries, which are named by role."""
    spec = _spec(context)
    for role in spec.libraries if spec.is_placed else ():
        yield str(spec.library_directory(role)), f"library {role}"


def _file_systems(context: Context) -> Iterator[tuple[str, str]]:
    for name, filesystem in _spec(context).filesystems.items():
        yield name, filesystem.type


def _matrices(_context: Context) -> Iterator[tuple[str, str]]:
    from gridwright.workload.matrix import BUILT_IN

    return ((name, "") for name in BUILT_IN)


def _scales(_context: Context) -> Iterator[tuple[str, str]]:
    from gridwright.workload.messages import SCALES

    return ((name, "") for name in SCALES)


def _parts(_context: Context) -> Iterator[tuple[str, str]]:
    from gridwright.cli.prove.prove import PARTS

    return ((name, "") for name in PARTS)


def _checks(_context: Context) -> Iterator[tuple[str, str]]:
    from gridwright.doctor.checks import all_checks

    return ((check.name, "") for check in all_checks())


def _topics(_context: Context) -> Iterator[tuple[str, str]]:
    from gridwright.cli.shell.help import findings, pages

    yield from pages().items()
    yield from ((name, "finding") for name in findings())


_Look = Callable[[Context], Iterator[tuple[str, str]]]
_BY_NAME: Mapping[str, tuple[_Look, Paths]] = {
    "file": (_nothing, "grids"),
    "--grid": (_nothing, "grids"),
    "--matrix": (_matrices, "grids"),
    "--workload": (_matrices, "grids"),
    "--scale": (_scales, "none"),
    "--delete-data": (_file_systems, "none"),
    "--directory": (_libraries, "directories"),
}
_BY_METAVAR: Mapping[str, tuple[_Look, Paths]] = {
    **dict.fromkeys(("FILE", "OUT", "LOG...", "-- COMMAND..."), (_nothing, "files")),
    "DIR": (_nothing, "directories"),
    **dict.fromkeys(("RUN", "RUN...", "A", "B"), (_runs, "directories")),
    **dict.fromkeys(("JOB", "JOB...", "[JOB...]"), (_jobs, "none")),
    **dict.fromkeys(("NODE", "NODES", "SET"), (_nodes, "none")),
    "CHECK": (_checks, "none"),
    "[TOPIC]": (_topics, "none"),
    "PART": (_parts, "none"),
}
