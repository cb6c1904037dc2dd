"""What nodes mount of file systems that the grid makes: Lustre on its own servers, and what OCI runs."""

from __future__ import annotations

from gridwright.providers.lustre_servers import built_lustres
from gridwright.providers.oci.layout import OciLayout
from gridwright.providers.oci.service_subnet import services
from gridwright.spec.model import GridSpec


def mount_sources(spec: GridSpec, layout: OciLayout) -> dict[str, str]:
    """What nodes mount of file systems that the spec gives no source of, by file system.

    OCI gives services their addresses when it makes them, so that each machine is told at its start.
    """
    built = {name: layout.lustre_source(name) for name in built_lustres(spec)}
    return built | {name: f"{{{{ gridwright_sources['{name}'] }}}}" for name in services(spec)}
