"""When a service that runs a file system may maintain it, as the grid spec says it."""

from __future__ import annotations

from typing import Annotated

from gridwright.yamltext.fields import matching

MAINTENANCE_PATTERN = r"^(mon|tue|wed|thu|fri|sat|sun):([01][0-9]|2[0-3]):[0-5][0-9]$"

MaintenanceWindow = Annotated[
    str, matching(MAINTENANCE_PATTERN, "a day and a time", "one in UTC, such as sun:03:00")
]
"""A day of the week and a time in UTC: sun:03:00."""
