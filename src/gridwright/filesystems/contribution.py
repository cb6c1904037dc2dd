"""Which module answers for which kind of file system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gridwright.filesystems import fsx_lustre, local, lustre, moosefs, nfs, scale
from gridwright.filesystems.resources import Contribution
from gridwright.filesystems.site import Site

_KINDS: Mapping[str, Callable[[str, Any, Site], Contribution]] = {
    "local": local.contribute,
    "lustre": lustre.contribute,
    "fsx-lustre": fsx_lustre.contribute,
    "scale": scale.contribute,
    "nfs": nfs.contribute,
    "moosefs": moosefs.contribute,
}


def contribution(name: str, site: Site) -> Contribution:
    """What file system `name` of the site's spec brings into a prediction; problems are noted at the site."""
    filesystem = site.spec.filesystems[name]
    return _KINDS[filesystem.type](name, filesystem, site)
