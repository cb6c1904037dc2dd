"""The one availability domain of a grid: what people write who want another form of it, or several."""

from __future__ import annotations

import re

from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

FIELD = "availability_domain"
MOST_DOMAINS = 3
"""Of a region (OCI, Regions and Availability Domains)."""
WHY_ONE = (
    "a grid is in one availability domain: a volume is attached in its own domain alone, so that the servers "
    "of a pair cannot be in two"
)
_ELSEWHERE = "file systems of type oci-file-storage alone have an availability_domain of their own"


def one_domain(value: object) -> object:
    """The number as it is written; the model holds its range. Raises FieldError for all else."""
    if isinstance(value, list):
        numbers = [number for each in value if (number := _number(each))]
        raise FieldError(WHY_ONE, f"write {FIELD}: {numbers[0] if numbers else 1}; {_ELSEWHERE}")
    if isinstance(value, str):
        number = _number(value)
        near = f"{FIELD}: {number}" if number else f"1, 2 or {MOST_DOMAINS}"
        why = "" if value.strip().isdigit() else ": names differ from tenancy to tenancy"
        raise FieldError(
            f"{show(value)} is no number of an availability domain{why}",
            f"write {near}, its number in the region",
        )
    return value


def several_domains(name: str) -> tuple[str, str] | None:
    """Why there is no field for several of them, and the remedy; None for the name of another field."""
    if name.lower().rstrip("s") in (FIELD, "availabilitydomain", "ad", "zone", "availability_zone"):
        return (f"there is no field {show(name)} in oci: {WHY_ONE}", f"write {FIELD}: 1; {_ELSEWHERE}")
    return None


def _number(value: object) -> int | None:
    """The number at the end of what is written, such as 2 or Uocm:US-ASHBURN-AD-2."""
    found = re.fullmatch(rf"(?:.*ad-?)?([1-{MOST_DOMAINS}])", str(value).strip(), re.IGNORECASE | re.ASCII)
    return int(found[1]) if found else None
