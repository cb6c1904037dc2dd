"""Which text, and how it is packed, a request asks for (RFC 9110, 12.5; pure)."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.monitor.exporter.exposition import TextFormat

_MOST_PARTS = 64
"""Of one header that are looked at."""


def text_format(accept: str) -> TextFormat:
    """OpenMetrics where it is named and nothing else is liked better; else the plain text, which all read."""
    found = dict(_preferences(accept))
    named = found.get(TextFormat.OPENMETRICS.value, 0.0)
    plain = max(found.get(each, 0.0) for each in (TextFormat.PLAIN.value, "text/*", "*/*"))
    return TextFormat.OPENMETRICS if named > 0 and named >= plain else TextFormat.PLAIN


def wants_gzip(accept_encoding: str) -> bool:
    """Whether the answer may be packed by gzip."""
    found = dict(_preferences(accept_encoding))
    return found.get("gzip", found.get("*", 0.0)) > 0


def _preferences(header: str) -> Iterator[tuple[str, float]]:
    """Each that is named with its weight; of those named twice the largest one, as versions are."""
    weights: dict[str, float] = {}
    for part in header.split(",")[:_MOST_PARTS]:
        name, *parameters = (word.strip().lower() for word in part.split(";"))
        if name:
            weights[name] = max(weights.get(name, 0.0), _weight(parameters))
    yield from weights.items()


def _weight(parameters: list[str]) -> float:
    for each in parameters:
        name, _, value = each.partition("=")
        if name.strip() == "q":
            try:
                weight = float(value)
            except ValueError:
                return 0.0
            return weight if 0 <= weight <= 1 else 0.0
    return 1.0
