"""What a machine on OCI does when it first starts: it takes its name and lets in administrators by key alone.

All else is the playbook's. The text is one file for all machines, and Terraform fills in the name.
"""

from __future__ import annotations

FILE = "cloud-init.yaml"
CLOUD_INIT = """\
#cloud-config
# Written by Gridwright. Terraform puts the name of each machine here; there is no secret in it.
hostname: ${name}
preserve_hostname: false
disable_root: true
ssh_pwauth: false
"""


def expression(name: str) -> str:
    """The user data of a machine, as Terraform makes it."""
    return f'${{base64encode(templatefile("${{path.module}}/{FILE}", {{name = "{name}"}}))}}'
