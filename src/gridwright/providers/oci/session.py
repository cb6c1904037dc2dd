"""OCI reached through its own SDK: bounded time and tries, every failure as one sentence with a remedy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error
from gridwright.own_directories import hold_settings_of_home

ENDPOINT = "GRIDWRIGHT_OCI_ENDPOINT"
"""A place that answers in the place of all services of OCI: a proxy of the site's, or a double in tests."""
COMPUTE, NETWORK = ("core", "ComputeClient"), ("core", "VirtualNetworkClient")
"""Modules of the SDK and their classes, as `call` and others take them."""
CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 10, 60
ATTEMPTS = 6
LONGEST_RETRIES_S = 120
T = TypeVar("T")
_SIGN_IN = "sign in again (oci session authenticate, or a new API key), then run the same command"


class OciCallError(GridwrightError):
    """A call that OCI refused or did not answer. `code` is OCI's own, empty where it said nothing."""

    def __init__(self, problem: Problem, *, code: str = "", status: int = 0) -> None:
        super().__init__(problem, status=ExitStatus.ENVIRONMENT)
        self.code = code
        self.http_status = status


class OciCloud:
    """Calls to the services of one region, by the configuration of the user's OCI command line."""

    def __init__(self, region: str, endpoint: str | None = None) -> None:
        """`endpoint` is where all services are asked, by default each where the SDK knows it to be."""
        self.region = region
        self._endpoint = endpoint
        self._clients: dict[str, Any] = {}
        self._login: tuple[dict[str, Any], dict[str, Any]] | None = None

    def at(self, endpoint: str) -> OciCloud:
        """The same, for a service that has an address of its own, as each vault has."""
        found = OciCloud(self.region, endpoint)
        found._login = self._login
        return found

    @property
    def tenancy(self) -> str:
        """OCID of the tenancy that the credentials belong to. Raises GridwrightError."""
        config, more = self._credentials()
        return str(config.get("tenancy") or more["signer"].tenancy_id)

    @property
    def config(self) -> dict[str, Any]:
        """The SDK's configuration: whose key it is, and where. Raises GridwrightError."""
        return self._credentials()[0]

    def call(self, service: str, client: str, operation: str, *arguments: object, **more: object) -> Any:  # noqa: ANN401
        """The answer's data. `service` is a module of the SDK, `client` its class. Raises OciCallError."""
        made = self._client(service, client)
        return self._request(
            f"{service}:{operation}", lambda: getattr(made, operation)(*arguments, **more).data
        )

    def call_or_none(
        self, service: str, client: str, operation: str, *arguments: object, **more: object
    ) -> Any:  # noqa: ANN401
        """Call an operation; None where OCI says 404: it is not there, or hidden. Raises OciCallError."""
        try:
            return self.call(service, client, operation, *arguments, **more)
        except OciCallError as error:
            if error.http_status != 404:
                raise
            return None

    def started(self, service: str, client: str, operation: str, *arguments: object, **more: object) -> str:
        """The OCID of the work request that a call has begun. Raises OciCallError."""
        made = self._client(service, client)

        def begin() -> str:
            return str(getattr(made, operation)(*arguments, **more).headers["opc-work-request-id"])

        return self._request(f"{service}:{operation}", begin)

    def listed(
        self, service: str, client: str, operation: str, *arguments: object, **more: object
    ) -> list[Any]:
        """Everything of all pages. Raises OciCallError."""
        from oci.pagination import list_call_get_all_results

        method = getattr(self._client(service, client), operation)

        def read() -> list[Any]:
            data = list_call_get_all_results(method, *arguments, **more).data
            return list(getattr(data, "items", data))

        return self._request(f"{service}:{operation}", read)

    def _request(self, what: str, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except GridwrightError:
            raise
        except Exception as error:
            if not type(error).__module__.startswith(("oci", "requests", "urllib3")):
                raise
            raise translated(error, what, self.region) from error

    def _credentials(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if self._login is None:
            self._login = self._request("configuration", lambda: _credentials(self.region))
        return self._login

    def _client(self, service: str, client: str) -> Any:  # noqa: ANN401 - the SDK has no types
        if client not in self._clients:
            config, more = self._credentials()
            import importlib

            from oci.retry import RetryStrategyBuilder

            retry = RetryStrategyBuilder(
                max_attempts=ATTEMPTS,
                total_elapsed_time_seconds=LONGEST_RETRIES_S,
                retry_base_sleep_time_seconds=1,
                retry_max_wait_between_calls_seconds=15,
            ).get_retry_strategy()
            if place := os.environ.get(ENDPOINT) or self._endpoint:
                more = {**more, "service_endpoint": place}
            made = getattr(importlib.import_module(f"oci.{service}"), client)
            timeout = (CONNECT_TIMEOUT_S, READ_TIMEOUT_S)
            self._clients[client] = made(config, retry_strategy=retry, timeout=timeout, **more)
        return self._clients[client]


def _credentials(region: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The SDK's configuration, and the signer where it is not made of a key in that."""
    try:
        import oci
    except ImportError:
        raise environment_error(
            "oci is not installed, and Oracle's cloud is reached through it",
            remedy="pip install 'gridwright[oci]'",
        ) from None
    if os.environ.get("OCI_CLI_AUTH") == "instance_principal":
        signer = oci.auth.signers.InstancePrincipalsSecurityTokenSigner()
        return {"region": region}, {"signer": signer}
    hold_settings_of_home()
    profile = os.environ.get("OCI_CLI_PROFILE", "DEFAULT")
    place = os.environ.get("OCI_CLI_CONFIG_FILE", oci.config.DEFAULT_LOCATION)
    config = {**oci.config.from_file(place, profile), "region": region}
    if "security_token_file" not in config:
        return config, {}
    token = Path(config["security_token_file"]).expanduser().read_text(encoding="ascii").strip()
    key = oci.signer.load_private_key_from_file(config["key_file"], config.get("pass_phrase"))
    return config, {"signer": oci.auth.signers.SecurityTokenSigner(token, key)}


def translated(error: Exception, what: str, region: str) -> OciCallError:
    """What the SDK raised, as the error that users see."""
    code = str(getattr(error, "code", "") or "")
    status = getattr(error, "status", 0) or 0
    message = str(getattr(error, "message", "") or error)
    text, remedy = _explanation(type(error).__name__, code, int(status), message, what)
    return OciCallError(Problem(text, where=f"OCI, {region}", remedy=remedy), code=code, status=int(status))


def _explanation(kind: str, code: str, status: int, message: str, what: str) -> tuple[str, str]:  # noqa: PLR0911
    if kind in ("ConfigFileNotFound", "ProfileNotFound", "InvalidConfig", "InvalidKeyFilePath"):
        return (
            f"there are no usable credentials for OCI here: {message}",
            "run oci setup config, or set OCI_CLI_CONFIG_FILE and OCI_CLI_PROFILE",
        )
    if status == 401:
        return (
            f"OCI does not accept the credentials: expired, unknown, or a wrong clock here ({code})",
            _SIGN_IN,
        )
    if status == 429:
        return (
            f"OCI throttles {what}, also after {ATTEMPTS} tries",
            "wait a minute, then run the same command: it goes on where this one stopped",
        )
    if found := reason_remedy(f"{code}: {message}"):
        return f"OCI refuses {what}: {message} ({code})", found
    if status == 404:
        return (
            f"OCI refuses {what}: {message} ({code}); it says the same of what may not be seen",
            "look at the compartment, and have an administrator allow it by a policy",
        )
    if status:
        return (
            f"OCI refuses {what}: {message} ({code}, {status})",
            "mend what it says, then run the same command",
        )
    return (
        f"OCI did not answer {what}: {message}",
        f"look at the network, {ENDPOINT} and the proxy settings, then run the same command",
    )


def reason_remedy(reason: str) -> str | None:
    """What to do about a reason that OCI gives, also in the log of a job; None for those not known."""
    if "LimitExceeded" in reason or "QuotaExceeded" in reason or "service limit" in reason:
        return (
            "ask for a higher limit (console: Limits, Quotas and Usage), or write fewer or smaller machines, "
            "then run the same command"
        )
    if "prevent_destroy" in reason or "cannot be destroyed" in reason:
        return (
            "undo the change of what holds data, or name its file system by --replace: its volumes are made "
            "anew, empty, and what was on them is lost"
        )
    if "Out of host capacity" in reason or "OutOfHostCapacity" in reason:
        return "the domain has none of this shape at the moment: try later, or write another shape or domain"
    return None
