"""Whether the images of a grid are there, and fit its machines."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gridwright.catalog import Catalog, load_catalog
from gridwright.errors import ExitStatus, Finding, GridwrightError, Problem
from gridwright.providers.aws.kept_images import RENEW
from gridwright.providers.aws.launching import BY_NAME, ROOT_DEVICE, image_of, image_parameter
from gridwright.providers.aws.layout import AwsLayout
from gridwright.providers.aws.session import DENIED, Cloud, CloudError
from gridwright.providers.aws.stacks import Stacks
from gridwright.spec.model import GridSpec

_NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An image, and the machines that start from it."""

    image: str
    name: str
    """As the spec names it: an ID, or the SSM parameter that has it."""
    field: str
    instance: str
    architecture: str
    is_fixed: bool
    """Whether no group replaces these machines, so that they keep it."""

    @property
    def renewal(self) -> str:
        """How its machines come to what its name stands for today."""
        if self.is_fixed:
            return f"gridwright down, then gridwright up, makes the grid with what {self.name} is today"
        return f"{RENEW} replaces the machines with what {self.name} is today"

    @property
    def is_kept(self) -> bool:
        """Whether it is not what the spec names, but what that stood for when machines were made."""
        return self.name not in (self.image, self.image.removeprefix(BY_NAME))


def images(
    layout: AwsLayout, catalog: Catalog, parameters: Mapping[str, str] = _NO_PARAMETERS
) -> list[_Wanted]:
    """Each image of the grid with the first type of each architecture that starts from it.

    `parameters` are those of a grid stack that is there, or is to be, which keep images.
    """
    found: dict[tuple[str, str, bool], _Wanted] = {}
    for machine in layout.machines:
        kind = catalog.instance(machine.instance, "aws")
        storage = machine.role.serves_lustre
        named = image_of(layout.aws.images.storage if storage else layout.aws.images.compute, kind)
        image = parameters.get(image_parameter(machine, kind), named) if _is_name(named) else named
        field = f"aws.images.{'storage' if storage else 'compute'}"
        name, is_fixed = named.removeprefix(BY_NAME), image != named and not machine.replaced
        wanted = _Wanted(image, name, field, machine.instance, kind.architecture, is_fixed)
        found.setdefault((image, kind.architecture, is_fixed), wanted)
    return list(found.values())


def _is_name(image: str) -> bool:
    return image.startswith(BY_NAME)


def image_findings(
    cloud: Cloud, layout: AwsLayout, catalog: Catalog, parameters: Mapping[str, str] = _NO_PARAMETERS
) -> Iterator[Finding]:
    """What is wrong with them. Raises CloudError for what is not about one image."""
    for each in images(layout, catalog, parameters):
        yield from _findings(cloud, each)


def _findings(cloud: Cloud, each: _Wanted) -> Iterator[Finding]:
    try:
        found = _described(cloud, each.image)
    except CloudError as error:
        if not error.code.startswith(("InvalidAMI", "ParameterNotFound")):
            raise
        found = None
    if found is None and each.is_kept:
        yield Finding(
            "error",
            "image-gone",
            f"image {each.image} of {each.field}, which the grid keeps, is gone: machines run, and one "
            "that dies, is started again or is added is not replaced",
            each.renewal,
        )
    elif found is None:
        yield Finding(
            "error",
            "image-unknown",
            f"the account sees no image {each.name} in {cloud.region}",
            f"name one of this region in {each.field}: public, the account's own, or shared with it",
        )
    else:
        yield from _unfit(each, found)


def refuse_unfit_images(
    stacks: Stacks,
    spec: GridSpec,
    layout: AwsLayout,
    parameters: Mapping[str, str],
    deployed: Mapping[str, str],
) -> None:
    """Say what is wrong with the images of a grid that is up, as far as it may be looked at.

    `parameters` are those that its stack is to have, `deployed` those that it has. Raises GridwrightError
    (ENVIRONMENT) with what is wrong with images that machines have not started from before.
    """
    catalog = load_catalog(spec.file.parent if spec.file else None)
    new = {value for name, value in parameters.items() if deployed.get(name) != value}
    problems = []
    for each in images(layout, catalog, parameters):
        try:
            found = list(_findings(stacks.cloud, each))
        except CloudError as error:
            if error.code not in DENIED:
                raise
            continue
        for one in found:
            if one.level == "error" and each.image in new:
                problems.append(Problem(f"{one.name}: {one.text}", remedy=one.remedy))
            else:
                stacks.caller.say(f"{one.level} {one.name}: {one.text}; {one.remedy}")
    if problems:
        raise GridwrightError(*problems, status=ExitStatus.ENVIRONMENT)


def _described(cloud: Cloud, image: str) -> dict[str, Any] | None:
    number = image
    if _is_name(image):
        parameter = cloud.call("ssm", "get_parameter", Name=image.removeprefix(BY_NAME))
        number = parameter["Parameter"]["Value"]
    found = cloud.call("ec2", "describe_images", ImageIds=[number], IncludeDeprecated=True)["Images"]
    return found[0] if found else None


def _unfit(wanted: _Wanted, found: dict[str, Any]) -> Iterator[Finding]:
    name = wanted.name
    number = str(found.get("ImageId", name))
    image = f"image {number}" if name == number else f"image {number} ({name})"
    until = str(found.get("DeprecationTime") or "")
    if until and datetime.datetime.fromisoformat(until) < datetime.datetime.now(datetime.UTC):
        yield Finding(
            "warning",
            "image-deprecated",
            f"{image} is deprecated since {until[:10]}: no machine starts any more once its owner removes it",
            wanted.renewal if wanted.is_kept else f"name a newer one in {wanted.field}",
        )
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
