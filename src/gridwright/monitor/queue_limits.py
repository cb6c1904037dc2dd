"""Reads at which rate queues let network cards send, where somebody has set one: token buckets of tc(8).

The kernel is asked by rtnetlink(7), without a process: RTM_GETQDISC, whose answers are `struct tcmsg` with
attributes (linux/rtnetlink.h, linux/pkt_sched.h). What a card receives is limited where it is sent.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator

from gridwright.monitor.readings import Reading

_GET_QDISC, _NEW_QDISC, _ERROR, _DONE = 38, 36, 2, 3
_REQUEST_DUMP = 0x1 | 0x300
"""NLM_F_REQUEST, NLM_F_ROOT and NLM_F_MATCH."""
_HEADER, _TCMSG, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BxxxiIII"), struct.Struct("=HH")
_ROOT = 0xFFFFFFFF
"""TC_H_ROOT: the queue that all packets of the card pass."""
_KIND, _OPTIONS, _TBF_PARAMETERS, _TBF_RATE64 = 1, 2, 1, 4
_RATE_OFFSET = 8
"""Of `rate` in `struct tc_ratespec`, the first field of `struct tc_tbf_qopt`; bytes per second."""
_LIMIT_S = 0.2
_MOST = 1 << 16


def queue_readings() -> Iterator[Reading]:
    """The limit of each card that has one, in bytes per second."""
    at = time.monotonic()
    for device, rate in queue_limits().items():
        yield Reading("gridwright_network_limit_bytes", (device,), rate, at)


def queue_limits() -> dict[str, float]:
    """By card; empty where none has a limit, or the kernel cannot be asked."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        link.settimeout(_LIMIT_S)
        link.bind((0, 0))
        body = _TCMSG.pack(0, 0, 0, 0, 0)
        link.send(_HEADER.pack(_HEADER.size + len(body), _GET_QDISC, _REQUEST_DUMP, 1, 0) + body)
        return dict(_answers(link))
    return {}


def _answers(link: socket.socket) -> Iterator[tuple[str, float]]:
    while True:
        data = link.recv(_MOST)
        for kind, body in _messages(data):
            if kind in {_DONE, _ERROR}:
                return
            found = parse_queue(body) if kind == _NEW_QDISC else None
            if found is not None:
                with contextlib.suppress(OSError):
                    yield socket.if_indextoname(found[0]), found[1]


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(data)
        if not _HEADER.size <= length <= len(data):
            return
        yield kind, data[_HEADER.size : length]
        data = data[(length + 3) & ~3 :]


def parse_queue(body: bytes) -> tuple[int, float] | None:
    """Index of the card and limit of a queue; None of one that limits nothing, or that has another above."""
    if len(body) < _TCMSG.size:
        return None
    _, index, _, parent, _ = _TCMSG.unpack_from(body)
    attributes = dict(_attributes(body[_TCMSG.size :]))
    if parent != _ROOT or attributes.get(_KIND, b"").rstrip(b"\0") != b"tbf":
        return None
    options = dict(_attributes(attributes.get(_OPTIONS, b"")))
    wide, parameters = options.get(_TBF_RATE64, b""), options.get(_TBF_PARAMETERS, b"")
    if len(wide) == 8:
        return index, float(struct.unpack("=Q", wide)[0])
    if len(parameters) < _RATE_OFFSET + 4:
        return None
    return index, float(struct.unpack_from("=I", parameters, _RATE_OFFSET)[0])


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if not _ATTRIBUTE.size <= length <= len(data):
            return
        yield kind & 0x3FFF, data[_ATTRIBUTE.size : length]
        data = data[(length + 3) & ~3 :]
