"""How managed file systems of a prediction are worded, alike on the terminal and on pages."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.model.prediction import MetadataRates, PublishedDeviation, ServicePrediction, ServiceRates
from gridwright.report.designs.words import dollars
from gridwright.report.figures import count, megabytes, share

SERVICE_HEADINGS = ("MB/s that last", "read alone", "write alone", "mixed", "of it read", "written")
"""What the columns of service_rows hold."""


def service_rows(service: ServicePrediction) -> Iterator[tuple[str, ...]]:
    """What the service could deliver, what all nodes get of it, and what a single one does."""
    for who, rates in (
        ("the service", service.service),
        ("all nodes", service.all_nodes),
        ("one client", service.one_client),
    ):
        yield who, *(megabytes(rate) for rate in _figures(rates))


def _figures(rates: ServiceRates) -> Iterator[float]:
    mixed = rates.mixed
    yield from (rates.read_bytes_per_s, rates.write_bytes_per_s)
    yield from (mixed.bytes_per_s, mixed.read_bytes_per_s, mixed.write_bytes_per_s)


def service_title(service: ServicePrediction) -> str:
    """Which file system it is, and what it costs."""
    usd = service.usd_per_hour
    cost = "no price known" if usd is None else f"{dollars(usd)} USD per hour"
    return f"{service.filesystem}: {service.what}; {cost}"


def service_notes(service: ServicePrediction) -> Iterator[str]:
    """What the mix is, how far it is from what was published, and metadata."""
    mixed = service.all_nodes.mixed
    yield f"mixed: {share(mixed.reads)} of the bytes are read; all nodes are bound by {mixed.bound_by}"
    if service.published is not None:
        yield _published(service.published)
    if service.metadata is not None:
        yield _metadata(service.metadata)


def _published(deviation: PublishedDeviation) -> str:
    read, write = megabytes(deviation.read_bytes_per_s), megabytes(deviation.write_bytes_per_s)
    side = "above" if deviation.above >= 0 else "below"
    return (
        f"published of such a mix: {read} read and {write} written; the model is {abs(deviation.above):.1%} "
        f"{side} it ({deviation.source})"
    )


def _metadata(rates: MetadataRates) -> str:
    text = f"metadata: {count(round(rates.per_s))} operations/s of all nodes"
    if rates.latency_s is None or rates.per_s_per_stream is None:
        return text
    each = count(round(rates.per_s_per_stream))
    return f"{text}; {each} a stream, at {rates.latency_s * 1e3:.3g} ms each"
