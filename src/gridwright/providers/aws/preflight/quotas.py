"""Service quotas of an account: which there are, what counts against each, and which are too small."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from gridwright.errors import Finding
from gridwright.providers.aws.session import Cloud
from gridwright.providers.preflight import QuotaUse

Amounts = Mapping[tuple[str, str], float]
"""What counts against quotas, by the kind of quota and by what of it: vCPUs of family m, TiB of gp3."""
_FAMILY = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota, with the page that it is from."""

    service: str
    code: str
    name: str
    kind: str
    of: frozenset[str]
    """Families of instances, types of volumes, deployment types; empty where it counts all of a kind."""
    unit: str
    source: str

    def sum(self, amounts: Amounts) -> float:
        """What of these counts against it."""
        return sum(
            amount
            for (kind, of), amount in amounts.items()
            if kind == self.kind and (not self.of or of in self.of)
        )

    def limit(self, cloud: Cloud) -> float:
        """The account's own value in this region. Raises CloudError."""
        asked = {"ServiceCode": self.service, "QuotaCode": self.code}
        return float(cloud.call("service-quotas", "get_service_quota", **asked)["Quota"]["Value"])


@cache
def all_quotas() -> tuple[Quota, ...]:
    """Those that a grid counts against."""
    text = resources.files("gridwright.providers.aws").joinpath("data/quotas.csv").read_text("utf-8")
    return tuple(
        Quota(
            service=row["service"],
            code=row["code"],
            name=row["name"],
            kind=row["kind"],
            of=frozenset(row["of"].split()),
            unit=row["unit"],
            source=row["source"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def family(instance: str) -> str:
    """The letters of a type that say whose quota it is: m of m6in.4xlarge, hpc of hpc7a.96xlarge."""
    found = _FAMILY.match(instance)
    return found[0] if found else instance


def too_small(figures: Iterable[QuotaUse], region: str) -> Iterator[Finding]:
    """A finding for each quota that the grid does not fit into."""
    for each in figures:
        if each.is_enough:
            continue
        service, _, code = each.code.partition("/")
        yield Finding(
            "error",
            "quota-too-small",
            f"{each.name} ({code}) is {each.limit:g} {each.unit} in {region}: others use {each.used:g}, and "
            f"the grid needs {each.needed:g}",
            "ask for more, which takes hours to days: aws service-quotas request-service-quota-increase "
            f"--region {region} --service-code {service} --quota-code {code} "
            f"--desired-value {math.ceil(each.used + each.needed)}; or write a smaller grid",
        )
