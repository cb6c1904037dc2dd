"""The commented grid spec that `gridwright init` writes; one template file for each provider."""

from __future__ import annotations

from importlib import resources

from gridwright.errors import input_error
from gridwright.spec.model import PROVIDERS
from gridwright.yamltext.fields import FieldError


def init_text(provider: str = "local") -> str:
    """A commented grid spec for a provider, which `check` accepts.

    Raises GridwrightError (status INPUT) for a provider that is unknown or not in this release.
    """
    try:
        PROVIDERS.get(provider)
    except FieldError as error:
        raise input_error(
            error.text, where="--provider", remedy=error.remedy[:1].upper() + error.remedy[1:]
        ) from None
    return resources.files("gridwright.spec").joinpath(f"data/init-{provider}.yaml").read_text("utf-8")
