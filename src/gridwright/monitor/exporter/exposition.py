"""Series as text: OpenMetrics 1.0, or Prometheus' text format 0.0.4 (pure).

Both as their specifications have them: https://prometheus.io/docs/specs/om/open_metrics_spec/ and
https://prometheus.io/docs/instrumenting/exposition_formats/. Written as it is read, in pieces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gridwright.monitor.exporter.metric_families import MetricFamily

MOST_SERIES = 50_000
"""Of one family: what scrapes a node is not made for more, and each costs it memory for hours."""
_EARLIEST_S = 1e9
"""Beginnings of counters before this are of a clock that does not count from 1970."""
_UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_PIECE = 1 << 16


class TextFormat(StrEnum):
    """A format of the exposition, by its media type."""

    OPENMETRICS = "application/openmetrics-text"
    PLAIN = "text/plain"

    @property
    def content_type(self) -> str:
        """As the answer's header has it."""
        version = "1.0.0" if self is TextFormat.OPENMETRICS else "0.0.4"
        return f"{self.value}; version={version}; charset=utf-8"


@dataclass(frozen=True, slots=True)
class SeriesValue:
    """One series now."""

    labels: Sequence[str]
    value: float
    since_s: float | None = None
    """When a counter began, in seconds since 1970; another clock's times are left out."""


@dataclass(slots=True)
class Exposition:
    """Writes families, one after the other, and counts what had to be left out."""

    format: TextFormat
    left_out: int = 0

    def family(self, family: MetricFamily, points: Iterable[SeriesValue]) -> Iterator[bytes]:
        """The text of a family in pieces; nothing where it has no series."""
        lines, size, seen = [], 0, set[str]()
        for point in points:
            labels = _labels(family.labels, point.labels)
            if labels in seen or len(seen) >= MOST_SERIES:
                self.left_out += 1
                continue
            if not seen:
                lines.append(self._head(family))
            seen.add(labels)
            lines.append(self._series(family, labels, point))
            size += len(lines[-1])
            if size >= _PIECE:
                yield "".join(lines).encode()
                lines, size = [], 0
        if lines:
            yield "".join(lines).encode()

    def end(self) -> bytes:
        """What ends the text."""
        return b"# EOF\n" if self.format is TextFormat.OPENMETRICS else b""

    def _head(self, family: MetricFamily) -> str:
        help_ = family.help.replace("\\", "\\\\").replace("\n", "\\n")
        if self.format is TextFormat.PLAIN:
            kind = "counter" if family.is_counter else "gauge"
            return f"# HELP {family.series} {help_}\n# TYPE {family.series} {kind}\n"
        kind = "counter" if family.is_counter else "info" if family.is_info else "gauge"
        unit = f"# UNIT {family.name} {family.unit}\n" if family.unit else ""
        help_ = help_.replace('"', '\\"')
        return f"# TYPE {family.name} {kind}\n{unit}# HELP {family.name} {help_}\n"

    def _series(self, family: MetricFamily, labels: str, point: SeriesValue) -> str:
        text = f"{family.series}{labels} {number(point.value)}\n"
        since = point.since_s
        if self.format is TextFormat.OPENMETRICS and family.is_counter and since is not None:
            text += f"{family.name}_created{labels} {number(since)}\n" if since >= _EARLIEST_S else ""
        return text


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    """Label set of a series; a label that is empty is none (Prometheus' data model)."""
    told = ",".join(f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True) if value)
    return f"{{{told}}}" if told else ""


def escaped(value: str) -> str:
    r"""A label's value: bytes that are no text, and control characters, as `\xff`, which is text then."""
    if value.isascii() and value.isprintable() and "\\" not in value and '"' not in value:
        return value
    shown = _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]) & 0xFF:02x}", value)
    return shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """A number as both formats have it."""
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "+Inf" if value > 0 else "-Inf"
        if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
    return str(value)
