"""File systems in a grid spec: one model for each kind, entered in FILESYSTEMS under its `type`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import CoreSchema, InitErrorDetails

from gridwright.spec.fields import Change, Directory, FieldError, SpecModel, Update
from gridwright.spec.registry import Registry


class FileSystem(SpecModel):
    """What every kind of file system has; a kind narrows `type` and adds its own fields."""

    type: Annotated[
        str, Update(Change.REBUILD, "another kind of file system is a new one; its data are copied")
    ] = Field(description="The kind of file system, such as local.")
    path: Annotated[
        Directory,
        Update(Change.REBUILD, "libraries are looked for at the new place; data stay at the old one"),
    ] = Field(
        description="The directory under which nodes see it. "
        "A relative path starts at the directory of the grid spec."
    )


FILESYSTEMS: Registry[type[FileSystem]] = Registry(
    "file system type", planned=("lustre", "fsx-lustre", "scale", "nfs")
)
"""Every kind of file system that a spec can name."""


@FILESYSTEMS.register("local")
class LocalFileSystem(FileSystem):
    """A directory on disks of the node itself."""

    type: Annotated[
        Literal["local"],
        Update(Change.REBUILD, "another kind of file system is a new one; its data are copied"),
    ] = Field(description="The kind of file system: local is a directory on disks of the node itself.")


def _of_its_kind(value: object, info: ValidationInfo) -> object:
    """Hand a mapping to the model that its `type` names."""
    if not isinstance(value, Mapping) or "type" not in value:
        return value
    try:
        kind = FILESYSTEMS.get(value["type"])
    except FieldError as error:
        detail = InitErrorDetails(
            type="value_error", loc=("type",), input=value["type"], ctx={"error": error}
        )
        raise ValidationError.from_exception_data("type", [detail]) from None
    return kind.model_validate(value, context=info.context)


class _AnyKind:
    """JSON Schema of a file system: one of the registered kinds."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"oneOf": [handler(kind.__pydantic_core_schema__) for kind in FILESYSTEMS.kinds()]}


AnyFileSystem = Annotated[SerializeAsAny[FileSystem], BeforeValidator(_of_its_kind), _AnyKind()]
"""A file system of any registered kind."""
