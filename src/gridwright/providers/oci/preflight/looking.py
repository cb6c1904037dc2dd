"""All looks together, each for itself: what these credentials may not look at is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from gridwright.errors import GRAVEST_FIRST, Finding
from gridwright.providers.oci.layout import OciLayout
from gridwright.providers.oci.names import is_there
from gridwright.providers.oci.preflight.limits import LimitNeed, limit_needs, limit_use, too_small
from gridwright.providers.oci.preflight.made_resources import look_at_made, made_needs
from gridwright.providers.oci.preflight.needs import StillNeeded, still_needed
from gridwright.providers.oci.preflight.places import (
    availability_domain,
    compartment_findings,
    region_findings,
)
from gridwright.providers.oci.preflight.reservation import reservation_findings
from gridwright.providers.oci.preflight.shapes import (
    capacity_findings,
    image_findings,
    shape_findings,
    sold_shapes,
)
from gridwright.providers.oci.preflight.site_network import site_network_findings
from gridwright.providers.oci.preflight.vault_key import key_findings
from gridwright.providers.oci.session import OciCallError, OciCloud
from gridwright.providers.preflight import Preflight, QuotaUse
from gridwright.spec.model import GridSpec

Answer = TypeVar("Answer")
NOT_TOLD = (403, 404)
"""Answers that leave a look undone: no right to it. OCI says 404 of what may not be seen."""


def preflight(spec: GridSpec, layout: OciLayout, cloud: OciCloud) -> Preflight:
    """Look at what the making of a grid would fail of; nothing is made. Raises OciCallError.

    Credentials that OCI does not accept, and services that do not answer, are errors.
    """
    work = _Looks(spec, cloud, layout)
    work.look("the region", partial(region_findings, cloud))
    work.look("the compartment", partial(compartment_findings, cloud, layout.oci.compartment))
    unseen: tuple[str | None, list[Finding]] = (None, [])
    domain, found = work.asked("availability domains", partial(availability_domain, cloud, layout), unseen)
    work.findings += found
    facts = {"tenancy": cloud.tenancy, "region": cloud.region, "compartment": layout.oci.compartment}
    if domain is not None:
        facts["availability domain"] = domain
        work.look_inside(domain)
    findings = sorted(work.findings, key=lambda each: GRAVEST_FIRST[each.level])
    return Preflight(spec.name, spec.provider, facts, tuple(work.figures), tuple(findings))


class _Looks:
    """Looks of one preflight, and what they found."""

    def __init__(self, spec: GridSpec, cloud: OciCloud, layout: OciLayout) -> None:
        self.spec, self.cloud, self.layout = spec, cloud, layout
        self.findings: list[Finding] = []
        self.figures: list[QuotaUse] = []

    def look(self, what: str, look: Callable[[], Iterable[Finding]]) -> None:
        """Keep what a look found, or that it was not looked at."""
        self.asked(what, lambda: self.findings.extend(look()), None)

    def asked(self, what: str, ask: Callable[[], Answer], otherwise: Answer) -> Answer:
        """An answer; `otherwise` where these credentials may not ask, which is told. Raises OciCallError."""
        try:
            return ask()
        except OciCallError as error:
            if error.http_status not in NOT_TOLD:
                raise
            self._not_looked_at(what, error)
            return otherwise

    def look_inside(self, domain: str) -> None:
        """Looks at what depends on the availability domain."""
        cloud, layout = self.cloud, self.layout
        sold: dict[str, Any] = {}
        needed = still_needed(layout, (), ())
        try:
            needed = self._needed()
            sold = sold_shapes(cloud, layout.oci.compartment, domain)
            self.findings += shape_findings(needed, sold, domain)
        except OciCallError as error:
            if error.http_status not in NOT_TOLD:
                raise
            self._not_looked_at("shapes", error)
        self.look("images", partial(image_findings, cloud, layout, needed))
        self.look("the VCN and its subnets", partial(site_network_findings, cloud, layout, domain))
        self.look("the reservation", partial(reservation_findings, cloud, layout, needed, domain))
        self.look("free capacity", partial(capacity_findings, cloud, _known(needed, sold), domain))
        self.look("the key", partial(key_findings, cloud, layout.oci.key))
        needs = [(each, domain) for each in limit_needs(layout, needed, sold)]
        needs += self._made(domain)
        for need, where in needs:
            self.look(f"limit {need.name}", partial(self._count, need, where))
        if needs and not self.figures:
            text = "limits: OCI tells of none of them; it says the same where they may not be seen"
            remedy = (
                "have a policy let you inspect resource-availability; without it, up finds out as it goes"
            )
            self.findings.append(Finding("info", "not-looked-at", text, remedy))
        self.findings += too_small(self.figures, cloud.region)

    def _made(self, domain: str) -> list[tuple[LimitNeed, str]]:
        """What the roots make beside machines and volumes, against limits; what may not be listed is told."""
        domains = self.cloud.listed(
            "identity", "IdentityClient", "list_availability_domains", self.layout.oci.compartment
        )
        names = [str(each.name) for each in domains]
        found: list[tuple[LimitNeed, str]] = []
        for need in made_needs(self.spec, self.layout):
            if need.domain is not None and need.domain >= len(names):
                continue  # a domain that the region lacks is told elsewhere
            where = domain if need.domain is None else names[need.domain]
            for each in look_at_made(self.cloud, self.layout, need, names):
                if isinstance(each, Finding):
                    self.findings.append(each)
                else:
                    found.append((each, where))
        return found

    def _needed(self) -> StillNeeded:
        """Without what is there already: it counts as used. Raises OciCallError."""
        compartment = self.layout.oci.compartment
        machines = self.cloud.listed("core", "ComputeClient", "list_instances", compartment)
        volumes = self.cloud.listed("core", "BlockstorageClient", "list_volumes", compartment_id=compartment)
        return still_needed(self.layout, self._names(machines), self._names(volumes))

    def _names(self, found: Sequence[Any]) -> list[str]:
        return [each.display_name for each in found if is_there(each, self.layout.grid)]

    def _count(self, need: LimitNeed, domain: str) -> Iterable[Finding]:
        use = limit_use(self.cloud, self.layout.oci.compartment, domain, need)
        if use is not None:
            self.figures.append(use)
        return ()

    def _not_looked_at(self, what: str, error: OciCallError) -> None:
        (problem,) = error.problems
        remedy = f"{problem.remedy}; without it, up finds out as it goes"
        self.findings.append(Finding("info", "not-looked-at", f"{what}: {problem.what}", remedy))


def _known(needed: StillNeeded, sold: dict[str, Any]) -> StillNeeded:
    """Without shapes that are not sold there, which are told already."""
    kept = {each: number for each, number in needed.machines.items() if not sold or each.shape in sold}
    return replace(needed, machines=Counter(kept))
