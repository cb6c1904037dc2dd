"""Whether the images of a grid are there, and fit its machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gridwright.catalog import Catalog
from gridwright.errors import Finding
from gridwright.providers.aws.launching import ROOT_DEVICE, image_of
from gridwright.providers.aws.layout import AwsLayout
from gridwright.providers.aws.session import Cloud, CloudError

_BY_PARAMETER = "resolve:ssm:"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An image, and the machines that start from it."""

    image: str
    field: str
    instance: str
    architecture: str


def images(layout: AwsLayout, catalog: Catalog) -> list[_Wanted]:
    """Each image of the grid with the first type of each architecture that starts from it."""
    found: dict[tuple[str, str], _Wanted] = {}
    for machine in layout.machines:
        kind = catalog.instance(machine.instance, "aws")
        storage = machine.role.serves_lustre
        named = image_of(layout.aws.images.storage if storage else layout.aws.images.compute, kind)
        field = f"aws.images.{'storage' if storage else 'compute'}"
        found.setdefault(
            (named, kind.architecture), _Wanted(named, field, machine.instance, kind.architecture)
        )
    return list(found.values())


def image_findings(cloud: Cloud, layout: AwsLayout, catalog: Catalog) -> Iterator[Finding]:
    """What is wrong with them. Raises CloudError for what is not about one image."""
    for each in images(layout, catalog):
        try:
            found = _described(cloud, each.image)
        except CloudError as error:
            if not error.code.startswith(("InvalidAMI", "ParameterNotFound")):
                raise
            found = None
        name = each.image.removeprefix(_BY_PARAMETER)
        if found is None:
            yield Finding(
                "error",
                "image-unknown",
                f"the account sees no image {name} in {cloud.region}",
                f"name one of this region in {each.field}: public, the account's own, or shared with it",
            )
            continue
        yield from _unfit(each, name, found)


def _described(cloud: Cloud, image: str) -> dict[str, Any] | None:
    number = image
    if image.startswith(_BY_PARAMETER):
        parameter = cloud.call("ssm", "get_parameter", Name=image.removeprefix(_BY_PARAMETER))
        number = parameter["Parameter"]["Value"]
    found = cloud.call("ec2", "describe_images", ImageIds=[number])["Images"]
    return found[0] if found else None


def _unfit(wanted: _Wanted, name: str, found: dict[str, Any]) -> Iterator[Finding]:
    number = str(found.get("ImageId", name))
    image = f"image {number}" if name == number else f"image {number} ({name})"
    if found.get("State", "available") != "available":
        yield Finding(
            "error",
            "image-not-available",
            f"{image} is {found['State']}",
            f"name another one in {wanted.field}, or wait until it is available",
        )
    if found.get("Architecture") != wanted.architecture:
        yield Finding(
            "error",
            "image-of-another-architecture",
            f"{image} is for {found.get('Architecture')}, and {wanted.instance} is {wanted.architecture}",
            f"name an image for {wanted.architecture} in {wanted.field}, or choose another type",
        )
    root = found.get("RootDeviceName")
    if root != ROOT_DEVICE:
        yield Finding(
            "error",
            "image-with-another-root-device",
            f"{image} starts from {root}, and Gridwright gives it a volume at {ROOT_DEVICE}: "
            "the machine would have two, and its root without its size and encryption",
            f"name an image of Ubuntu, Red Hat or Rocky Linux in {wanted.field}",
        )
