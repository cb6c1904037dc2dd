"""How much of a repository's files is used, and what its objects cost by storage class, for the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gridwright.repository.ages import OLDER, UseOfFiles
from gridwright.repository.class_costs import ClassCost
from gridwright.units import counted, format_bytes


@dataclass(frozen=True, slots=True)
class UseReport:
    """Of one repository."""

    repository: str
    directory: str
    region: str
    """Whose prices they are."""
    use: UseOfFiles
    costs: Sequence[ClassCost]

    def document(self) -> dict[str, Any]:
        """The result for programs."""
        return {
            "repository": self.repository,
            "directory": self.directory,
            "region": self.region,
            "files": self.use.files,
            "bytes": self.use.bytes,
            "last_used": [{**asdict(each), "share": self._share(each.bytes)} for each in self.use.classes],
            "storage_classes": [asdict(each) for each in self.costs],
            "notes": self.use.notes,
            "problems": self.use.failed.document(),
        }

    def text(self) -> str:
        """The result for people."""
        lines = [
            f"{self.repository}: {self.directory}, {counted(self.use.files, 'file')} "
            f"({format_bytes(self.use.bytes)})"
        ]
        before = ""
        for each in self.use.classes:
            # Each class is the files that are in none before: the words say so, and add up to all.
            span = f"{before} to {each.within} ago" if before else f"within {each.within}"
            head = f"  last used {span if each.within != OLDER else OLDER}"
            before = each.within
            lines.append(
                f"{head:<32} {self._share(each.bytes):6.1%}  {counted(each.files, 'file')} "
                f"({format_bytes(each.bytes)})"
            )
        lines.append(f"  objects a month, at prices of {self.region}:")
        lines += [f"    {_cost(each)}" for each in self.costs]
        if any(each.usd_per_month is None for each in self.costs):
            lines.append("    a price that is not known: write it under prices: services: in catalog.yaml")
        lines += [f"  {note}" for note in self.use.notes]
        lines += [f"  {each}" for each in self.use.failed.lines()]
        return "\n".join(lines)

    def _share(self, size: int) -> float:
        return size / self.use.bytes if self.use.bytes else 0.0


def _cost(cost: ClassCost) -> str:
    month = "not known" if cost.usd_per_month is None else f"{cost.usd_per_month:,.2f} USD"
    if cost.unused_for is None:
        return f"all in {cost.storage_class}: {month}"
    back = "not known" if cost.retrieval_usd is None else f"{cost.retrieval_usd:,.2f} USD"
    return (
        f"what was not used for {cost.unused_for} in {cost.storage_class} ({format_bytes(cost.bytes)}): "
        f"{month}, and {back} to read that once"
    )
