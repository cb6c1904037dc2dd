"""`gridwright completion`: the script by which a shell completes commands, and the answers it asks for."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.resources import files
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gridwright.cli.arguments import Reader
from gridwright.cli.output import Output
from gridwright.cli.shell.candidates import Candidates, Paths, candidates
from gridwright.cli.verbs import VERBS

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
