"""The requests of one call of `submit`, which may wait for each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gridwright.schedulers.job import JobRequest
from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.slurm.dependencies import BY_TOKEN, resolve
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.submission import SbatchCall


class Batch:
    """Requests in order, each with its token; what one waits for stands before it."""

    def __init__(self, tokens: Sequence[str], requests: Sequence[JobRequest]) -> None:
        self.tokens = list(tokens)
        self.requests = list(requests)
        self.numbers: dict[str, int] = {}
        """Slurm's numbers of those that it has taken, by token."""

    @property
    def unnumbered(self) -> Mapping[str, int]:
        """Every token with no number yet: to look dependencies up before anything is submitted."""
        return dict.fromkeys(self.tokens, 0)

    @property
    def arrays(self) -> Mapping[str, Sequence[int] | None]:
        """Indices by token."""
        return {token: each.array for token, each in zip(self.tokens, self.requests, strict=True)}

    @property
    def depends_on_itself(self) -> bool:
        """Whether one of them waits for another one of them."""
        return any(f"{BY_TOKEN}" in text for each in self.requests for text in each.after)

    def calls(self, record: JobRecord) -> Iterator[SbatchCall]:
        """The call of sbatch for each, made when it is its turn: earlier ones have their numbers then."""
        for token, request in zip(self.tokens, self.requests, strict=True):
            waits_for = resolve(record, request, self.numbers, self.arrays)
            yield SbatchCall(
                request=request,
                tag=JobTag(token, 0),
                elements=request.array,
                after=waits_for.after,
                doomed=waits_for.doomed is not None,
                doomed_elements=sorted(waits_for.doomed_elements),
            )
