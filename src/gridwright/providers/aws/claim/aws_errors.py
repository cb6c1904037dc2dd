"""Puts refusals of AWS into words that say what to do next."""

from __future__ import annotations

from typing import Any

from gridwright.node_programs.scratch.problems import Trouble

_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedAccess")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidClientTokenId", "AuthFailure")
_THROTTLED = (
    *("Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException"),
    "ProvisionedThroughputExceededException",
)
_AGAIN = "systemctl restart gridwright-claim"
_LIMITS = ("AttachmentLimitExceeded",)


def explained(error: Any, what: str, table: str) -> Trouble:  # noqa: ANN401 - boto3 has no types of its own
    """An error of boto3 as something that is wrong, and what to do about it."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return _unreached(error, what)
    code = str(response.get("Error", {}).get("Code", ""))
    said = " ".join(str(response.get("Error", {}).get("Message", "")).split())[:400]
    action = getattr(error, "operation_name", "?")
    if code in _DENIED:
        return Trouble(
            f"{what}: this instance may not call {action}: {said}",
            "its role has to allow that; the grid's own roles do: gridwright up makes them as they should be",
        )
    if code == "ResourceNotFoundException":
        return Trouble(
            f"{what}: the table of claims, {table}, is not there",
            "gridwright up makes it; a table that was deleted can be restored from its backups. "
            "Nothing was attached or formatted",
        )
    if code in _EXPIRED:
        return Trouble(
            f"{what}: AWS does not take the credentials of this instance ({code}): {said}",
            f"see that its clock is right (chronyc tracking) and that its role exists; then {_AGAIN}",
        )
    remedy = f"mend what it says, then {_AGAIN}"
    if code in _THROTTLED:
        remedy = f"AWS lets no more requests through; in a minute: {_AGAIN}"
    elif code in _LIMITS:
        remedy = "choose an instance type to which more volumes can be attached"
    return Trouble(f"{what}: AWS answers {code}: {said}", remedy)


def _unreached(error: Any, what: str) -> Trouble:  # noqa: ANN401
    kind = type(error).__name__
    said = " ".join(str(error).split())[:400]
    if "Credential" in kind:
        return Trouble(
            f"{what}: there are no credentials: {said}",
            "the instance needs a role (an instance profile): gridwright up gives it one",
        )
    return Trouble(
        f"{what}: {said}",
        "see that the machine reaches AWS: the route to the NAT gateway or the proxy, the endpoints of the "
        f"VPC, its security group; then {_AGAIN}",
    )
