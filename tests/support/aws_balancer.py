"""Load balancers as CloudFormation makes them; moto's CloudFormation leaves out mappings, types and tags."""

from __future__ import annotations

from typing import Any

import pytest
from moto.elbv2.models import FakeLoadBalancer, elbv2_backends


def register(patch: pytest.MonkeyPatch) -> None:
    """Have moto's CloudFormation make them as their template says."""

    def create(
        _cls: Any,
        /,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **__: Any,
    ) -> FakeLoadBalancer:
        given = cloudformation_json["Properties"]
        backend = elbv2_backends[account_id][region_name]
        return backend.create_load_balancer(
            resource_name,
            given.get("SecurityGroups"),
            given.get("Subnets", []),
            given.get("SubnetMappings"),
            scheme=given.get("Scheme", "internet-facing"),
            loadbalancer_type=given.get("Type"),
            tags=given.get("Tags"),
        )

    patch.setattr(FakeLoadBalancer, "create_from_cloudformation_json", classmethod(create))
