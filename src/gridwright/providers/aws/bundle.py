"""The bundles of a grid on AWS."""

from __future__ import annotations

from gridwright.providers.boot.bundle import Bundle, Part, bundle
from gridwright.spec.model import GridSpec


def grid_bundles(spec: GridSpec, release: str | None = None) -> dict[Part, Bundle]:
    """The bundles of a grid. Raises GridwrightError (INPUT) where it cannot be built as it is written."""
    from gridwright.providers.aws.layout import aws_layout
    from gridwright.providers.aws.machine_files import machine_files

    files = machine_files(spec, aws_layout(spec), release)
    return {part: bundle(content) for part, content in files.parts.items()}
