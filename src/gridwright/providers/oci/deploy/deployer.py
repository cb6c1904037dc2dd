"""What carries out a Terraform root and keeps its state: Resource Manager and a local tool are alike here."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from gridwright.providers.caller import Caller


class DeployedStack(Protocol):
    """A root that was handed over, with its state."""

    @property
    def display_name(self) -> str:
        """gridwright-GRID-PART."""


class Deployer(Protocol):
    """Carries out roots. Every method raises GridwrightError (ENVIRONMENT) with the tool's own words.

    An order to stop raises KeyboardInterrupt once nothing is lost by it: what was begun is in the state.
    """

    @property
    def caller(self) -> Caller:
        """Who is told of progress, and asks to stop."""

    @property
    def where(self) -> str:
        """Where states are kept, as errors name it."""

    def held(self) -> AbstractContextManager[None]:
        """Keep others from changing the same grid by the same states meanwhile."""

    def find(self, name: str) -> Any:  # noqa: ANN401 - the SDK has no types
        """The stack of a name; None where there is none."""

    def put(
        self,
        stack: Any,  # noqa: ANN401
        name: str,
        files: Mapping[str, bytes],
        tags: Mapping[str, str],
        variables: Mapping[str, str],
    ) -> Any:  # noqa: ANN401
        """Make the stack (where `stack` is None), or give it these files; nothing of it runs yet."""

    def plan(self, stack: Any) -> tuple[Any, dict[str, Any]]:  # noqa: ANN401
        """A plan that can be applied, and what it would do (Terraform, JSON output format)."""

    def apply(self, stack: Any, plan: Any) -> None:  # noqa: ANN401
        """Carry out that very plan."""

    def destroy(self, stack: Any) -> None:  # noqa: ANN401
        """Remove all that the stack has made, then the stack."""

    def state(self, stack: Any) -> dict[str, Any]:  # noqa: ANN401
        """Terraform's state of the stack; empty before its first apply."""

    def drift(self, stack: Any) -> tuple[tuple[str, str], ...]:  # noqa: ANN401
        """Address of each resource that is not as the state has it, and how: `changed` or `gone`."""


def outputs(state: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs of a state with their values, of whatever type."""
    return {name: each["value"] for name, each in state.get("outputs", {}).items()}


def managed(state: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Resources that a state knows to be there; what is only read is none of them."""
    return [
        each for each in state.get("resources", ()) if each.get("mode") == "managed" and each.get("instances")
    ]
