"""All looks together, each for itself: what these credentials may not look at is said."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from gridwright.catalog import load_catalog
from gridwright.errors import GRAVEST_FIRST, Finding
from gridwright.providers.aws.kept_images import images_to_keep
from gridwright.providers.aws.layout import AwsLayout
from gridwright.providers.aws.preflight.images import image_findings
from gridwright.providers.aws.preflight.key import key_findings
from gridwright.providers.aws.preflight.linked_roles import linked_role_findings
from gridwright.providers.aws.preflight.needs import needs
from gridwright.providers.aws.preflight.quotas import Quota, all_quotas, too_small
from gridwright.providers.aws.preflight.rights import rights_findings
from gridwright.providers.aws.preflight.secrets import secret_findings
from gridwright.providers.aws.preflight.site_names import group_findings
from gridwright.providers.aws.preflight.site_names import zone_findings as hosted_zone_findings
from gridwright.providers.aws.preflight.site_vpc import subnet_findings, vpc_findings
from gridwright.providers.aws.preflight.site_ways import way_findings
from gridwright.providers.aws.preflight.topic import topic_findings
from gridwright.providers.aws.preflight.usage import AccountUsage
from gridwright.providers.aws.preflight.zone import zone_findings
from gridwright.providers.aws.session import DENIED, Cloud, CloudError
from gridwright.providers.aws.stacks import Stacks
from gridwright.providers.caller import Caller
from gridwright.providers.preflight import Preflight, QuotaUse
from gridwright.spec.model import GridSpec

SILENT = ""
"""The code of a service that did not answer, such as one without an endpoint in a closed network."""
_NOT_TOLD = frozenset({*DENIED, "NoSuchResourceException", "NotFoundException", SILENT})
"""Answers that leave a look undone: no right to it, a region without what is asked, none at all."""


def preflight(spec: GridSpec, layout: AwsLayout, cloud: Cloud) -> Preflight:
    """Look at what the making of a grid would fail of; nothing is made. Raises CloudError.

    Expired credentials, and an account that does not say whose it is, are errors: nothing can be looked at.
    """
    caller = cloud.call("sts", "get_caller_identity")
    account = str(caller["Account"])
    catalog = load_catalog(spec.file.parent if spec.file else None)
    findings: list[Finding] = []
    stacks = Stacks(cloud, Caller())
    looks: dict[str, Callable[[], Iterable[Finding]]] = {
        "zones and instance types": lambda: zone_findings(cloud, layout),
        "images": lambda: image_findings(cloud, layout, catalog, images_to_keep(stacks, spec, layout)),
        "permissions": lambda: rights_findings(cloud, layout, catalog),
        "the KMS key": lambda: key_findings(cloud, layout, account),
        "the topic of alarms": lambda: topic_findings(cloud, layout, account),
        "the VPC": lambda: vpc_findings(cloud, layout, account),
        "subnets and addresses": lambda: subnet_findings(cloud, spec, layout),
        "routes and endpoints": lambda: way_findings(cloud, spec, layout),
        "security groups": lambda: group_findings(cloud, layout),
        "the hosted zone": lambda: hosted_zone_findings(cloud, layout),
        "the secret of the directory of users": lambda: secret_findings(cloud, spec, layout),
        "service-linked roles": lambda: linked_role_findings(cloud, spec, layout),
    }
    for what, look in looks.items():
        findings += _looked(what, look)[0]
    figures: list[QuotaUse] = []
    wanted, usage = needs(spec, layout, catalog), AccountUsage(cloud, catalog, spec.name, layout.aws.zone)
    for quota in all_quotas():
        if needed := quota.sum(wanted):
            look = partial(_count, quota, needed, cloud, usage, figures)
            found, code = _looked(f"quota {quota.name}", look)
            findings += found
            if code == SILENT:
                # Each of them would be waited for as long.
                break
    findings += too_small(figures, cloud.region)
    return Preflight(
        grid=spec.name,
        provider=spec.provider,
        facts={
            "account": account,
            "caller": str(caller["Arn"]),
            "region": cloud.region,
            "zone": layout.aws.zone,
        },
        figures=tuple(figures),
        findings=tuple(sorted(findings, key=lambda each: GRAVEST_FIRST[each.level])),
    )


def _count(
    quota: Quota, needed: float, cloud: Cloud, usage: AccountUsage, figures: list[QuotaUse]
) -> Iterable[Finding]:
    used = quota.sum(usage.of(quota.kind))
    code = f"{quota.service}/{quota.code}"
    figures.append(
        QuotaUse(quota.name, code, quota.unit, quota.limit(cloud), round(used, 3), round(needed, 3))
    )
    return ()


def _looked(what: str, look: Callable[[], Iterable[Finding]]) -> tuple[list[Finding], str | None]:
    """What was found, or that it was not looked at, then with the code of AWS's answer."""
    try:
        return list(look()), None
    except CloudError as error:
        if error.code not in _NOT_TOLD:
            raise
        (problem,) = error.problems
        remedy = f"{problem.remedy}; without it, up finds out as it goes"
        return [Finding("info", "not-looked-at", f"{what}: {problem.what}", remedy)], error.code
