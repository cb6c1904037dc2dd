"""OpenTofu, built once as a Go module, and roots that it carries out with the stand-in of oracle/oci."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from gridwright.providers.oci.resource_manager import LOCK_FILE
from tests.support import go, oci_provider
from tests.support.cache import made_once

MODULE = Path(__file__).parent
RELEASE = "1.12.6"
_BUILD_S = 2400.0
_RUN_S = 300.0
_CONFIGURATION = """provider_installation {{
  filesystem_mirror {{
    path = "{mirror}"
  }}
}}
disable_checkpoint = true
"""


def tofu() -> Path:
    """The program; it is built where it is not: about five minutes on two cores."""
    return made_once(f"tofu-{RELEASE}", _build) / "tofu"


def _build(part: Path) -> None:
    package = "github.com/opentofu/opentofu/cmd/tofu"
    go.build(["build", "-trimpath", "-o", str(part / "tofu"), package], MODULE, _BUILD_S, CGO_ENABLED="0")


def unlocked(program: Path, place: Path) -> Path:
    """The program as one that takes the stand-in: it is no package of Oracle's, as the lock file demands."""
    place.write_text(
        "#!/bin/sh\ndirectory=.\n"
        'for word in "$@"; do\n  case $word in\n  -chdir=*) directory=${word#-chdir=} ;;\n'
        f'  init) rm -f "$directory/{LOCK_FILE}" ;;\n  esac\ndone\nexec {program} "$@"\n'
    )
    place.chmod(0o755)
    return place


class TofuError(Exception):
    """What tofu printed when it failed."""


class TofuRoots:
    """The roots `storage` and `grid` of a rendered grid, on one cloud.

    Args:
        rendered: the directory that `gridwright render` made.
        place: an empty directory, for the cloud's file, states and plans.
    """

    def __init__(self, rendered: Path, place: Path, program: Path | None = None) -> None:
        self.rendered = rendered
        self.cloud_file = place / "cloud.json"
        self.program = program or unlocked(tofu(), place / "unlocked-tofu")
        self.configuration = place / "tofu.rc"
        self.configuration.write_text(_CONFIGURATION.format(mirror=oci_provider.mirror()))

    def environment(self) -> dict[str, str]:
        """What a run of tofu needs to know."""
        return {
            **os.environ,
            "TF_CLI_CONFIG_FILE": str(self.configuration),
            "TF_IN_AUTOMATION": "1",
            "TF_INPUT": "0",
            "OCI_SCHEMA": str(oci_provider.SCHEMA),
            "OCI_CLOUD": str(self.cloud_file),
        }

    def run(self, root: str, *arguments: str) -> str:
        """Run tofu in a root; gives what it printed. Raises TofuError."""
        done = subprocess.run(
            [self.program, f"-chdir={self.rendered / root}", *arguments],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=_RUN_S,
            check=False,
        )
        if done.returncode != 0:
            raise TofuError(done.stderr or done.stdout)
        return done.stdout

    def validate(self, root: str) -> None:
        """Install the provider and validate. Raises TofuError."""
        self.run(root, "init", "-no-color")
        self.run(root, "validate", "-no-color")

    def plan(self, root: str, *arguments: str) -> dict[str, list[str]]:
        """Actions by address of what a plan would change. Raises TofuError."""
        self.run(root, "plan", "-no-color", "-out=plan", *arguments)
        shown: dict[str, Any] = json.loads(self.run(root, "show", "-json", "plan"))
        actions = {each["address"]: each["change"]["actions"] for each in shown.get("resource_changes", [])}
        return {address: does for address, does in actions.items() if does not in (["no-op"], ["read"])}

    def apply(self, root: str) -> None:
        """Apply the plan that was made. Raises TofuError."""
        self.run(root, "apply", "-no-color", "plan")

    def outputs(self, root: str) -> dict[str, Any]:
        """Values of outputs."""
        shown = json.loads(self.run(root, "output", "-json"))
        return {name: each["value"] for name, each in shown.items()}

    def hand_over(self) -> None:
        """Outputs of storage become variables of grid."""
        variables = {**self.outputs("storage"), "tenancy_ocid": "ocid1.tenancy.oc1..aaaaexample"}
        (self.rendered / "grid" / "storage.auto.tfvars.json").write_text(json.dumps(variables))

    def cloud(self) -> dict[str, Any]:
        """What stands in the cloud, by OCID: type and values."""
        found: dict[str, Any] = json.loads(self.cloud_file.read_text())["resources"]
        return found

    def change(self, ocid: str, **values: object) -> None:
        """Change a resource behind tofu's back."""
        self._write(ocid, {"values": self.cloud()[ocid]["values"] | values})

    def add(self, kind: str, ocid: str, **values: object) -> None:
        """Have a resource in the cloud that tofu has not made."""
        self._write(ocid, {"type": kind, "values": {"id": ocid, **values}})

    def _write(self, ocid: str, parts: dict[str, Any]) -> None:
        content: dict[str, Any] = {"made": 0, "resources": {}}
        if self.cloud_file.exists():
            content = json.loads(self.cloud_file.read_text())
        content["resources"].setdefault(ocid, {}).update(parts)
        self.cloud_file.write_text(json.dumps(content))
