"""What the double says of a tenancy: regions, shapes, images, free capacity, limits, the site's network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gridwright.catalog import load_catalog

Answer = tuple[int, Any]
DOMAINS = ("Uocm:US-ASHBURN-AD-1", "Uocm:US-ASHBURN-AD-2", "Uocm:US-ASHBURN-AD-3")
PLATFORM = {("Canonical Ubuntu", "24.04"), ("Oracle Linux", "9")}
"""Operating systems and versions of platform images."""
WHEN = "2026-11-27T12:00:00.000Z"


def refused(status: int, code: str, message: str) -> Answer:
    """An answer of OCI's that says no."""
    return status, {"code": code, "message": message}


def _sold() -> dict[str, dict[str, Any]]:
    """Every shape of the catalogue, with the sizes that flexible ones come in, and its limits."""
    found: dict[str, dict[str, Any]] = {}
    for each in (each for each in load_catalog().instances.values() if each.provider == "oci"):
        name = each.name.partition("(")[0]
        family = name.removeprefix("VM.").removeprefix("BM.").removesuffix(".Flex").lower().replace(".", "-")
        limits = [f"{family}-core-count", f"{family}-memory-count"]
        shape = {"shape": name, "ocpus": float(each.cores), "memoryInGBs": each.memory_bytes / 2**30}
        if name.endswith(".Flex"):
            shape |= {
                "isFlexible": True,
                "ocpuOptions": {"min": 1.0, "max": 94.0},
                "memoryOptions": {"minInGBs": 1.0, "maxInGBs": 1049.0},
            }
        found[name] = shape | {"quotaNames": limits if "Flex" in name else [f"bm-{family}-count"]}
    return found


@dataclass
class Account:
    """Settings of tests; by default everything is there, and enough of it."""

    regions: dict[str, str] = field(default_factory=lambda: {"us-ashburn-1": "READY"})
    compartment: str = "ACTIVE"
    domains: tuple[str, ...] = DOMAINS
    shapes: dict[str, dict[str, Any]] = field(default_factory=_sold)
    without_images: set[str] = field(default_factory=set)
    """Shapes that no platform image is for."""
    images: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The site's own, by OCID; `shapes` are those that it starts on."""
    free: dict[tuple[str, str], int] = field(default_factory=dict)
    """Machines that are free by shape and fault domain."""
    left: dict[str, int] = field(default_factory=dict)
    """What is left of limits, by name; a million of others."""
    regional: set[str] = field(default_factory=set)
    """Limits of the whole region."""
    reservations: dict[str, dict[str, Any]] = field(default_factory=dict)
    vcns: dict[str, dict[str, Any]] = field(default_factory=dict)
    subnets: dict[str, dict[str, Any]] = field(default_factory=dict)
    keys: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Keys of a vault by OCID: `state` and `algorithm`, as OCI has them."""
    shows_vaults: bool = True
    hidden: set[str] = field(default_factory=set)
    """Kinds of things that these credentials may not see."""
    reported: list[dict[str, Any]] = field(default_factory=list)
    """Questions for free capacity."""

    def answer(self, kind: str, rest: list[str], query: dict[str, str], body: Any) -> Answer | None:
        """The answer; None for what is not of the account."""
        ask = getattr(self, f"_{kind}", None)
        found: Answer | None = None if ask is None else ask(rest, query, body)
        return found

    def _tenancies(self, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        return 200, [
            {"regionName": name, "regionKey": "IAD", "status": status, "isHomeRegion": True}
            for name, status in self.regions.items()
        ]

    def _compartments(self, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        return 200, {"id": rest[0], "name": "grids", "lifecycleState": self.compartment, "timeCreated": WHEN}

    def _availabilityDomains(self, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        return 200, [{"name": each, "id": each, "compartmentId": "x"} for each in self.domains]

    def _shapes(self, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        if query["availabilityDomain"] not in self.domains:
            return refused(400, "InvalidParameter", query["availabilityDomain"])
        return 200, list(self.shapes.values())

    def _images(self, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        if not rest:
            there = (
                query["shape"] not in self.without_images
                and (query["operatingSystem"], query["operatingSystemVersion"]) in PLATFORM
            )
            return 200, [self._image("ocid1.image.oc1.iad.platform", query)] if there else []
        if rest[0] not in self.images:
            return refused(404, "NotAuthorizedOrNotFound", rest[0])
        image = self.images[rest[0]]
        if rest[1:] == ["shapes"]:
            return 200, [{"imageId": rest[0], "shape": each} for each in image["shapes"]]
        return 200, {**self._image(rest[0], {}), **image}

    @staticmethod
    def _image(ocid: str, query: dict[str, str]) -> dict[str, Any]:
        return {
            "id": ocid,
            "displayName": "an image",
            "lifecycleState": "AVAILABLE",
            "operatingSystem": query.get("operatingSystem", "Custom"),
            "operatingSystemVersion": query.get("operatingSystemVersion", "1"),
            "createImageAllowed": True,
            "timeCreated": WHEN,
        }

    def _computeCapacityReports(self, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        if not body["compartmentId"].startswith("ocid1.tenancy."):
            return refused(400, "InvalidParameter", "capacity reports are of the root compartment")
        self.reported.append(body)
        return 200, {**body, "timeCreated": WHEN, "shapeAvailabilities": list(self._free(body))}

    def _free(self, body: Any) -> Iterator[dict[str, Any]]:
        for each in body["shapeAvailabilities"]:
            if each["instanceShape"] not in self.shapes:
                yield {**each, "availabilityStatus": "HARDWARE_NOT_SUPPORTED"}
                continue
            count = self.free.get((each["instanceShape"], each["faultDomain"]), 100)
            status = "AVAILABLE" if count else "OUT_OF_HOST_CAPACITY"
            yield {**each, "availabilityStatus": status, "availableCount": count}

    def _services(self, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        _, _, name, last = rest
        if last != "resourceAvailability":
            return refused(404, "NotAuthorizedOrNotFound", last)
        if ("availabilityDomain" in query) is (name in self.regional):
            return refused(400, "InvalidParameter", "availabilityDomain does not match the limit's scope")
        return 200, {"used": 5, "available": self.left.get(name, 1_000_000)}

    def _computeCapacityReservations(self, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        if rest[0] not in self.reservations:
            return refused(404, "NotAuthorizedOrNotFound", rest[0])
        base = {"id": rest[0], "displayName": "kept", "lifecycleState": "ACTIVE", "timeCreated": WHEN}
        return 200, {**base, "availabilityDomain": self.domains[0], **self.reservations[rest[0]]}

    def _vcns(self, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        return self._of(self.vcns, rest)

    def _subnets(self, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        return self._of(self.subnets, rest)

    @staticmethod
    def _of(known: dict[str, dict[str, Any]], rest: list[str]) -> Answer:
        if rest[0] not in known:
            return refused(404, "NotAuthorizedOrNotFound", rest[0])
        return 200, {"id": rest[0], "displayName": rest[0], "lifecycleState": "AVAILABLE", **known[rest[0]]}

    def searched(self, query: str) -> Iterator[dict[str, Any]]:
        """What the search shows of keys and vaults."""
        base = {"compartmentId": "x", "timeCreated": WHEN, "displayName": "mine"}
        for key, each in self.keys.items():
            if query == f"query key resources where identifier = '{key}'":
                shown = {"identifier": key, "resourceType": "Key", "lifecycleState": each["state"]}
                yield base | shown
            elif query == "query vault resources" and self.shows_vaults:
                shown = {"identifier": _vault_of(key), "resourceType": "Vault", "lifecycleState": "ACTIVE"}
                yield base | shown

    def _vaults(self, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        if rest[0] not in {_vault_of(each) for each in self.keys}:
            return refused(404, "NotAuthorizedOrNotFound", rest[0])
        return 200, {"id": rest[0], "managementEndpoint": "https://mark-management.kms.example.com"}

    def _keys(self, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        if rest[0] not in self.keys:
            return refused(404, "NotAuthorizedOrNotFound", rest[0])
        shape = {"algorithm": self.keys[rest[0]]["algorithm"], "length": 32}
        return 200, {"id": rest[0], "keyShape": shape, "lifecycleState": self.keys[rest[0]]["state"]}


def _vault_of(key: str) -> str:
    """The OCID of the vault of a key."""
    return ".".join(["ocid1", "vault", *key.split(".")[2:5], "aaaa"])
