"""README.md of a rendered grid: what the files are, and the commands that bring them into use by hand."""

from __future__ import annotations

from dataclasses import dataclass

from gridwright.providers.markdown import markdown
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
    return markdown("gridwright.providers", "README.md.j2", spec=spec, setup=setup, notes=notes)
