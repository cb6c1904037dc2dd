"""Makes one row of the catalogue from what EC2's DescribeInstanceTypes answers, and corrects its quirks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Row = dict[str, object]
"""Cells by column of the catalogue's instance types."""

FIXED_RATE = re.compile(r"(?:(\d+)x )?([\d.]+) Gigabit")
"""A network text that names a rate and not a hope: `200 Gigabit`, `4x 100 Gigabit`."""

_MAC = "_mac"


def ec2_row(facts: Mapping[str, Any], source: str, date: str) -> Row | None:
    """Return one type as EC2 lists it; None for Macs, which run no grid.

    Raises KeyError, ValueError when a field is missing or new.
    """
    architecture = facts["ProcessorInfo"]["SupportedArchitectures"][-1]
    if architecture.endswith(_MAC):
        return None
    cpu = facts["VCpuInfo"]
    name = facts["InstanceType"]
    return {
        "name": name,
        "provider": "aws",
        "family": name.partition(".")[0],
        "cores": cpu["DefaultCores"],
        "vcpus": cpu["DefaultVCpus"],
        "memory_bytes": facts["MemoryInfo"]["SizeInMiB"] << 20,
        "architecture": architecture,
        **_network_columns(facts["NetworkInfo"]),
        **_volume_columns(facts["EbsInfo"]),
        **_store_columns(facts.get("InstanceStorageInfo")),
        "current": facts["CurrentGeneration"],
        "accelerators": _accelerators(facts),
        "bare_metal": facts["BareMetal"],
        "burstable_cpu": facts["BurstablePerformanceSupported"],
        "source": source,
        "date": date,
    }


def _network_columns(network: Mapping[str, Any]) -> Row:
    """Rates of all cards together.

    The fields of the cards sometimes repeat the total, so with several cards the text of the
    instance (`200 Gigabit`, `4x 100 Gigabit`) is the total. With one card, a text that names the
    card's peak as a fixed rate above its baseline is the rate inside a placement group
    (c3.8xlarge, r3.8xlarge).
    """
    cards = network["NetworkCards"]
    fixed = FIXED_RATE.fullmatch(network["NetworkPerformance"])
    total = float(fixed[2]) * int(fixed[1] or 1) if fixed else None
    if len(cards) > 1:
        if total is None:
            raise ValueError(f"no total for several cards: {network['NetworkPerformance']}")
        return {"network_gbit_per_s": total, "network_peak_gbit_per_s": total, "nics": len(cards)}
    baseline, peak = float(cards[0]["BaselineBandwidthInGbps"]), float(cards[0]["PeakBandwidthInGbps"])
    row: Row = {"network_gbit_per_s": baseline, "network_peak_gbit_per_s": peak, "nics": 1}
    if total is not None and baseline < total == peak:
        row["placement_gbit_per_s"] = total
    return row


def _volume_columns(ebs: Mapping[str, Any]) -> Row:
    """Rates to and from volumes: `dedicated`, `optional` (to be asked for) or `shared` with the network."""
    if ebs["EbsOptimizedSupport"] == "unsupported":
        return {"volumes": "shared"}
    info = ebs["EbsOptimizedInfo"]
    return {
        "volumes": "dedicated" if ebs["EbsOptimizedSupport"] == "default" else "optional",
        "volume_mb_per_s": float(info["BaselineThroughputInMBps"]),
        "volume_peak_mb_per_s": float(info["MaximumThroughputInMBps"]),
        "volume_iops": info["BaselineIops"],
        "volume_peak_iops": info["MaximumIops"],
    }


def _store_columns(store: Mapping[str, Any] | None) -> Row:
    """Disks of the instance itself; sizes are decimal GB."""
    if store is None:
        return {}
    (disks,) = store["Disks"]
    return {
        "store_disks": disks["Count"],
        "store_disk_gb": disks["SizeInGB"],
        "store_medium": disks["Type"],
        "store_nvme": store["NvmeSupport"] != "unsupported",
    }


def _accelerators(facts: Mapping[str, Any]) -> int:
    """GPUs (or parts of one), FPGAs, media and inference devices.

    A Neuron device is listed as an inference one, too, and some Trainium types list none.
    """
    counts = [
        sum(device["Count"] or 1 for device in facts.get(group, {}).get(devices, ()))
        for group, devices in (
            ("GpuInfo", "Gpus"),
            ("FpgaInfo", "Fpgas"),
            ("MediaAcceleratorInfo", "Accelerators"),
            ("InferenceAcceleratorInfo", "Accelerators"),
            ("NeuronInfo", "NeuronDevices"),
        )
    ]
    return max(*counts, int(facts["InstanceType"].startswith("trn")))


def plain(value: object) -> object:
    """Spell a value the same way on every machine: whole numbers without a point, yes as 1."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return f"{value:.12g}"
    return "" if value is None else value
