"""Shapes of a spec as Terraform takes them, with what the catalogue knows of them."""

from __future__ import annotations

import re

from gridwright.catalog import Catalog, InstanceType
from gridwright.errors import GridwrightError, Problem
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec

GIB = 2**30


class Shapes:
    """Shapes as the catalogue has them; what it does not know is noted once for each place."""

    def __init__(self, spec: GridSpec, catalog: Catalog) -> None:
        self._spec, self._catalog = spec, catalog
        self.problems: list[Problem] = []

    def of(self, name: str, *field: str) -> InstanceType | None:
        """The shape of that name; None after its problem was noted for the field."""
        try:
            return self._catalog.instance(name, self._spec.provider)
        except GridwrightError as error:
            found = [problem_at(self._spec, field, each.what, each.remedy or "") for each in error.problems]
            self.problems += [each for each in found if each not in self.problems]
            return None

    def words(self, name: str, *field: str) -> tuple[str, int | None, int | None]:
        """Shape, OCPUs and GiB of memory, as Terraform takes them."""
        instance = self.of(name, *field)
        flexible = re.fullmatch(r"(.+\.Flex)(?:\(([0-9]+)\))?", name)
        if flexible is None:
            return name, None, None
        # An OCPU of an Arm processor is two cores from A2 on; the number in brackets is OCPUs.
        ocpus = int(flexible[2]) if flexible[2] else (instance.cores if instance else 1)
        memory = instance.memory_bytes // GIB if instance else 16 * ocpus
        return flexible[1], ocpus, memory

    def has_two_cards(self, name: str) -> bool:
        """Whether it has a card for clients beside the one that reaches volumes."""
        instance = self._known(name)
        return instance is not None and instance.network.nics > 1

    def _known(self, name: str) -> InstanceType | None:
        try:
            return self._catalog.instance(name, self._spec.provider)
        except GridwrightError:
            return None
