"""Whether shapes are sold in the availability domain in these sizes, have images, and are free just now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gridwright.errors import Finding
from gridwright.providers.oci.layout import OciLayout
from gridwright.providers.oci.platform_images import PLATFORM_IMAGES
from gridwright.providers.oci.preflight.needs import ShapeNeed, StillNeeded
from gridwright.providers.oci.session import OciCloud

CORE, CLIENT = "core", "ComputeClient"
_ELSEWHERE = (
    "choose another shape in the spec, or another availability domain; gridwright catalog list --provider oci"
)


def sold_shapes(cloud: OciCloud, compartment: str, domain: str) -> dict[str, Any]:
    """Shapes of the availability domain by name, as OCI describes them. Raises OciCallError."""
    found = cloud.listed(CORE, CLIENT, "list_shapes", compartment, availability_domain=domain)
    return {each.shape: each for each in found}


def shape_findings(needed: StillNeeded, sold: Mapping[str, Any], domain: str) -> Iterator[Finding]:
    """Shapes that are not sold there, and sizes that they do not come in."""
    for shape in needed.shapes:
        if shape not in sold:
            yield Finding(
                "error", "shape-not-offered", f"{domain} has no shape {shape} for this tenancy", _ELSEWHERE
            )
            continue
        sizes = {(each.ocpus, each.memory_gib) for each in needed.machines if each.shape == shape}
        for ocpus, memory in sorted(sizes, key=str):
            if ocpus is not None and memory is not None:
                yield from _size(shape, ocpus, memory, sold[shape])


def _size(shape: str, ocpus: int, memory: int, found: Any) -> Iterator[Finding]:  # noqa: ANN401
    limits = (
        ("OCPUs", ocpus, found.ocpu_options, "min", "max"),
        ("GB of memory", memory, found.memory_options, "min_in_g_bs", "max_in_g_bs"),
    )
    for what, wanted, options, low, high in limits:
        least, most = getattr(options, low, None), getattr(options, high, None)
        if (least is not None and wanted < least) or (most is not None and wanted > most):
            yield Finding(
                "error",
                "shape-size-not-offered",
                f"{shape} has {least:g} to {most:g} {what}, and the spec wants {wanted:g}",
                "write a size within that, or another shape",
            )


def image_findings(cloud: OciCloud, layout: OciLayout, needed: StillNeeded) -> Iterator[Finding]:
    """Whether each shape has an image that it starts from."""
    oci = layout.oci
    for image in dict.fromkeys(each.image for each in needed.machines if each.image is not None):
        yield from _own_image(cloud, image, needed)
    shapes = needed.shapes_of(None)
    if not shapes:
        return
    system, version = PLATFORM_IMAGES[oci.distribution]
    for shape in shapes:
        found = cloud.listed(
            CORE, CLIENT, "list_images", oci.compartment, operating_system=system,
            operating_system_version=version, shape=shape, lifecycle_state="AVAILABLE",
        )  # fmt: skip
        if not found:
            yield Finding(
                "error",
                "image-unknown",
                f"{cloud.region} has no platform image of {system} {version} that {shape} starts from",
                "write oci.image: with the OCID of an image that does, or another shape",
            )


def _own_image(cloud: OciCloud, image: str, needed: StillNeeded) -> Iterator[Finding]:
    found = cloud.found(CORE, CLIENT, "get_image", image)
    if found is None:
        yield Finding(
            "error",
            "image-unknown",
            f"these credentials see no image {image} in {cloud.region}",
            "write the OCID of one of this region in section oci, or have it shared",
        )
        return
    if found.lifecycle_state != "AVAILABLE":
        yield Finding(
            "error",
            "image-not-available",
            f"image {found.display_name} is {found.lifecycle_state.lower()}",
            "wait until it is available, or name another one in section oci",
        )
    fit = {each.shape for each in cloud.listed(CORE, CLIENT, "list_image_shape_compatibility_entries", image)}
    for shape in needed.shapes_of(image):
        # An image without entries says nothing of shapes.
        if fit and shape not in fit:
            yield Finding(
                "error",
                "image-of-another-architecture",
                f"{shape} does not start from image {found.display_name}",
                "name an image for this shape in section oci, or add the shape to it",
            )


def capacity_findings(cloud: OciCloud, needed: StillNeeded, domain: str) -> Iterator[Finding]:
    """Whether OCI has so many machines free at the moment; what is reserved is not asked for."""
    wanted = {each: number for each, number in needed.machines.items() if not each.is_reserved}
    if not wanted:
        return
    answers = _report(cloud, wanted, domain)
    for need, number in wanted.items():
        answer = answers.get((need.shape, need.ocpus, f"FAULT-DOMAIN-{need.fault_domain}"))
        if answer is None or answer.availability_status == "UNKNOWN_ENUM_VALUE":
            continue
        few = answer.available_count is not None and answer.available_count < number
        if answer.availability_status == "AVAILABLE" and not few:
            continue
        size = f"{need.shape}({need.ocpus})" if need.ocpus else need.shape
        free = "none" if answer.availability_status != "AVAILABLE" else f"{answer.available_count}"
        yield Finding(
            "error",
            "no-capacity",
            f"FAULT-DOMAIN-{need.fault_domain} of {domain} has {free} of the {number} {size} that are needed",
            "try later, write another shape or availability domain, or have capacity reserved "
            "(oci.capacity_reservation)",
        )


def _report(
    cloud: OciCloud, wanted: Iterable[ShapeNeed], domain: str
) -> dict[tuple[str, float | None, str], Any]:
    """Answers by shape, OCPUs and fault domain."""
    from oci.core import models

    asked = []
    for each in wanted:
        size = None
        if each.ocpus is not None:
            size = models.CapacityReportInstanceShapeConfig(ocpus=each.ocpus, memory_in_gbs=each.memory_gib)
        asked.append(
            models.CreateCapacityReportShapeAvailabilityDetails(
                fault_domain=f"FAULT-DOMAIN-{each.fault_domain}",
                instance_shape=each.shape,
                instance_shape_config=size,
            )
        )
    details = models.CreateComputeCapacityReportDetails(
        # OCI makes these reports of a tenancy, and not of a compartment.
        compartment_id=cloud.tenancy, availability_domain=domain, shape_availabilities=asked,
    )  # fmt: skip
    report = cloud.call(CORE, CLIENT, "create_compute_capacity_report", details)
    return {
        (each.instance_shape, getattr(each.instance_shape_config, "ocpus", None), each.fault_domain): each
        for each in report.shape_availabilities
    }
