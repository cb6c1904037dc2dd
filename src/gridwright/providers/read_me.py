"""README.md of a rendered grid: what the files are, and the commands that bring them into use by hand."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from gridwright.schedulers.set_up import SchedulerSetup
from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class Notes:
    """What a provider says there: paragraphs, empty where it has nothing to say."""

    before_steps: str = ""
    """Of the commands that bring the scheduler into use by hand."""
    after_playbook: str = ""
    at_end: str = ""


def read_me(spec: GridSpec, setup: SchedulerSetup, notes: Notes) -> str:
    """The text, in Markdown."""
    lines = [
        f"# Grid {spec.name}",
        "",
        *_paragraph(
            "Written by `gridwright render` from its grid spec. The same spec gives the same files; a file "
            "that was edited here is not written over, unless `--overwrite` says so."
        ),
    ]
    if not setup.files:
        kind = spec.scheduler.type
        lines += _paragraph(
            f"Its scheduler, {kind}, has no configuration of its own: nothing is to be set up."
        )
    else:
        lines += [*_contents(setup), "", *_paragraph(notes.before_steps), *_steps(setup)]
    lines += [*_playbook(), *_paragraph(notes.after_playbook)]
    if notes.at_end:
        lines += ["", *_paragraph(notes.at_end)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _playbook() -> Iterator[str]:
    """How the nodes are set up by the playbook beside this file."""
    yield from [
        "",
        "## Setting nodes up with Ansible",
        "",
        *_paragraph(
            "`site.yml` sets kernel, limits, disks, file systems and Slurm of all nodes in `inventory.yml`, "
            "as `tuning.yaml` has it, which says why for each setting. It needs ansible-core 2.16 or newer "
            "and ssh to the nodes; a second run changes nothing."
        ),
        "```sh",
        "ansible-playbook site.yml --check --diff   # what differs; changes nothing",
        "ansible-playbook site.yml",
        "```",
        "",
        *_paragraph(
            "`gridwright setup` does the same from the grid spec. What a site chooses goes into a file of "
            "its own, named with `--extra-vars @FILE`: the defaults of the roles say what there is, such as "
            "the repository of the Lustre client and the file that holds the key of munge."
        ),
    ]


def _paragraph(text: str) -> list[str]:
    return [*textwrap.wrap(text, 100), ""] if text else []


def _contents(setup: SchedulerSetup) -> Iterator[str]:
    yield "| file | is |"
    yield "|---|---|"
    yield from (f"| `{name}` | {meaning} |" for name, meaning in setup.file_meanings.items())
    yield ""
    yield setup.key_note


def _steps(setup: SchedulerSetup) -> Iterator[str]:
    yield from ["## Setting it up by hand", "", *_paragraph(setup.introduction), "```sh"]
    for number, step in enumerate(setup.steps):
        yield from [*([""] if number else []), f"# {step.title}", *step.commands]
    yield "```"
