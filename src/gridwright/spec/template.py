"""The commented grid spec that `gridwright init` writes; each provider brings its own."""

from __future__ import annotations

from gridwright.errors import input_error
from gridwright.spec.provider import PROVIDERS
from gridwright.yamltext.fields import FieldError


def init_text(provider: str = "local") -> str:
    """A commented grid spec for a provider, which `check` accepts.

    Raises GridwrightError (status INPUT) for a provider that is unknown.
    """
    try:
        return PROVIDERS.get(provider).template()
    except FieldError as error:
        raise input_error(
            error.text, where="--provider", remedy=error.remedy[:1].upper() + error.remedy[1:]
        ) from None
