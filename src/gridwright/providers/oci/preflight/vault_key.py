"""The vault's key that volumes, file systems and the bucket are encrypted with: there, enabled, and fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gridwright.errors import Finding
from gridwright.providers.oci.session import OciCloud

SYMMETRIC = "AES"
"""Of keys that other services encrypt with; RSA and ECDSA are for signatures (OCI, Vault, keys)."""
_OTHER = "write another key as oci.key, or leave it out: Oracle's own encrypts then"


def key_findings(cloud: OciCloud, key: str | None) -> Iterator[Finding]:
    """What is wrong with the key; nothing where the spec names none. Raises OciCallError."""
    if key is None:
        return
    region = _region(key)
    if region != cloud.region:
        yield _unfit(f"{key} is in {region}, and the grid in {cloud.region}")
        return
    found = next(iter(_searched(cloud, f"query key resources where identifier = '{key}'")), None)
    if found is None:
        yield _unseen(f"key {key}: the search of OCI shows none such", "inspect keys")
        return
    state = (found.lifecycle_state or "").upper()
    if state != "ENABLED":
        yield _unfit(f"{found.display_name} is {state.lower().replace('_', ' ') or 'of no known state'}")
    endpoint = _endpoint(cloud, key)
    if endpoint is None:
        yield _unseen(f"the algorithm of key {found.display_name}: its vault is not shown", "inspect vaults")
        return
    whole = cloud.at(endpoint).call("key_management", "KmsManagementClient", "get_key", key)
    if whole.key_shape.algorithm != SYMMETRIC:
        yield _unfit(
            f"{found.display_name} is a key for {whole.key_shape.algorithm}, and not for {SYMMETRIC}"
        )


def _region(ocid: str) -> str:
    """The region in an OCID, by its whole name: older ones have a code of three letters there."""
    from oci.regions import REGIONS_SHORT_NAMES

    named = ocid.split(".")[3]
    return str(REGIONS_SHORT_NAMES.get(named, named))


def _endpoint(cloud: OciCloud, key: str) -> str | None:
    """Where the key's vault is asked for its keys; key and vault have one part of their OCIDs in common."""
    mark = key.split(".")[4]
    for each in _searched(cloud, "query vault resources"):
        if mark in each.identifier.split("."):
            vault = cloud.found("key_management", "KmsVaultClient", "get_vault", each.identifier)
            return None if vault is None else str(vault.management_endpoint)
    return None


def _searched(cloud: OciCloud, query: str) -> list[Any]:
    from oci.resource_search import models

    details = models.StructuredSearchDetails(query=query)
    return cloud.listed("resource_search", "ResourceSearchClient", "search_resources", details)


def _unfit(text: str) -> Finding:
    return Finding("error", "key-unfit", f"oci.key: {text}", _OTHER)


def _unseen(text: str, right: str) -> Finding:
    return Finding("info", "not-looked-at", text, f"have a policy let you {right}; without it, up finds out")
