"""Whether the images of a grid are there, and fit its machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gridwright.catalog import Catalog
from gridwright.errors import Finding
from gridwright.providers.aws.distribution import distribution_of_nodes, root_device
from gridwright.providers.aws.launching import image_of
from gridwright.providers.aws.layout import AwsLayout
from gridwright.providers.aws.names import DISTRIBUTION_TAG
from gridwright.providers.aws.section import Aws
from gridwright.providers.aws.session import Cloud, CloudError
from gridwright.setup.distributions import Distribution, distributions, of_image

_BY_PARAMETER = "resolve:ssm:"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An image, and the machines that start from it."""

    image: str
    field: str
    instance: str
    architecture: str
    root: str
    """The device that it is to start from."""

    @property
    def is_of_nodes(self) -> bool:
        """Whether nodes start from it, rather than servers of Lustre."""
        return self.field == "aws.images.compute"


def images(layout: AwsLayout, catalog: Catalog) -> list[_Wanted]:
    """Each image of the grid with the first type of each architecture that starts from it."""
    found: dict[tuple[str, str], _Wanted] = {}
    for machine in layout.machines:
        kind = catalog.instance(machine.instance, "aws")
        storage = machine.role.serves_lustre
        named = image_of(layout.aws.images.storage if storage else layout.aws.images.compute, kind)
        field = f"aws.images.{'storage' if storage else 'compute'}"
        root = root_device(layout.aws, serves_lustre=storage)
        found.setdefault(
            (named, kind.architecture), _Wanted(named, field, machine.instance, kind.architecture, root)
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
        if each.is_of_nodes:
            yield from _of_another_distribution(layout.aws, name, found)


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
    if root != wanted.root:
        known = looked_up(found) if wanted.is_of_nodes else None
        remedy = f"name an image of Ubuntu, Red Hat or Rocky Linux in {wanted.field}"
        if known is not None and known.in_cloud:
            remedy = f"write distribution: {known.name} in aws.images"
        yield Finding(
            "error",
            "image-with-another-root-device",
            f"{image} starts from {root}, and Gridwright gives it a volume at {wanted.root}: "
            "the machine would have two, and its root without its size and encryption",
            remedy,
        )


def looked_up(image: dict[str, Any]) -> Distribution | None:
    """The distribution of an image as EC2 describes it: by the tag that a build of ours left, or its name."""
    tags = {each["Key"]: each["Value"] for each in image.get("Tags", ())}
    named = tags.get(DISTRIBUTION_TAG)
    tagged = [each for each in distributions() if each.name == named]
    return tagged[0] if tagged else of_image(str(image.get("Name", "")), str(image.get("OwnerId", "")))


def _of_another_distribution(aws: Aws, name: str, found: dict[str, Any]) -> Iterator[Finding]:
    """Whether the image has the distribution that the grid is made for."""
    known, said = looked_up(found), distribution_of_nodes(aws)
    remedy = f"write distribution: {known.name} in aws.images" if known is not None else ""
    if known is not None and not known.in_cloud:
        fit = ", ".join(each.title for each in distributions() if each.in_cloud)
        yield Finding(
            "error",
            "image-not-supported",
            f"image {name} has {known.title}: {known.reason}",
            f"choose an image of {fit}",
        )
    elif known is not None and said is not None and known != said:
        text = f"image {name} has {known.title}, and the grid would be made for {said.title}"
        yield Finding("error", "image-of-another-distribution", text, remedy)
    elif said is None:
        text = f"image {name} has {known.title}" if known else f"nothing tells what image {name} has"
        yield Finding(
            "warning",
            "distribution-not-said",
            f"{text}, and the spec does not say it: nobody knows who logs in with the key pair",
            remedy or "write distribution in aws.images, such as rocky-9; gridwright help setup lists them",
        )
