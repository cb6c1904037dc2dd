"""Images of machines: what names of images stand for, which a grid keeps, and whether they fit."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gridwright.catalog import Catalog, load_catalog
from gridwright.errors import ExitStatus, Finding, GridwrightError, Problem, environment_error
from gridwright.providers.aws import changes
from gridwright.providers.aws.launching import BY_NAME, image_of, image_parameter
from gridwright.providers.aws.layout import AwsLayout, distribution_of_nodes, root_device
from gridwright.providers.aws.names import DISTRIBUTION_TAG, grid_stack
from gridwright.providers.aws.section import Aws
from gridwright.providers.aws.session import DENIED, Cloud, CloudError
from gridwright.providers.aws.stacks import Stacks, tags_of
from gridwright.setup.distributions import Distribution, distributions, of_image
from gridwright.spec.model import GridSpec

# Images that machines start from, pinned: what a name stood for at first, till the spec changes.

_TEMPLATE = "AWS::EC2::LaunchTemplate"
_ABSENT = "ParameterNotFound"
RENEW = "gridwright up --new-images"


@dataclass(frozen=True, slots=True)
class GridImage:
    """An image that the spec knows by the name of an SSM parameter, by default Canonical's."""

    parameter: str
    """Of the grid stack, which keeps the image."""
    field: str
    """Of the spec: aws.images.compute."""
    name: str
    """Of the SSM parameter."""
    image: str | None = None
    """What machines start from; None where EC2 looks the name up for each machine."""
    newest: str | None = None
    """What the name stands for by now; None where that is not known."""

    @property
    def value(self) -> str:
        """Of the grid stack's parameter."""
        return self.image or f"{BY_NAME}{self.name}"

    @property
    def text(self) -> str:
        """In a sentence."""
        if self.image is None:
            return (
                f"{self.field}: not kept: each machine that is made starts from what {self.name} is by then; "
                f"{RENEW} keeps {self.newest or 'what it is now'}, and replaces the machines with it"
            )
        kept = f"{self.field}: {self.image} is kept"
        if self.newest in (None, self.image):
            return f"{kept}, from {self.name}"
        return f"{kept}; {self.name} is {self.newest} by now: {RENEW} replaces the machines with that"


def named_images(spec: GridSpec, layout: AwsLayout) -> tuple[GridImage, ...]:
    """Images of a grid that are known by a name, each once; an ID in the spec is no name."""
    catalog = load_catalog(spec.file.parent if spec.file else None)
    found: dict[str, GridImage] = {}
    for machine in layout.machines:
        kind = catalog.instance(machine.instance, "aws")
        storage = machine.role.serves_files
        images = layout.aws.images
        named = image_of(images.storage if storage else images.compute, kind)
        if named.startswith(BY_NAME):
            title = image_parameter(machine.role, kind)
            field = f"aws.images.{'storage' if storage else 'compute'}"
            found.setdefault(title, GridImage(title, field, named.removeprefix(BY_NAME)))
    return tuple(found.values())


def deployed_images(
    cloud: Cloud, spec: GridSpec, layout: AwsLayout, parameters: Mapping[str, str]
) -> tuple[GridImage, ...]:
    """Images of a grid as its stack has them, with what their names stand for by now."""
    return tuple(
        GridImage(
            each.parameter, each.field, each.name, _pinned_image(parameters, each), _newest(cloud, each.name)
        )
        for each in named_images(spec, layout)
    )


def images_to_keep(stacks: Stacks, spec: GridSpec, layout: AwsLayout) -> dict[str, str]:
    """Those of a grid that is up which the next `up` keeps, by parameter. Raises GridwrightError."""
    grid = stacks.find(grid_stack(spec))
    if grid is None:
        return {}
    old = stacks.template(grid)
    images = (each for each in named_images(spec, layout) if _is_named_alike(old, spec, each.field))
    pinned = ((each.parameter, _pinned_image(grid.parameters, each)) for each in images)
    return {parameter: image for parameter, image in pinned if image is not None}


def chosen_images(
    cloud: Cloud,
    spec: GridSpec,
    layout: AwsLayout,
    parameters: Mapping[str, str],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    renew: bool,
) -> tuple[GridImage, ...]:
    """Images that a grid is to have: those that it has, where the spec names what it named, else today's.

    `parameters` and `old` are those of the grid stack and its template, empty where there is none, and `new`
    is its template to be. A stack by whose template EC2 looks names up for each machine stays so where
    machines would be replaced for the image alone. Raises GridwrightError where a name stands for nothing.
    """
    found = []
    for each in named_images(spec, layout):
        same = not renew and _is_named_alike(old, spec, each.field)
        image = _pinned_image(parameters, each) if same else None
        newest = _newest(cloud, each.name)
        if image is None and not (same and _replaced_for_it_alone(each.parameter, old, new)):
            image = newest or _today(cloud, each)
        found.append(GridImage(each.parameter, each.field, each.name, image, newest))
    return tuple(found)


def _pinned_image(parameters: Mapping[str, str], image: GridImage) -> str | None:
    value = parameters.get(image.parameter, "")
    return value if value.startswith("ami-") else None


def _is_named_alike(old: Mapping[str, Any], spec: GridSpec, field: str) -> bool:
    """Whether a spec says what the one in a template says; one that cannot be read changes no image."""
    before = changes.deployed_values(old)
    return before is None or _value(before, field) == _value(changes.values(spec), field)


def _value(values: object, field: str) -> object:
    for part in field.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def _replaced_for_it_alone(parameter: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether an image would change a launch template that stays as it is otherwise."""
    before = dict(_launch_data(old))
    return any(
        name in before and _without_image(before[name]) == _without_image(data)
        for name, data in _launch_data(new)
        if data.get("ImageId") == {"Ref": parameter}
    )


def _launch_data(template: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, each in template.get("Resources", {}).items():
        if each.get("Type") == _TEMPLATE:
            yield name, each["Properties"]["LaunchTemplateData"]


def _without_image(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != "ImageId"}


def _newest(cloud: Cloud, name: str) -> str | None:
    """What a name stands for by now; None where AWS does not say."""
    try:
        return _looked_up(cloud, name)
    except CloudError:
        return None


def _today(cloud: Cloud, image: GridImage) -> str:
    try:
        return _looked_up(cloud, image.name)
    except CloudError as error:
        if error.code != _ABSENT:
            raise
        raise environment_error(
            f"{image.name} in {cloud.region} names no image",
            where=image.field,
            remedy=f"write another name, or the ID of an image, in {image.field}",
        ) from error


def _looked_up(cloud: Cloud, name: str) -> str:
    return str(cloud.call("ssm", "get_parameter", Name=name)["Parameter"]["Value"])


# Whether the images of a grid are there, and fit its machines.

_NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _RequiredImage:
    """An image, and the machines that start from it."""

    image: str
    name: str
    """As the spec names it: an ID, or the SSM parameter that has it."""
    field: str
    instance: str
    architecture: str
    root: str
    """The device that it is to start from."""

    @property
    def is_of_nodes(self) -> bool:
        """Whether nodes start from it, rather than servers of Lustre."""
        return self.field == "aws.images.compute"

    @property
    def is_pinned(self) -> bool:
        """Whether it is the image that the spec's name stood for when machines were made."""
        return self.name not in (self.image, self.image.removeprefix(BY_NAME))


def images(
    layout: AwsLayout, catalog: Catalog, parameters: Mapping[str, str] = _NO_PARAMETERS
) -> list[_RequiredImage]:
    """Each image of the grid with the first type of each architecture that starts from it.

    `parameters` are those of a grid stack that is there, or is to be, which keep images.
    """
    found: dict[tuple[str, str], _RequiredImage] = {}
    for machine in layout.machines:
        kind = catalog.instance(machine.instance, "aws")
        storage = machine.role.serves_files
        named = image_of(layout.aws.images.storage if storage else layout.aws.images.compute, kind)
        image = parameters.get(image_parameter(machine.role, kind), named) if _is_name(named) else named
        field = f"aws.images.{'storage' if storage else 'compute'}"
        root = root_device(layout.aws, serves_files=storage)
        required = _RequiredImage(
            *(image, named.removeprefix(BY_NAME), field, machine.instance), kind.architecture, root
        )
        found.setdefault((image, kind.architecture), required)
    return list(found.values())


def _is_name(image: str) -> bool:
    return image.startswith(BY_NAME)


def image_findings(
    cloud: Cloud, layout: AwsLayout, catalog: Catalog, parameters: Mapping[str, str] = _NO_PARAMETERS
) -> Iterator[Finding]:
    """What is wrong with them. Raises CloudError for what is not about one image."""
    for each in images(layout, catalog, parameters):
        try:
            found = _described(cloud, each.image)
        except CloudError as error:
            if not error.code.startswith(("InvalidAMI", "ParameterNotFound")):
                raise
            found = None
        if found is None and each.is_pinned:
            yield Finding(
                "error",
                "image-gone",
                f"image {each.image} of {each.field}, which the grid keeps, is gone: machines run, and one "
                "that dies, is started again or is added is not replaced",
                f"{RENEW} replaces the machines with what {each.name} is today",
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
            if each.is_of_nodes:
                yield from _of_another_distribution(layout.aws, each.name, found)


def refuse_unfit_images(
    stacks: Stacks, spec: GridSpec, layout: AwsLayout, parameters: Mapping[str, str], *, raising: bool
) -> None:
    """Say what is wrong with the images of a grid that is up, as far as it may be looked at.

    Raises GridwrightError (ENVIRONMENT) with all of that where machines are about to start from others.
    """
    catalog = load_catalog(spec.file.parent if spec.file else None)
    try:
        found = list(image_findings(stacks.cloud, layout, catalog, parameters))
    except CloudError as error:
        if error.code not in DENIED:
            raise
        return
    unfit = [each for each in found if each.level == "error"]
    if raising and unfit:
        problems = [Problem(f"{each.name}: {each.text}", remedy=each.remedy) for each in unfit]
        raise GridwrightError(*problems, status=ExitStatus.ENVIRONMENT)
    for each in found:
        stacks.caller.say(f"{each.level} {each.name}: {each.text}; {each.remedy}")


def _described(cloud: Cloud, image: str) -> dict[str, Any] | None:
    number = image
    if _is_name(image):
        parameter = cloud.call("ssm", "get_parameter", Name=image.removeprefix(BY_NAME))
        number = parameter["Parameter"]["Value"]
    found = cloud.call("ec2", "describe_images", ImageIds=[number], IncludeDeprecated=True)["Images"]
    return found[0] if found else None


def _unfit(required: _RequiredImage, found: dict[str, Any]) -> Iterator[Finding]:
    name = required.name
    number = str(found.get("ImageId", name))
    image = f"image {number}" if name == number else f"image {number} ({name})"
    until = str(found.get("DeprecationTime") or "")
    if until and datetime.datetime.fromisoformat(until) < datetime.datetime.now(datetime.UTC):
        yield Finding(
            "warning",
            "image-deprecated",
            f"{image} is deprecated since {until[:10]}: no machine starts any more once its owner removes it",
            f"{RENEW} takes today's" if required.is_pinned else f"name a newer one in {required.field}",
        )
    if found.get("State", "available") != "available":
        yield Finding(
            "error",
            "image-not-available",
            f"{image} is {found['State']}",
            f"name another one in {required.field}, or wait until it is available",
        )
    if found.get("Architecture") != required.architecture:
        yield Finding(
            "error",
            "image-of-another-architecture",
            f"{image} is for {found.get('Architecture')}, and {required.instance} is {required.architecture}",
            f"name an image for {required.architecture} in {required.field}, or choose another type",
        )
    root = found.get("RootDeviceName")
    if root != required.root:
        known = looked_up(found) if required.is_of_nodes else None
        remedy = f"name an image of Ubuntu, Red Hat or Rocky Linux in {required.field}"
        if known is not None and known.in_cloud:
            remedy = f"write distribution: {known.name} in aws.images"
        yield Finding(
            "error",
            "image-with-another-root-device",
            f"{image} starts from {root}, and Gridwright gives it a volume at {required.root}: "
            "the machine would have two, and its root without its size and encryption",
            remedy,
        )


def looked_up(image: dict[str, Any]) -> Distribution | None:
    """The distribution of an image as EC2 describes it: by the tag that a build of ours left, or its name."""
    named = tags_of(image).get(DISTRIBUTION_TAG)
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
