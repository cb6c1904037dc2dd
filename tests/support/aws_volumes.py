"""Volumes of a cloud of the tests' own that several machines attach; moto knows the last attachment alone."""

from __future__ import annotations

from typing import Any

import pytest
from moto.ec2.exceptions import InvalidVolumeAttachmentError
from moto.ec2.models import EC2Backend
from moto.ec2.models.elastic_block_store import EBSBackend


def register(patch: pytest.MonkeyPatch) -> None:
    """Let a volume go from each machine that has attached it."""
    detach = EBSBackend.detach_volume

    def one_of_several(self: EC2Backend, volume_id: str, instance_id: str, device_path: str) -> Any:
        try:
            return detach(self, volume_id, instance_id, device_path)
        except InvalidVolumeAttachmentError:
            mapping = self.get_instance(instance_id).block_device_mapping
            held = [name for name, each in mapping.items() if each.volume_id == volume_id]
            if not held:
                raise
            return mapping.pop(held[0])

    patch.setattr(EBSBackend, "detach_volume", one_of_several)
