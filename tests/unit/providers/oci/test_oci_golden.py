"""The Terraform roots and the bill that `render` writes for examples, held against tests/golden/oci.

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
GOLDEN = REPOSITORY / "tests" / "golden" / "oci"
ROOTS = ("storage/main.tf.json", "grid/main.tf.json", "costs.json", "README.md")
EXAMPLES = {
    "paper-003": (REPOSITORY / "examples" / "papers" / "003-spectrum-scale.yaml", ROOTS),
    # What servers are told of their targets is in the variables of the playbook.
    "oci-lustre": (REPOSITORY / "examples" / "oci-lustre.yaml", (*ROOTS, "group_vars/all.yml")),
}
BLESS = "pytest tests/unit/providers/oci/test_oci_golden.py --snapshot-update"
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


@pytest.mark.parametrize("example", EXAMPLES)
def test_files_are_those_that_were_reviewed(example: str, pytestconfig: pytest.Config) -> None:
    spec, names = EXAMPLES[example]
    files, golden = oci_files(load_spec(spec))[0], GOLDEN / example
    held = {name: _DIGEST.sub("(digest)", str(files[name])) for name in names}
    if pytestconfig.getoption("--snapshot-update"):
        for name, text in held.items():
            (golden / name).parent.mkdir(parents=True, exist_ok=True)
            (golden / name).write_text(text)
    for name, text in held.items():
        assert text == (golden / name).read_text(), f"{name} differs from {golden}; if that is right: {BLESS}"
