"""Block volumes: they outlive machines, and Terraform refuses to destroy them."""

from __future__ import annotations

from gridwright.providers.oci.layout import OciLayout
from gridwright.providers.oci.names import STORAGE, tags
from gridwright.providers.oci.terraform.root import Root, block_name, id_of


def add_volumes(root: Root, layout: OciLayout, domain: str) -> None:
    """Add all volumes, in the availability domain of their servers, and the output `volumes`: IDs by name."""
    for each in layout.volumes:
        servers = " and ".join(each.servers)
        root.keep(
            "oci_core_volume",
            block_name(each.name),
            {
                "compartment_id": layout.oci.compartment,
                "availability_domain": domain,
                "display_name": each.name,
                "size_in_gbs": str(each.gib),
                "vpus_per_gb": str(each.vpus_per_gib),
                "kms_key_id": layout.oci.key,
                "freeform_tags": tags(layout, STORAGE),
            },
            why=f"{each.device} of {servers}" + ("" if not each.is_shared else "; the first one serves it"),
        )
    if layout.volumes:
        ids = {each.name: id_of("oci_core_volume", block_name(each.name)) for each in layout.volumes}
        root.output("volumes", ids, "Block volumes by name.")
