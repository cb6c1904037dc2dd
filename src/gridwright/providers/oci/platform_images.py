"""Platform images of OCI, by the distribution: how its list of images names operating system and version."""

from __future__ import annotations

PLATFORM_IMAGES = {
    "ubuntu-24.04": ("Canonical Ubuntu", "24.04"),
    "ol-9": ("Oracle Linux", "9"),
}
"""Operating system and version as GET /images of the Core Services API has them (OCI, platform images)."""


def has_platform_image(distribution: str) -> bool:
    """Whether machines of a distribution can start without an image of the site's; none is the default."""
    return not distribution or distribution in PLATFORM_IMAGES
