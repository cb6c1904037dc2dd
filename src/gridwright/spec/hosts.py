"""Host names of nodes as administrators write many of them: `node[001-016]`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from gridwright.spec.fields import HOST_PATTERN
from gridwright.yamltext.fields import FieldError, Written
from gridwright.yamltext.source import show

MOST_HOSTS = 10_000
"""Most names in one set; a longer one is a slip of the pen."""
_EXAMPLE = "write names such as node[001-016], or login1,login2"
_ALLOWED = r"[A-Za-z0-9.,\[\]-]{1,4096}"


def group_names(group: str, hosts: str | None, count: int) -> list[str]:
    """The names of the machines of a group: hosts as they are given, else the group's name and a number."""
    if hosts is not None:
        return expand_hosts(hosts)
    return [f"{group}{number}" for number in range(1, count + 1)]


def expand_hosts(text: str) -> list[str]:
    """The names of a folded set, in its order, as ClusterShell and Slurm write it.

    Raises FieldError where it is none, names one node twice, or names more than MOST_HOSTS.
    """
    if not re.fullmatch(_ALLOWED, text, re.ASCII):
        raise FieldError(f"{show(text)} is not a set of host names", _EXAMPLE)
    # Counted before they are made: a slip such as [1-100000000] would take all memory.
    if sum(_length(*each) for each in re.findall(r"(\d+)-(\d+)", text)) > MOST_HOSTS:
        raise FieldError(f"{show(text)} is more than {MOST_HOSTS} nodes", _EXAMPLE)
    from gridwright.spec.cluster_shell import RESOLVER_NOGROUP, NodeSet, NodeSetException

    names: list[str] = []
    try:
        for part in re.split(r",(?![^\[]*\])", text):
            folded = NodeSet(part, resolver=RESOLVER_NOGROUP)
            if len(folded) + len(names) > MOST_HOSTS:
                raise FieldError(f"{show(text)} is more than {MOST_HOSTS} nodes", _EXAMPLE)
            names += list(folded)
    except NodeSetException as error:
        raise FieldError(f"{show(text)} is not a set of host names ({error})", _EXAMPLE) from None
    if not names:
        raise FieldError(f"{show(text)} names no node", _EXAMPLE)
    if wrong := next((name for name in names if not re.fullmatch(HOST_PATTERN, name, re.ASCII)), None):
        raise FieldError(f"{show(wrong)} is not a host name", _EXAMPLE)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FieldError(f"{show(twice)} is named twice", "name each node once")
    return names


def fold_hosts(names: Iterable[str]) -> str:
    """Names folded into one set, as administrators write many: `compute[1-3]`."""
    from gridwright.spec.cluster_shell import NodeSet

    return str(NodeSet.fromlist(list(names)))


def _length(first: str, last: str) -> int:
    if max(len(first), len(last)) > 9:
        return MOST_HOSTS + 1
    return abs(int(last) - int(first)) + 1


def _host_set(value: object) -> str:
    if not isinstance(value, str):
        raise FieldError(f"host names are wanted, and {show(value)} is given", _EXAMPLE)
    text = value.strip()
    expand_hosts(text)
    return text


HostSet = Annotated[str, Written(_host_set, f"^{_ALLOWED}$", "node[001-016]")]
"""A folded set of host names, each once."""
