"""ClusterShell, without the configuration of whoever's home directory HOME names; all of it comes from here.

It reads `defaults.conf`, `groups.conf` and `topology.conf` of /etc/clustershell, and then of HOME: as root
with the HOME of a user, that user would say by which gateways and with which module nodes are reached.
"""

from __future__ import annotations

import os
from pathlib import Path

_SYSTEM = Path("/etc/clustershell")

# It reads them while it is imported, so that the environment has none of a user meanwhile.
_before = {name: os.environ.pop(name, None) for name in ("HOME", "XDG_CONFIG_HOME", "CLUSTERSHELL_CFGDIR")}
os.environ |= {"HOME": "/", "XDG_CONFIG_HOME": str(_SYSTEM)}
try:
    from ClusterShell import Defaults
finally:
    for _name, _value in _before.items():
        os.environ.pop(_name, None)
        if _value is not None:
            os.environ[_name] = _value
Defaults.config_paths = lambda name: [str(_SYSTEM / name)]

from ClusterShell.NodeSet import (  # noqa: E402 - it asks for these paths, too
    RESOLVER_NOGROUP,
    NodeSet,
    NodeSetException,
    NodeSetParseError,
)

__all__ = ["RESOLVER_NOGROUP", "NodeSet", "NodeSetException", "NodeSetParseError"]
