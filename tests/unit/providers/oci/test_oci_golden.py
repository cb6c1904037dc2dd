"""The Terraform roots and the bill that `render` writes for an example, held against tests/golden/oci.

A change there is read as a diff. To take what is written now for right:

    pytest tests/unit/providers/oci/test_oci_golden.py --snapshot-update

Digests of bundles are left out: they follow from the playbook's own files, which have tests of their own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gridwright.providers.oci.files import oci_files
from gridwright.spec.load import load_spec

REPOSITORY = Path(__file__).parents[4]
GOLDEN = REPOSITORY / "tests" / "golden" / "oci" / "paper-003"
EXAMPLE = REPOSITORY / "examples" / "papers" / "003-spectrum-scale.yaml"
HELD = ("storage/main.tf.json", "grid/main.tf.json", "costs.json", "README.md")
BLESS = "pytest tests/unit/providers/oci/test_oci_golden.py --snapshot-update"
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


def test_files_are_those_that_were_reviewed(pytestconfig: pytest.Config) -> None:
    files = oci_files(load_spec(EXAMPLE))[0]
    held = {name: _DIGEST.sub("(digest)", str(files[name])) for name in HELD}
    if pytestconfig.getoption("--snapshot-update"):
        for name, text in held.items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_text(text)
    for name, text in held.items():
        assert text == (GOLDEN / name).read_text(), f"{name} differs from {GOLDEN}; if that is right: {BLESS}"
