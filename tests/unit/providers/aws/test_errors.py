"""What boto3 raises, in words with a remedy."""

from __future__ import annotations

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ProfileNotFound,
    ReadTimeoutError,
    TokenRetrievalError,
)

from gridwright.errors import ExitStatus
from gridwright.providers.aws.session import reason_remedy, translated


def refused(code: str, message: str = "as it is") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "CreateStack")


@pytest.mark.parametrize(
    ("code", "message", "what", "remedy"),
    [
        ("ThrottlingException", "Rate exceeded", "throttles cloudformation:CreateStack", "wait a minute"),
        ("RequestLimitExceeded", "x", "throttles", "wait a minute"),
        ("ExpiredToken", "x", "credentials for AWS have expired", "aws sso login"),
        ("InvalidClientTokenId", "x", "does not accept the credentials", "region us-east-1 on"),
        ("SignatureDoesNotMatch", "x", "how the request was signed", "clock"),
        (
            "AccessDenied",
            "User: arn:aws:iam::1:user/ann is not authorized to perform: fsx:CreateFileSystem on resource: x",
            "may not do fsx:CreateFileSystem",
            "allow fsx:CreateFileSystem",
        ),
        ("UnauthorizedOperation", "no", "may not do cloudformation:CreateStack", "administrator"),
        ("LimitExceededException", "too many stacks", "too many stacks", "Service Quotas"),
        ("VcpuLimitExceeded", "32 of 32", "32 of 32", "quota of vCPUs"),
        ("OptInRequired", "x", "not switched region us-east-1", "switch it on"),
        ("ValidationError", "Template error", "Template error (ValidationError)", "mend what it says"),
    ],
)
def test_a_refusal_is_told_with_its_remedy(code: str, message: str, what: str, remedy: str) -> None:
    error = translated(refused(code, message), "cloudformation", "create_stack", "us-east-1")
    (problem,) = error.problems
    assert what in problem.what
    assert remedy in str(problem.remedy)
    assert error.status is ExitStatus.ENVIRONMENT
    assert error.code == code


@pytest.mark.parametrize(
    ("raised", "what", "remedy"),
    [
        (NoCredentialsError(), "no credentials", "aws configure"),
        (ProfileNotFound(profile="work"), "work", "~/.aws/config"),
        (TokenRetrievalError(provider="sso", error_msg="gone"), "cannot be used", "sign in again"),
        (ReadTimeoutError(endpoint_url="https://x"), "did not answer", "network"),
        (EndpointConnectionError(endpoint_url="https://x"), "did not answer", "network"),
    ],
)
def test_no_answer_is_told_with_its_remedy(raised: Exception, what: str, remedy: str) -> None:
    error = translated(raised, "sts", "get_caller_identity", "us-east-1", lambda: ["us-east-1"])
    (problem,) = error.problems
    assert what in problem.what
    assert remedy in str(problem.remedy)
    assert error.status is ExitStatus.ENVIRONMENT


def test_a_region_that_is_none_is_told_with_the_nearest() -> None:
    raised = EndpointConnectionError(endpoint_url="https://ec2.us-esat-1.amazonaws.com")
    error = translated(raised, "ec2", "describe_instances", "us-esat-1", lambda: ["us-east-1", "eu-west-1"])
    assert error.problems[0].remedy == "write region: us-east-1"


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("You have requested more vCPU capacity than your limit of 32 (VcpuLimitExceeded)", "vCPUs"),
        ("We currently do not have sufficient capacity (InsufficientInstanceCapacity)", "placement_group"),
        ("The maximum number of VPCs has been reached (VpcLimitExceeded)", "Service Quotas"),
        ("x is not authorized to perform: iam:CreateRole", "allow iam:CreateRole"),
        ("demo already exists in stack", "another name"),
    ],
)
def test_reasons_in_events_have_remedies(reason: str, remedy: str) -> None:
    assert remedy in str(reason_remedy(reason))


def test_a_reason_that_is_not_known_has_none() -> None:
    assert reason_remedy("Something odd") is None
