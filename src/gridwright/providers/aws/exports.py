"""Outputs of the storage stack that the grid stack reads."""

from __future__ import annotations

from troposphere import Export, Output

from gridwright.providers.aws.names import storage_stack
from gridwright.spec.model import GridSpec


def exported(spec: GridSpec, name: str, value: object, description: str) -> Output:
    """An output under the name that `Fn::ImportValue` asks for: STACK-NAME.

    While the grid stack imports it, AWS itself refuses to delete the storage stack.
    """
    return Output(name, Description=description, Value=value, Export=Export(f"{storage_stack(spec)}-{name}"))
