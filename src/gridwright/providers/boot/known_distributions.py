"""What machines have to know of distributions at their start, before they can read YAML."""

from __future__ import annotations

import json

from gridwright.setup.distributions import distributions


def known_distributions(*, on_oci: bool = False) -> str:
    """A row of JSON for each distribution; one that is refused on AWS, or on Oracle Cloud, has its reason."""
    rows = [
        {
            "id": each.os.id,
            "version": each.os.version,
            "refused": None if (each.is_on_oci if on_oci else each.in_cloud) else each.reason,
            "ansible": each.built.ansible.packages if each.built else [],
        }
        for each in distributions()
    ]
    return "".join(["[\n", ",\n".join(f" {json.dumps(row)}" for row in rows), "\n]\n"])
