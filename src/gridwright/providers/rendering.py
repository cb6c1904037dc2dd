"""All files of a grid that can be made before it exists, from its spec and the facts of its machines."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gridwright.errors import Finding
from gridwright.model.grid import library_layouts
from gridwright.schedulers.machines import SchedulerSetup
from gridwright.setup.playbook import Hosts, Provided, playbook_files
from gridwright.spec.model import GridSpec

# README.md of a rendered grid: what the files are, and the commands that bring them into use by hand.
#
# Such pages are Jinja templates in the packages of providers.

_WIDTH = 100


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


def markdown(package: str, name: str, **values: object) -> str:
    """The template `templates/NAME` of a package with its values.

    `{% filter fold %}` makes one paragraph of the text in it; `usd` writes a price, which may be None.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - Markdown with commands, out of a checked spec
    )
    environment.filters |= {"fold": _folded, "usd": _usd}
    return environment.get_template(name).render(**values).rstrip("\n") + "\n"


def _folded(text: str) -> str:
    lines = textwrap.wrap(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "".join(f"{line}\n" for line in lines)


def _usd(value: float | None) -> str:
    return "not known" if value is None else f"{value:.4f}"


@dataclass(frozen=True, slots=True)
class Rendering:
    """Files by their path below the directory that they are written to."""

    files: Mapping[str, str | bytes]
    findings: Sequence[Finding]
    hosts: Hosts
    """The nodes that the playbook among the files is for."""


def render_playbook(
    spec: GridSpec, setup: SchedulerSetup, hosts: Hosts, notes: Notes, provided: Provided | None = None
) -> Rendering:
    """The playbook, the files of the scheduler, and README.md: all there is where nodes are there already.

    `provided` is what the provider knows beside the spec.
    """
    known = replace(provided or Provided(), layouts=library_layouts(spec))
    playbook = playbook_files(spec, hosts, setup, known)
    files = {**setup.files, **playbook, "README.md": read_me(spec, setup, notes)}
    return Rendering(files, setup.findings, hosts)
