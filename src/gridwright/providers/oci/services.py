"""What nodes mount of file systems of a grid that OCI runs as a service: managed Lustre, and File Storage."""

from __future__ import annotations

from gridwright.providers.oci.service_subnet import services
from gridwright.spec.model import GridSpec


def mount_sources(spec: GridSpec) -> dict[str, str]:
    """What nodes mount of file systems that the spec gives no source of, by file system.

    OCI gives them their addresses when it makes them, so that each machine is told at its start.
    """
    return {name: f"{{{{ gridwright_sources['{name}'] }}}}" for name in services(spec)}
