"""Changes of the storage stack, which `up` and `down` make alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridwright.providers.aws.names import tags
from gridwright.providers.aws.site_bucket import SITE_BUCKET
from gridwright.providers.aws.site_objects import body_of, text_of
from gridwright.providers.aws.stacks import LONGEST_BODY, ChangeSet, Stack, Stacks
from gridwright.spec.model import GridSpec


def propose_storage(
    stacks: Stacks, storage: Stack, template: Mapping[str, Any], spec: GridSpec
) -> ChangeSet | None:
    """What a template would change of the stack; None where nothing."""
    bucket = None
    if len(text_of(template)) > LONGEST_BODY:
        bucket = stacks.resources(storage)[SITE_BUCKET]
    body = body_of(stacks.cloud, bucket, template)
    return stacks.propose(storage, body, parameters={}, tags=tags(spec))


def update_storage(stacks: Stacks, storage: Stack, template: Mapping[str, Any], spec: GridSpec) -> Stack:
    """Change the stack, and wait for it."""
    proposed = propose_storage(stacks, storage, template, spec)
    return storage if proposed is None else stacks.execute(proposed)
