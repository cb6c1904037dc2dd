"""Makes the table of names in docs/exporter.md.

Run `python -m gridwright.monitor.exporter.reference docs/exporter.md` to bring the file up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gridwright.monitor.exporter.metric_families import OF_EXPORTER, OF_READINGS, MetricFamily
from gridwright.spec.reference import with_parts

_DIFFERS = {
    "node_cpu_seconds_total": "over all CPUs: no label `cpu`; never falls",
    "node_network_receive_bytes_total": "cards alone: not lo, bridges, containers",
    "node_network_transmit_bytes_total": "cards alone: not lo, bridges, containers",
    "node_filesystem_size_bytes": "mounts that hold files on storage alone; asked once a minute",
    "node_filesystem_avail_bytes": "mounts that hold files on storage alone; asked once a minute",
}
"""How a reading differs from node-exporter's of the same name, where it does."""
_FALLS = frozenset({"lustre_exports", "lustre_lock_count"})
"""End in `_total` there though they fall."""
_CLIENT = {
    "gridwright_mount_read_bytes_total": "`lustre_client_osc_read_bytes_total`",
    "gridwright_mount_written_bytes_total": "`lustre_client_osc_write_bytes_total`",
}


def names_table() -> str:
    """The table of all series: their labels, what they mean, and whose name they have."""
    rows = ["| series | labels | means | elsewhere |", "|---|---|---|---|"]
    rows += [_row(family, _elsewhere(metric)) for metric, family in OF_READINGS.items()]
    rows += [_row(family, "") for family in OF_EXPORTER]
    return "\n".join(rows)


def _row(family: MetricFamily, elsewhere: str) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.series}` | {labels} | {family.help} | {elsewhere} |"


def _elsewhere(metric: str) -> str:
    if metric.startswith("node_disk_"):
        return f"`{metric}`; whole disks alone, and those that were used"
    if metric.startswith("node_"):
        return f"`{metric}`" + (f"; {_DIFFERS[metric]}" if metric in _DIFFERS else "")
    if metric in _FALLS:
        return f"`{metric}_total` of lustrefs-exporter"
    if metric.startswith(("lustre_", "recovery_")):
        return "the same in lustrefs-exporter"
    if metric in _CLIENT:
        return f"{_CLIENT[metric]} on clients of Lustre; here also NFS"
    return ""


def refreshed(text: str) -> str:
    """The page with its table made anew. Raises ValueError where it has no markers."""
    return with_parts(text, {"names": names_table()})


def _main() -> None:
    page = Path(sys.argv[1])
    page.write_text(refreshed(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    _main()
