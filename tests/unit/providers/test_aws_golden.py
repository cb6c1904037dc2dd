"""What `render` writes for the grids on AWS among the examples, held against tests/golden/aws.

A change there is read as a diff. To take what is written now for right:

    pytest tests/unit/providers/test_aws_golden.py --snapshot-update

Left out is what is the same for all grids (the playbook's own files, the boot program) and what follows from
the rest (the bundles and their keys).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gridwright.providers.aws.files import aws_files
from gridwright.spec import load_spec

REPOSITORY = Path(__file__).parents[3]
GOLDEN = REPOSITORY / "tests" / "golden" / "aws"
EXAMPLES = {
    "aws-fsx": REPOSITORY / "examples" / "aws-fsx.yaml",
    "aws-lustre": REPOSITORY / "examples" / "aws-lustre.yaml",
}
SAME_EVERYWHERE = (
    *(
        "roles/",
        "filter_plugins/",
        "tuned_values.py",
        "tuning.yaml",
        "distributions.yaml",
        "site.yml",
        "ansible.cfg",
    ),
    *("claims/claim.pyz", "slurm/health.pyz"),
)
DERIVED = "bundle-"
BLESS = "pytest tests/unit/providers/test_aws_golden.py --snapshot-update"


def written(files: Mapping[str, str | bytes]) -> dict[str, str]:
    """What of the files is held in the golden directories."""
    found = {}
    for name, content in files.items():
        if name.startswith((*SAME_EVERYWHERE, DERIVED)):
            continue
        assert isinstance(content, str), name
        found[name] = re.sub(
            r'(cat > "\$root/var/lib/gridwright/fetch\.py"\).*?\n)(.*?)(\n *END-OF-FILE\n)',
            r"\1(the boot program)\3",
            content,
            flags=re.DOTALL,
        )
    return found


@pytest.mark.parametrize("example", EXAMPLES)
def test_files_are_those_that_were_reviewed(example: str, pytestconfig: pytest.Config) -> None:
    files = written(aws_files(load_spec(EXAMPLES[example]))[0])
    directory = GOLDEN / example
    if pytestconfig.getoption("--snapshot-update"):
        shutil.rmtree(directory, ignore_errors=True)
        for name, text in files.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text)
    there = {
        path.relative_to(directory).as_posix(): path.read_text()
        for path in directory.rglob("*")
        if path.is_file()
    }
    assert set(files) == set(there), f"other files than those of {directory}; if that is right: {BLESS}"
    different = [name for name in files if files[name] != there[name]]
    for name in different:
        assert files[name] == there[name], f"{name} differs from {directory}; if that is right: {BLESS}"


def test_the_same_bytes_come_out_whatever_order_sets_have() -> None:
    program = (
        "import hashlib, pathlib, sys\n"
        "from gridwright.providers.aws.files import aws_files\n"
        "from gridwright.spec import load_spec\n"
        "files = aws_files(load_spec(pathlib.Path(sys.argv[1])))[0]\n"
        "for name, each in files.items():\n"
        "    content = each.encode() if isinstance(each, str) else each\n"
        "    print(name, hashlib.sha256(content).hexdigest())\n"
    )
    seen = set()
    for seed in ("1", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", program, str(EXAMPLES["aws-lustre"])],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        seen.add(done.stdout)
    assert len(seen) == 1
    assert "bundle-servers.tar.gz" in seen.pop()
