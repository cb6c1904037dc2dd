"""The root `storage`: network, security groups and volumes, which outlive the grid's machines."""

from __future__ import annotations

from gridwright.providers.oci.layout import OciLayout
from gridwright.providers.oci.terraform.boot import add_bucket
from gridwright.providers.oci.terraform.network import add_network
from gridwright.providers.oci.terraform.root import Root
from gridwright.providers.oci.terraform.security_groups import add_security_groups
from gridwright.providers.oci.terraform.services import add_services
from gridwright.providers.oci.terraform.volumes import add_volumes
from gridwright.spec.model import GridSpec


def storage_root(spec: GridSpec, layout: OciLayout) -> Root:
    """The root, of which grid takes each output as a variable of the same name."""
    root = Root(str(spec.region), f"Storage and network of grid {spec.name}: it outlives the machines.")
    domains = root.source(
        "oci_identity_availability_domains", "all", {"compartment_id": layout.oci.compartment}
    )
    number = layout.oci.availability_domain - 1
    domain = f"${{{domains}.availability_domains[{number}].name}}"
    vcn = add_network(root, layout)
    add_security_groups(root, spec, layout, vcn)
    add_volumes(root, layout, domain)
    add_services(root, spec, layout, f"{domains}.availability_domains")
    add_bucket(root, layout)
    root.output("availability_domain", domain, "Where volumes and machines are.")
    return root
