"""One self-contained HTML file of a template and its charts: styles, scripts and the page's own policy.

The contents of a page, too: links to its parts, in their order.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from gridwright.report.plot import Chart

if TYPE_CHECKING:
    from jinja2 import Environment


def rendered(
    template: str, charts: Sequence[Chart], styles: Sequence[str] = ("report.css",), **values: object
) -> str:
    """The page of a template, which gets `values`, the style sheets, the scripts and its charts' data.

    plotly is inside only where there are charts. Nothing is loaded from the network.
    """
    scripts = _scripts() if charts else _scripts()[1:]
    page = (
        environment()
        .get_template(template)
        .render(
            policy=_policy(scripts),
            styles="\n".join(_asset(name) for name in styles),
            scripts=scripts,
            chart_data={chart.name: {"height": chart.height, **chart.figure} for chart in charts},
            **values,
        )
    )
    return str(page)


@cache
def environment() -> Environment:
    """What pages are made by; it keeps what it has read of templates."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("gridwright.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Only for our own style sheet and scripts; nothing from outside passes through here.
    environment.filters["inlined"] = Markup
    return environment


def _asset(name: str) -> str:
    return files("gridwright.report").joinpath("templates", name).read_text(encoding="utf-8")


def _scripts() -> list[str]:
    """plotly.js with the traces that charts here are of (scatter and bar), as published, and our own."""
    library = files("gridwright.report").joinpath("plotly", "plotly-basic.min.js").read_text(encoding="utf-8")
    # Either would end or upset the script element around it; plotly.js has neither so far.
    return [library.replace("</script", "<\\/script").replace("<!--", "<\\!--"), _asset("report.js")]


def _policy(scripts: Sequence[str]) -> str:
    """The page's own security policy: nothing from the network, no script but ours.

    The scripts are named by their hash, so that not even a mistake in escaping could run another.
    """
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@dataclass(frozen=True, slots=True)
class ContentsEntry:
    """A part of the page, and the id of its heading."""

    title: str
    anchor: str


def contents_of(entries: Iterable[ContentsEntry | None]) -> tuple[ContentsEntry, ...]:
    """The entries that are there; none for a page of a single part, where nobody looks for another."""
    found = tuple(entry for entry in entries if entry is not None)
    return found if len(found) > 1 else ()
