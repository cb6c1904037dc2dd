"""Makes the table of distributions in docs/setup.md.

Run `python -m gridwright.setup.distributions_page docs/setup.md` to bring the file up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gridwright.setup.distributions import Distribution, Platform, distributions
from gridwright.spec.reference import with_parts

_BOTO3 = {"apt": "package", "pip": "PyPI, in Python 3.12 or 3.11"}


def distributions_table() -> str:
    """The table: what is supported on both clouds, where things come from, how it was tried."""
    clouds = "on AWS | on Oracle Cloud"
    head = f"distribution | {clouds} | ansible-core | boto3 | Slurm | Lustre client | logs in as | tried"
    lines = [f"| {head} |", "|" + "---|" * (head.count("|") + 1)]
    return "\n".join([*lines, *(_row(distribution) for distribution in distributions())])


def refreshed(text: str) -> str:
    """The page with its table made anew. Raises ValueError when it has no markers."""
    return with_parts(text, {"distributions": distributions_table()})


def _row(distribution: Distribution) -> str:
    known = distribution.built
    support = f"`{distribution.name}`" if distribution.in_cloud else f"no: {distribution.reason}"
    cells = [
        distribution.title,
        support,
        f"`{distribution.name}`" if distribution.is_on_oci else "no",
        *(_of_platform(known, distribution) if known else ("", "", "", "")),
        distribution.user
        if distribution.oci_user is None
        else f"{distribution.user}, on Oracle Cloud {distribution.oci_user}",
        distribution.tried,
    ]
    return f"| {' | '.join(cells)} |"


def _of_platform(known: Platform, distribution: Distribution) -> tuple[str, str, str, str]:
    slurm = {
        "distribution": f"{known.slurm.release}, its own",
        "epel": f"{known.slurm.release}, EPEL",
        "site": f"`slurm_repository`: {known.slurm.why}",
    }[known.slurm.origin]
    client = (
        "its own"
        if distribution.os.id == "amzn"
        else "of AWS"
        if known.lustre
        else "`lustre_client_repository`"
    )
    return known.ansible.release, _BOTO3[known.boto3], slurm, client


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(refreshed(page.read_text("utf-8")), "utf-8")
