"""Images that machines start from, pinned: what a name stood for at first, till the spec changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gridwright.catalog import load_catalog
from gridwright.errors import environment_error
from gridwright.providers.aws import deployed_spec
from gridwright.providers.aws.launching import BY_NAME, image_of, image_parameter
from gridwright.providers.aws.layout import AwsLayout
from gridwright.providers.aws.names import grid_stack
from gridwright.providers.aws.session import Cloud, CloudError
from gridwright.providers.aws.stacks import Stacks
from gridwright.spec.model import GridSpec

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
    before = deployed_spec.deployed_values(old)
    return before is None or _value(before, field) == _value(deployed_spec.values(spec), field)


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
