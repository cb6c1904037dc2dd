"""What Resource Manager gets of a root: one zip with the same bytes for the same files."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Callable, Mapping

from gridwright.providers.oci.terraform.root import LOCK_FILE

OLDEST = (1980, 1, 1, 0, 0, 0)
"""The first time that the format knows: times of files would make bytes differ."""
OUTPUTS_FILE = "storage.auto.tfvars.json"
"""Terraform reads it by its name. Variables of a stack are texts alone, and volumes are a map."""


def root_files(files: Mapping[str, str | bytes], part: str) -> dict[str, bytes]:
    """Files of one root by their path in it."""
    return {
        path.removeprefix(f"{part}/"): text.encode() if isinstance(text, str) else text
        for path, text in files.items()
        if path.startswith(f"{part}/")
    }


def with_outputs(files: Mapping[str, bytes], outputs: Mapping[str, object]) -> dict[str, bytes]:
    """The root `grid` with what the root `storage` told."""
    text = json.dumps(dict(sorted(outputs.items())), indent=2, sort_keys=True) + "\n"
    return {**files, OUTPUTS_FILE: text.encode()}


def stack_archive(files: Mapping[str, bytes]) -> str:
    """The zip, as base64.

    The lock file is left out: Resource Manager keeps one of its own for each stack, by the release that the
    root names (OCI, release notes of Resource Manager, dependency lock files).
    """
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(set(files) - {LOCK_FILE}):
            entry = zipfile.ZipInfo(path, OLDEST)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[path])
    return base64.b64encode(made.getvalue()).decode("ascii")


def unprotected(
    files: Mapping[str, bytes], main: str, is_wanted: Callable[[str], bool] = lambda _name: True
) -> dict[str, bytes]:
    """The root without prevent_destroy of wanted resources, by logical names: the user has asked for it."""
    root = json.loads(files[main])
    for kind in root.get("resource", {}).values():
        for name, resource in kind.items():
            if is_wanted(name):
                resource.get("lifecycle", {}).pop("prevent_destroy", None)
    return {**files, main: (json.dumps(root, indent=2) + "\n").encode()}
