"""AWS reached through boto3: bounded time and tries, and every failure as one sentence with a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error, nearest
from gridwright.own_directories import hold_settings_of_home

CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = 60
ATTEMPTS = 5

_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
_UNKNOWN_KEY = frozenset(
    {
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "InvalidAccessKeyId",
        "AuthFailure",
        "MissingAuthenticationToken",
    }
)
_SIGNATURE = frozenset({"SignatureDoesNotMatch", "InvalidSignatureException", "RequestTimeTooSkewed"})
DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "Client.Unauthorized"})
_THROTTLED = re.compile(
    r"Throttl|RequestLimitExceeded|TooManyRequests|SlowDown|ProvisionedThroughputExceeded|BandwidthLimit"
)
_QUOTA = re.compile(r"[A-Za-z]*LimitExceeded|[A-Za-z]*QuotaExceeded|TooManyBuckets|maximum number of \w+")
_ACTION = re.compile(r"perform:? `?([a-z0-9-]+:[A-Za-z0-9*]+)")
_SIGN_IN = (
    "sign in again (aws sso login, or new keys in AWS_PROFILE or the environment), then run the same command"
)


def request_token() -> str:
    """What tells AWS that a call whose answer was lost, and that boto3 makes again, is the same call."""
    return f"gridwright-{uuid4()}"


class CloudError(GridwrightError):
    """A call that AWS refused or did not answer. `code` is AWS's own, empty where it said nothing."""

    def __init__(self, problem: Problem, *, code: str = "", message: str = "") -> None:
        super().__init__(problem, status=ExitStatus.ENVIRONMENT)
        self.code = code
        self.message = message
        """What AWS itself said."""


class Cloud:
    """Calls to the services of one region."""

    def __init__(self, region: str) -> None:
        self.region = region
        self._clients: dict[str, Any] = {}
        self._session: Any = None

    def call(self, service: str, operation: str, **arguments: object) -> dict[str, Any]:
        """Carry out an operation of a service, by its names in boto3. Raises CloudError."""
        try:
            found: dict[str, Any] = getattr(self._client(service), operation)(**arguments)
        except Exception as error:
            raise self._translated(error, service, operation) from error
        return found

    def listed(self, service: str, operation: str, key: str, **arguments: object) -> Iterator[Any]:
        """Everything under `key` of all pages of an operation. Raises CloudError."""
        try:
            client = self._client(service)
            if not client.can_paginate(operation):
                yield from getattr(client, operation)(**arguments).get(key, [])
                return
            for page in client.get_paginator(operation).paginate(**arguments):
                yield from page.get(key) or []
        except GeneratorExit:
            raise
        except Exception as error:
            raise self._translated(error, service, operation) from error

    def _client(self, service: str) -> Any:  # noqa: ANN401 - boto3 has no types
        if service not in self._clients:
            try:
                import boto3
                from botocore.config import Config
            except ImportError:
                raise environment_error(
                    "boto3 is not installed, and AWS is reached through it",
                    remedy="pip install 'gridwright[aws]'",
                ) from None
            if self._session is None:
                hold_settings_of_home()
                self._session = boto3.session.Session()
            config = Config(
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=READ_TIMEOUT_S,
                retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
            )
            self._clients[service] = self._session.client(service, region_name=self.region, config=config)
        return self._clients[service]

    def _translated(self, error: Exception, service: str, operation: str) -> Exception:
        """The error that users see; what is neither AWS's nor the network's stays as it is."""
        if isinstance(error, GridwrightError):
            return error
        if not type(error).__module__.startswith(("botocore", "boto3", "s3transfer", "urllib3")):
            return error
        return translated(error, service, operation, self.region, self._regions)

    def _regions(self) -> list[str]:
        return [
            name
            for partition in ("aws", "aws-us-gov", "aws-cn")
            for name in self._session.get_available_regions("ec2", partition_name=partition)
        ]


def action_of(operation: str) -> str:
    """AWS's own name of an operation of boto3: CreateVpc of create_vpc."""
    return "".join(word.capitalize() for word in operation.split("_"))


def translated(
    error: Exception,
    service: str,
    operation: str,
    region: str,
    regions: Any = lambda: (),  # noqa: ANN401 - a function that gives the names of regions that are known
) -> CloudError:
    """What boto3 raised, as the error that users see."""
    found = getattr(error, "response", None)
    # Errors of the network have a field of this name, too, with something else in it.
    response: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    code = str(response.get("Error", {}).get("Code", ""))
    message = str(response.get("Error", {}).get("Message", ""))
    api = action_of(operation)
    where = f"AWS, {region}"
    if code:
        what, remedy = _refusal(code, message, service, api, region)
    else:
        what, remedy = _no_answer(error, region, list(regions()))
    return CloudError(Problem(what=what, where=where, remedy=remedy), code=code, message=message)


def _refusal(  # noqa: PLR0911 - one answer for each kind of refusal
    code: str, message: str, service: str, api: str, region: str
) -> tuple[str, str]:
    if code in _EXPIRED:
        return "the credentials for AWS have expired", _SIGN_IN
    if code in _UNKNOWN_KEY:
        return (
            f"AWS does not accept the credentials ({code})",
            f"{_SIGN_IN}; an account that has not switched region {region} on is refused in the same way",
        )
    if code in _SIGNATURE:
        return (
            f"AWS does not accept how the request was signed ({code})",
            "look whether the secret key belongs to the access key, and whether the clock here is right",
        )
    if code == "OptInRequired":
        return (
            f"the account has not switched region {region} or {service} on: {message}",
            "switch it on in the console of the account, or choose another region",
        )
    if _THROTTLED.search(code):
        return (
            f"AWS throttles {service}:{api}, also after {ATTEMPTS} tries",
            "wait a minute, then run the same command: it goes on where this one stopped",
        )
    if code in DENIED or "not authorized to perform" in message:
        return _denied(message, service, api)
    if found := reason_remedy(f"{code}: {message}"):
        return f"AWS refuses {service}:{api}: {message} ({code})", found
    return (
        f"AWS refuses {service}:{api}: {message} ({code})",
        "mend what it says, then run the same command",
    )


def _denied(message: str, service: str, api: str) -> tuple[str, str]:
    found = _ACTION.search(message)
    action = found[1] if found else f"{service}:{api}"
    return (
        f"these credentials may not do {action}",
        f"have an administrator of the account allow {action}, or choose another AWS_PROFILE",
    )


def _no_answer(error: Exception, region: str, regions: list[str]) -> tuple[str, str]:
    kind = type(error).__name__
    if kind == "ProfileNotFound":
        return f"{error}", "write AWS_PROFILE as it stands in ~/.aws/config"
    if kind == "NoCredentialsError":
        return (
            "there are no credentials for AWS here",
            "run aws configure or aws sso login, or set AWS_PROFILE; see gridwright help aws",
        )
    if "Token" in kind or "Credential" in kind or kind == "LoginRefreshRequired":
        return f"the credentials for AWS cannot be used: {error}", _SIGN_IN
    if regions and region not in regions:
        near = nearest(region, regions)
        return (
            f"region {region} does not answer, and is none that boto3 knows",
            f"write region: {near}" if near else f"regions are {', '.join(regions)}",
        )
    if kind in ("ParamValidationError", "UnknownServiceError"):
        return f"a request to AWS is wrong: {error}", "please report it, with the grid spec"
    return (
        f"AWS did not answer: {error}",
        "look at the network, AWS_ENDPOINT_URL and the proxy settings, then run the same command",
    )


def reason_remedy(reason: str) -> str | None:
    """What to do about a reason that AWS gives, also in an event of a stack; None for those not known."""
    if "VcpuLimitExceeded" in reason or "vCPU" in reason:
        return (
            "ask for a higher quota of vCPUs for this family of instances (Service Quotas, Amazon EC2), or "
            "write fewer or smaller nodes"
        )
    if "InsufficientInstanceCapacity" in reason or "sufficient capacity" in reason:
        return (
            "the zone has none of this type at the moment: try again later, choose another instance type, "
            "or write placement_group: false"
        )
    if _QUOTA.search(reason):
        return (
            "ask for a higher quota (console: Service Quotas), or remove what is no longer needed, then run "
            "the same command"
        )
    if "not authorized to perform" in reason or "AccessDenied" in reason or "UnauthorizedOperation" in reason:
        found = _ACTION.search(reason)
        return f"have an administrator allow {found[1] if found else 'what the reason names'}"
    if "already exists" in reason.lower():
        return "remove or rename what exists already, or give the grid another name"
    return None
