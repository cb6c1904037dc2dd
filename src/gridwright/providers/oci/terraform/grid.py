"""The root `grid`: machines and what they are allowed, on the network and volumes of the root `storage`."""

from __future__ import annotations

from collections.abc import Mapping

from gridwright.providers.boot.bundle import Bundle, Part
from gridwright.providers.oci.layout import OciLayout
from gridwright.providers.oci.names import GRID, tags
from gridwright.providers.oci.section import LONGEST_SESSION_S
from gridwright.providers.oci.terraform.boot import add_bundles, add_rights
from gridwright.providers.oci.terraform.machines import add_machines
from gridwright.providers.oci.terraform.root import Root, id_of
from gridwright.spec.model import GridSpec


def grid_root(spec: GridSpec, layout: OciLayout, storage: Root, bundles: Mapping[Part, Bundle]) -> Root:
    """The root; its variables are the outputs of `storage`, and the tenancy."""
    root = Root(str(spec.region), f"Machines of grid {spec.name}: they can be made anew, storage stays.")
    for name, output in storage.outputs.items():
        kind = "map(string)" if isinstance(output["value"], dict) else "string"
        root.variable(name, f"Output of the root storage. {output['description']}", kind)
    add_machines(root, spec, layout)
    add_bundles(root, bundles)
    add_rights(root, layout)
    if layout.oci.bastion == "service":
        root.resource(
            "oci_bastion_bastion",
            "grid",
            {
                "compartment_id": layout.oci.compartment,
                "bastion_type": "STANDARD",
                "target_subnet_id": "${var.fs_subnet}",
                "client_cidr_block_allow_list": layout.oci.ssh_from,
                "max_session_ttl_in_seconds": LONGEST_SESSION_S,
                "name": f"gridwright{''.join(each for each in layout.grid if each.isalnum())}",
                "freeform_tags": tags(layout, GRID),
            },
        )
        root.output("bastion", id_of("oci_bastion_bastion", "grid"), "The bastion that sessions are made of.")
    return root
