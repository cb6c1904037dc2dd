"""Stacks of CloudFormation: limits of templates, making, changing and deleting, events as progress."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from troposphere import AWSObject, Template

from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.providers.aws.names import GRID_TAG
from gridwright.providers.aws.session import Cloud, CloudError, reason_remedy, request_token
from gridwright.providers.provider import Caller

# CloudFormation User Guide, quotas. Not verified against a page.
MOST_RESOURCES = 500
MOST_OUTPUTS = 200
MOST_BYTES = 1_000_000


class CountedTemplate(Template):  # type: ignore[misc] # troposphere has no types
    """A template that counts resources beyond the limit, where troposphere would stop at the first one."""

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.beyond = 0

    def add_resource(self, resource: AWSObject) -> Any:  # noqa: ANN401
        """Take a resource, or count it."""
        if len(self.resources) < MOST_RESOURCES:
            return super().add_resource(resource)
        self.beyond += 1
        return resource

    def check(self, where: str | None = None) -> None:
        """Raise GridwrightError where CloudFormation would not take it; `where` is the file of the spec."""
        found = [*count_problems(len(self.resources) + self.beyond, len(self.outputs), where)]
        if problems := found or [*template_problems(self, where)]:
            raise GridwrightError(*problems)


def template_text(template: Template) -> str:
    """The template as YAML: the same text for the same template, keys in order of the alphabet."""
    text: str = template.to_yaml(clean_up=True)
    return text


def template_problems(template: Template, where: str | None = None) -> Iterator[Problem]:
    """The limits of CloudFormation that a template goes beyond; `where` is the file it is made from."""
    yield from count_problems(len(template.resources), len(template.outputs), where)
    yield from _beyond(_size(template), MOST_BYTES, "bytes", where)


def _size(template: Template) -> int:
    """Bytes of the larger of its two forms: `render` writes YAML, and `up` changes stacks with JSON.

    YAML indents user data line by line, so that it is larger by a fifth, and it takes long to write: a
    template that is far from the limit is counted as JSON alone.
    """
    size = len(template.to_json(indent=None).encode())
    return size if size < MOST_BYTES // 2 else max(size, len(template_text(template).encode()))


def count_problems(resources: int, outputs: int, where: str | None = None) -> Iterator[Problem]:
    """Those of a template that is not made yet: troposphere takes no more than CloudFormation does."""
    yield from _beyond(resources, MOST_RESOURCES, "resources", where)
    yield from _beyond(outputs, MOST_OUTPUTS, "outputs", where)


def _beyond(count: int, most: int, what: str, where: str | None) -> Iterator[Problem]:
    if count > most:
        yield Problem(
            f"the template has {count} {what}, and CloudFormation takes {most}",
            where=where,
            remedy="Use fewer and larger volumes for each server, nodes that are replaced, fewer machines, "
            "or two grids.",
        )


# What to do about a stack that did not come to where it should.

NEVER_MADE = "REVIEW_IN_PROGRESS"
"""State of a stack that was proposed, and never made."""
UNFINISHED = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", NEVER_MADE})
"""States of a stack whose creation came to nothing: it can only be deleted."""


def failure_of(name: str, state: str, reason: str, region: str) -> GridwrightError:
    """The error of a stack that did not come to where it should, with what to do from its state."""
    because = reason or "AWS names no resource that failed"
    return environment_error(
        f"stack {name} is in {state}: {because}",
        where=f"AWS, {region}",
        remedy="; ".join(filter(None, (reason_remedy(reason), state_remedy(name, state)))),
    )


def state_remedy(name: str, state: str) -> str:
    """What to do about a stack that is in a state which is not whole."""
    if state in UNFINISHED:
        return "then run gridwright down, which removes what is left of the stack, and gridwright up again"
    if state == "UPDATE_ROLLBACK_FAILED":
        return (
            "mend what the reason names, run aws cloudformation continue-update-rollback --stack-name "
            f"{name}, then gridwright up again"
        )
    if state == "DELETE_FAILED":
        return "mend what the reason names, then run gridwright down again"
    if state.endswith("_IN_PROGRESS"):
        return "wait for its end: gridwright up and down do"
    return "the stack is as it was before; mend what the reason names, then run the same command again"


POLL_S = 5.0
LONGEST_WAIT_S = 4 * 3600.0
LONGEST_BODY = 51_200
"""Bytes of a template that a request may carry (CloudFormation quotas); above it a bucket has it."""
_CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"]
_NO_CHANGE = ("didn't contain changes", "No updates are to be performed")
_CANCELLED = "cancelled"
WHOLE = frozenset(
    {
        "CREATE_COMPLETE",
        "UPDATE_COMPLETE",
        "UPDATE_ROLLBACK_COMPLETE",
        "IMPORT_COMPLETE",
        "IMPORT_ROLLBACK_COMPLETE",
    }
)


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack as it stands."""

    name: str
    id: str
    state: str
    reason: str
    created: datetime
    protected: bool
    outputs: Mapping[str, str]
    parameters: Mapping[str, str]
    updated: datetime | None = None
    """When it was last changed, if it was."""

    @property
    def busy(self) -> bool:
        """Whether AWS is at work on it."""
        return self.state.endswith("_IN_PROGRESS") and self.state != NEVER_MADE

    @property
    def unfinished(self) -> bool:
        """Whether its creation came to nothing."""
        return self.state in UNFINISHED

    @property
    def whole(self) -> bool:
        """Whether all of its resources are as its template has them."""
        return self.state in WHOLE


@dataclass(frozen=True, slots=True)
class Body:
    """A template as a request carries it: its text, or the address in a bucket that it was put at."""

    text: str
    url: str | None = None

    @property
    def argument(self) -> dict[str, str]:
        """The argument of boto3."""
        return {"TemplateURL": self.url} if self.url else {"TemplateBody": self.text}


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """What AWS would change of a stack."""

    id: str
    stack: Stack
    changes: tuple[Mapping[str, Any], ...]
    """As AWS lists them: Action, LogicalResourceId, ResourceType, Replacement and Details of each."""


@dataclass
class Stacks:
    """What is done with stacks. Every method raises GridwrightError."""

    cloud: Cloud
    caller: Caller
    _seen: set[str] = field(default_factory=set)

    def find(self, name: str) -> Stack | None:
        """The stack of a name or ID; None where there is none, or where it was deleted."""
        try:
            found = self.cloud.call("cloudformation", "describe_stacks", StackName=name)["Stacks"]
        except CloudError as error:
            if error.code == "ValidationError" and "does not exist" in error.message:
                return None
            raise
        return _stack(found[0]) if found and found[0]["StackStatus"] != "DELETE_COMPLETE" else None

    def settled(self, name: str) -> Stack | None:
        """The stack once nothing is at work on it any more."""
        stack = self.find(name)
        if stack is not None and stack.busy:
            self.caller.say(f"{name}: {stack.state}, by an earlier command; waiting for its end")
            self._note_events(stack.id)
            self._wait(stack)
            stack = self.find(name)
        return stack

    def template(self, stack: Stack) -> dict[str, Any]:
        """The template that a stack was made from, in the long form of its functions."""
        found = self.cloud.call("cloudformation", "get_template", StackName=stack.id)["TemplateBody"]
        return found if isinstance(found, dict) else parsed(found)

    def resources(self, stack: Stack) -> dict[str, str]:
        """Physical ID of each resource by its logical ID."""
        listed = self.cloud.listed(
            "cloudformation", "list_stack_resources", "StackResourceSummaries", StackName=stack.id
        )
        return {each["LogicalResourceId"]: each.get("PhysicalResourceId", "") for each in listed}

    def create(
        self,
        name: str,
        body: Body,
        *,
        parameters: Mapping[str, str],
        tags: Mapping[str, str],
        protected: bool = False,
    ) -> Stack:
        """Make a stack, and wait for it. What a failed creation made is removed again by AWS."""
        self.caller.say(f"{name}: making the stack")
        made = self.cloud.call(
            "cloudformation",
            "create_stack",
            StackName=name,
            **body.argument,
            Parameters=_parameters(parameters),
            Tags=_tags(tags),
            Capabilities=_CAPABILITIES,
            EnableTerminationProtection=protected,
            RetainExceptOnCreate=True,
            ClientRequestToken=request_token(),
        )
        return self._ended(made["StackId"], "CREATE_COMPLETE")

    def propose(
        self, stack: Stack, body: Body, *, parameters: Mapping[str, str], tags: Mapping[str, str]
    ) -> ChangeSet | None:
        """What a template would change of a stack, as AWS sees it; None where it would change nothing."""
        try:
            made = self.cloud.call(
                "cloudformation",
                "create_change_set",
                StackName=stack.name,
                ChangeSetName=f"gridwright-{time.time_ns()}",
                ChangeSetType="UPDATE",
                **body.argument,
                Parameters=_parameters(parameters),
                Tags=_tags(tags),
                Capabilities=_CAPABILITIES,
                ClientToken=request_token(),
            )
        except CloudError as error:
            if any(words in error.message for words in _NO_CHANGE):
                return None
            raise
        return self._looked_at(stack, made["Id"])

    def _looked_at(self, stack: Stack, change_set: str) -> ChangeSet | None:
        deadline = time.monotonic() + 600
        while True:
            found = self.cloud.call(
                "cloudformation", "describe_change_set", ChangeSetName=change_set, StackName=stack.name
            )
            if found["Status"] in ("CREATE_COMPLETE", "FAILED") or time.monotonic() > deadline:
                break
            self._pause(stack.name)
        reason = found.get("StatusReason") or ""
        if found["Status"] == "CREATE_COMPLETE":
            changes = list(found.get("Changes", ()))
            while token := found.get("NextToken"):
                found = self.cloud.call(
                    "cloudformation",
                    "describe_change_set",
                    ChangeSetName=change_set,
                    StackName=stack.name,
                    NextToken=token,
                )
                changes += found.get("Changes", ())
            proposed = ChangeSet(change_set, stack, tuple(each["ResourceChange"] for each in changes))
            if changes:
                return proposed
            self.discard(proposed)
            return None
        self.discard(ChangeSet(change_set, stack, ()))
        if any(words in reason for words in _NO_CHANGE):
            return None
        raise environment_error(
            f"AWS cannot work out what would change of stack {stack.name}: {reason or found['Status']}",
            where=f"AWS, {self.cloud.region}",
            remedy=reason_remedy(reason) or "mend what it says, then run gridwright up again",
        )

    def discard(self, change_set: ChangeSet) -> None:
        """Drop what was proposed: nothing is changed."""
        self.cloud.call(
            "cloudformation",
            "delete_change_set",
            ChangeSetName=change_set.id,
            StackName=change_set.stack.name,
        )

    def execute(self, change_set: ChangeSet) -> Stack:
        """Carry out what was proposed, and wait for it."""
        stack = change_set.stack
        self._note_events(stack.id)
        self.caller.say(f"{stack.name}: changing the stack")
        self.cloud.call(
            "cloudformation",
            "execute_change_set",
            ChangeSetName=change_set.id,
            StackName=stack.name,
            RetainExceptOnCreate=True,
            ClientRequestToken=request_token(),
        )
        return self._ended(stack.id, "UPDATE_COMPLETE")

    def set_parameter(self, stack: Stack, name: str, value: str) -> Stack:
        """Change one parameter of a stack, its template and the others staying, and wait for it."""
        others = [
            {"ParameterKey": each, "UsePreviousValue": True} for each in stack.parameters if each != name
        ]
        self._note_events(stack.id)
        self.cloud.call(
            "cloudformation",
            "update_stack",
            StackName=stack.name,
            UsePreviousTemplate=True,
            Parameters=[{"ParameterKey": name, "ParameterValue": value}, *others],
            Capabilities=_CAPABILITIES,
            ClientRequestToken=request_token(),
        )
        return self._ended(stack.id, "UPDATE_COMPLETE")

    def protect(self, stack: Stack, *, protected: bool) -> None:
        """Have AWS refuse to delete a stack, or allow it."""
        if stack.protected != protected:
            self.cloud.call(
                "cloudformation",
                "update_termination_protection",
                StackName=stack.name,
                EnableTerminationProtection=protected,
            )

    def delete(self, stack: Stack) -> None:
        """Delete a stack, and wait for its end."""
        self._note_events(stack.id)
        self.caller.say(f"{stack.name}: deleting the stack")
        self.cloud.call("cloudformation", "delete_stack", StackName=stack.id)
        self._ended(stack.id, "DELETE_COMPLETE")

    def failure(self, stack: Stack) -> str | None:
        """The first resource that failed in the last operation on a stack, and why; None where none did."""
        found = None
        for event in self._events(stack.id):
            if _is_of_stack(event, stack.id) and event["ResourceStatus"] in (
                "CREATE_IN_PROGRESS",
                "UPDATE_IN_PROGRESS",
                "DELETE_IN_PROGRESS",
            ):
                break
            found = _failed(event) or found
        return found

    def _events(self, stack: str) -> Iterator[Mapping[str, Any]]:
        """Events of a stack, the newest first."""
        return self.cloud.listed("cloudformation", "describe_stack_events", "StackEvents", StackName=stack)

    def _note_events(self, stack: str) -> None:
        self._seen.update(event["EventId"] for event in self._events(stack))

    def _wait(self, stack: Stack) -> tuple[str, list[str]]:
        """Tell events until nothing is at work on a stack; its state, and what failed, in order."""
        failed: list[str] = []
        deadline = time.monotonic() + LONGEST_WAIT_S
        while True:
            # The state first: whatever happens between the two is then reported.
            state = self._state(stack.id)
            for event in reversed(list(self._events(stack.id))):
                if event["EventId"] in self._seen:
                    continue
                self._seen.add(event["EventId"])
                self.caller.say(_line(stack.name, event))
                if reason := _failed(event):
                    failed.append(reason)
            if not state.endswith("_IN_PROGRESS"):
                return state, failed
            if time.monotonic() > deadline:
                raise environment_error(
                    f"stack {stack.name} is still in {state} after {LONGEST_WAIT_S / 3600:.0f} h",
                    remedy="look at its events in the console; gridwright up or down goes on from there",
                )
            self._pause(stack.name)

    def _state(self, stack: str) -> str:
        found = self.cloud.call("cloudformation", "describe_stacks", StackName=stack)["Stacks"]
        return str(found[0]["StackStatus"])

    def _ended(self, stack_id: str, desired: str) -> Stack:
        name = stack_id.split("/")[1] if "/" in stack_id else stack_id
        found = self.cloud.call("cloudformation", "describe_stacks", StackName=stack_id)["Stacks"]
        state, failed = self._wait(_stack(found[0]))
        if state != desired:
            raise failure_of(name, state, failed[0] if failed else "", self.cloud.region)
        found = self.cloud.call("cloudformation", "describe_stacks", StackName=stack_id)["Stacks"]
        return _stack(found[0])

    def _pause(self, name: str) -> None:
        goes_on = f"{name}: AWS goes on with what it was told; gridwright status shows how far it is, and "
        self.caller.pause(POLL_S, f"{goes_on}gridwright up or down waits for its end")


def parsed(text: str) -> dict[str, Any]:
    """A template in YAML or JSON as values, with functions in their long form."""
    from cfn_flip import to_json  # type: ignore[import-untyped]

    found: dict[str, Any] = json.loads(to_json(text))
    return found


def _stack(found: Mapping[str, Any]) -> Stack:
    return Stack(
        name=found["StackName"],
        id=found["StackId"],
        state=found["StackStatus"],
        reason=found.get("StackStatusReason") or "",
        created=found["CreationTime"],
        protected=bool(found.get("EnableTerminationProtection")),
        outputs={each["OutputKey"]: each.get("OutputValue", "") for each in found.get("Outputs") or ()},
        parameters={
            each["ParameterKey"]: each.get("ParameterValue", "") for each in found.get("Parameters") or ()
        },
        updated=found.get("LastUpdatedTime"),
    )


def _is_of_stack(event: Mapping[str, Any], stack: str) -> bool:
    return bool(event.get("PhysicalResourceId") == stack)


def _failed(event: Mapping[str, Any]) -> str | None:
    """What failed, where an event says so; what AWS stopped since something else failed does not count."""
    reason = event.get("ResourceStatusReason") or ""
    if not event["ResourceStatus"].endswith("_FAILED") or _CANCELLED in reason.lower():
        return None
    return f"{event['LogicalResourceId']} ({event['ResourceType']}): {reason or event['ResourceStatus']}"


def _line(stack: str, event: Mapping[str, Any]) -> str:
    reason = event.get("ResourceStatusReason") or ""
    what = event["LogicalResourceId"]
    head = f"{stack}:" if what == stack else f"{stack}: {what} {event['ResourceType']}"
    return f"{head} {event['ResourceStatus']}{f' ({reason})' if reason else ''}"


def _parameters(parameters: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()]


def _tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": name, "Value": value} for name, value in tags.items()]


# What is in the site bucket: bundles and large templates, put there once and emptied by `down`.

_MOST_DELETED = 1000
"""Objects of one request (DeleteObjects API reference)."""


def put_once(cloud: Cloud, bucket: str, key: str, content: bytes) -> bool:
    """Put an object whose key names its content; False where it is there already."""
    try:
        cloud.call("s3", "head_object", Bucket=bucket, Key=key)
    except CloudError as error:
        if error.code not in ("404", "NoSuchKey", "NotFound"):
            raise
    else:
        return False
    cloud.call("s3", "put_object", Bucket=bucket, Key=key, Body=content, ChecksumAlgorithm="SHA256")
    return True


def put_changed(cloud: Cloud, bucket: str, key: str, content: bytes) -> bool:
    """Put an object whose content changes; False where it is as it should be."""
    try:
        if cloud.call("s3", "get_object", Bucket=bucket, Key=key)["Body"].read() == content:
            return False
    except CloudError as error:
        if error.code not in ("404", "NoSuchKey", "NotFound"):
            raise
    cloud.call("s3", "put_object", Bucket=bucket, Key=key, Body=content, ChecksumAlgorithm="SHA256")
    return True


def text_of(template: Mapping[str, Any]) -> str:
    """A template as short as it can be written: requests carry only small ones."""
    return json.dumps(template, separators=(",", ":"))


def body_of(cloud: Cloud, bucket: str | None, template: Mapping[str, Any]) -> Body:
    """A template as a request takes it; a large one is put into the bucket first."""
    text = text_of(template)
    content = text.encode()
    if len(content) <= LONGEST_BODY or bucket is None:
        return Body(text)
    key = f"templates/{hashlib.sha256(content).hexdigest()}.json"
    put_once(cloud, bucket, key, content)
    suffix = "amazonaws.com.cn" if cloud.region.startswith("cn-") else "amazonaws.com"
    return Body(text, f"https://{bucket}.s3.{cloud.region}.{suffix}/{key}")


def empty(cloud: Cloud, bucket: str) -> int:
    """Remove all objects of a bucket with all their versions; how many there were."""
    found: list[dict[str, str]] = []
    for key in ("Versions", "DeleteMarkers"):
        for each in cloud.listed("s3", "list_object_versions", key, Bucket=bucket):
            found.append({"Key": each["Key"], "VersionId": each["VersionId"]})
    for start in range(0, len(found), _MOST_DELETED):
        part = found[start : start + _MOST_DELETED]
        cloud.call("s3", "delete_objects", Bucket=bucket, Delete={"Objects": part, "Quiet": True})
    return len(found)


# Tags as AWS gives and takes them.


def of_grid(grid: str) -> list[dict[str, Any]]:
    """The filter of EC2 for what carries the tag of a grid."""
    return [{"Name": f"tag:{GRID_TAG}", "Values": [grid]}]


def tags_of(resource: Mapping[str, Any]) -> dict[str, str]:
    """The tags of a resource by name; some services call them TagSet."""
    return {each["Key"]: each["Value"] for each in resource.get("Tags") or resource.get("TagSet") or ()}
