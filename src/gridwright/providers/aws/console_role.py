"""The role that serves the console on the head node: its unit, the spec that it reads, and who it is for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from gridwright.providers.aws.console_layout import balancer_address, console_machine, secret_name
from gridwright.providers.aws.layout import AwsLayout
from gridwright.services.console_address import PORT
from gridwright.services.playbook_role import PlaybookRole
from gridwright.setup.console_service import CONSOLE_UNIT, console_unit
from gridwright.setup.repository_timers import PROGRAM, quoted
from gridwright.setup.watch_service import ACCOUNT, STATES
from gridwright.spec.model import GridSpec

ROLE = PlaybookRole(
    name="console",
    task="Serve the console",
    when="group_names | difference(['storage']) | length > 0",
    package="gridwright.providers.aws",
)
DIRECTORY = "/etc/gridwright/console"
_TOKEN_FILE = "/run/gridwright-console/token"  # noqa: S105 - the name of a file
_SERVICE_LINES = """\
RuntimeDirectory=gridwright-console
RuntimeDirectoryMode=0700
# Where AWS is reached through a proxy.
EnvironmentFile=-/etc/gridwright/proxy.env
# As root, which alone reaches the credentials of the machine.
ExecStartPre=+{command}
"""


def console_role_files(spec: GridSpec, layout: AwsLayout) -> Mapping[str, str]:
    """The unit and the spec as files of the role; none where there is no console.

    Raises GridwrightError for words that no unit can hold.
    """
    machine = console_machine(layout)
    if machine is None:
        return {}
    files = {"--certificate": f"{DIRECTORY}/certificate.pem", "--key": f"{DIRECTORY}/key.pem"}
    command = [
        *(PROGRAM, "console", f"{DIRECTORY}/grid.yaml"),
        *("--port", str(PORT), "--listen", str(machine.address), "--proxy", str(balancer_address(layout))),
        *(word for pair in files.items() for word in pair),
        *("--token-file", _TOKEN_FILE, "--runs", f"{STATES}/runs"),
    ]
    reading = ["/usr/bin/python3", "/usr/local/lib/gridwright/console_token.py"]
    reading += [secret_name(spec), str(spec.region), _TOKEN_FILE]
    lines = _SERVICE_LINES.format(command=" ".join(map(quoted, reading)))
    unit = console_unit(command, ACCOUNT, Path(STATES), lines)
    # Roles of the site stay where setup is run.
    values = spec.model_dump(mode="json", exclude_none=True, exclude={"setup"})
    place = f"roles/{ROLE.name}/files"
    return {
        f"{place}/{CONSOLE_UNIT}": f"# Grid {spec.name}\n{unit}",
        f"{place}/grid.yaml": json.dumps(values, indent=2) + "\n",
    }


def console_variables(spec: GridSpec, layout: AwsLayout) -> Mapping[str, object]:
    """What the role is told: the machine that serves it, and its key; nothing where there is no console."""
    machine = console_machine(layout)
    if machine is None:
        return {}
    return {
        "gridwright_console": machine.name,
        "gridwright_console_key": {"name": secret_name(spec), "region": str(spec.region)},
    }
