"""Fetches Oracle's public price list, which needs no account, and picks what the catalogue has prices of."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from gridwright.catalog.tables import rows
from gridwright.errors import environment_error

ADDRESS = "https://apexapps.oracle.com/pls/apex/cetools/api/v1/products/?currencyCode=USD"
"""Oracle's list as JSON: what its page of prices is made from."""
TIMEOUT_S = 30.0
ATTEMPTS = 4
LARGEST_BYTES = 64 << 20
PART_COLUMNS = ("item", "component", "part", "units", "source", "date")
_PAY_AS_YOU_GO = "PAY_AS_YOU_GO"

Fetch = Callable[[], bytes]


class _Price(BaseModel):
    model: str = ""
    value: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    beyond: float | None = Field(default=None, alias="rangeMin")


class _Localization(BaseModel):
    currency: str = Field(default="USD", alias="currencyCode")
    prices: Sequence[_Price] = ()


class _Item(BaseModel):
    part: str = Field(alias="partNumber")
    localizations: Sequence[_Localization] = Field(default=(), alias="currencyCodeLocalizations")

    def usd(self) -> float | None:
        """The price on demand; of several by amount, the one beyond what is free or cheaper at first."""
        found = [
            (price.beyond or 0.0, price.value)
            for localization in self.localizations
            if localization.currency == "USD"
            for price in localization.prices
            if price.model == _PAY_AS_YOU_GO and price.value is not None
        ]
        return max(found)[1] if found else None


class _List(BaseModel):
    items: Sequence[object]


def fetch() -> bytes:
    """The list as Oracle sends it. Raises GridwrightError (ENVIRONMENT) where it cannot be had."""
    try:
        return _fetched()
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise environment_error(
            f"Oracle's price list cannot be had: {error}",
            where=ADDRESS,
            remedy="look at the network and the proxy settings (HTTPS_PROXY), and try again",
        ) from error


@retry(
    retry=retry_if_exception_type(OSError),
    stop=stop_after_attempt(ATTEMPTS),
    wait=wait_exponential(max=8),
    reraise=True,
)
def _fetched() -> bytes:
    request = urllib.request.Request(ADDRESS, headers={"Accept": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - an address of our own
        content: bytes = answer.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise ValueError(f"it has over {LARGEST_BYTES >> 20} MiB, and such a list has one or two")
    return content


def oracle_prices(content: bytes) -> tuple[Mapping[tuple[str, str], float], Mapping[str, str]]:
    """USD by item and component of the catalogue, and why parts of the list that it needs were not read.

    Raises GridwrightError (ENVIRONMENT) for what is no list at all.
    """
    try:
        listed = _List.model_validate_json(content)
    except ValidationError as error:
        raise environment_error(
            f"what Oracle sent is no price list: {content[:60]!r}",
            where=ADDRESS,
            remedy="open the address in a browser: a proxy may have answered in its place",
        ) from error
    required = {part for _, _, part, *_ in rows("oci-parts.csv", PART_COLUMNS)}
    prices: dict[str, float] = {}
    unread: dict[str, str] = {}
    for item in _items(listed, required, unread):
        usd = item.usd()
        if usd is None:
            unread[item.part] = "it has no price on demand in USD"
        else:
            prices[item.part] = usd
    found = {}
    for name, component, part, units, *_ in rows("oci-parts.csv", PART_COLUMNS):
        if part in prices:
            found[name, component] = prices[part] / float(units)
        else:
            unread.setdefault(part, "the list does not have it")
    return found, unread


def _items(listed: _List, required: set[str], unread: dict[str, str]) -> Iterator[_Item]:
    for item in listed.items:
        part = item.get("partNumber") if isinstance(item, Mapping) else None
        if not isinstance(part, str) or part not in required:
            continue
        try:
            yield _Item.model_validate(item)
        except ValidationError as error:
            unread[part] = error.errors(include_url=False, include_input=False)[0]["msg"]
