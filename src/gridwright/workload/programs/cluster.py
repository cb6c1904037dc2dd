"""Mirrors PROC FASTCLUS: k-means from seeds that are far apart, for several numbers of clusters.

I/O: reads the observations from data once; writes the cluster and the distance of up to
`cluster_rows` rows to work.
Check: rows nearest to each true centre, counted when the table was made; the centres and the
variance within the clusters, which are known; sums of squares fall as clusters are added.
"""

from __future__ import annotations

import numpy as np

from gridwright.workload.datasets.observations import CENTRES, CLUSTERED
from gridwright.workload.datasets.quantiles import Floats, Integers
from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program
from gridwright.workload.programs.sampling import STANDARD_ERRORS, quiet, read_sample, write_result

_AT_ONCE = 65_536


def _run(launch: Launch) -> None:
    from sklearn.cluster import KMeans

    rows = read_sample(launch, "observations", CLUSTERED, launch.settings["cluster_rows"])
    true = len(CENTRES)
    with quiet():
        chosen = KMeans(true, init=_seeds(rows, true), n_init=1).fit(rows)
        _check_clusters(launch, rows, chosen.cluster_centers_, chosen.labels_)
        within = float(chosen.inertia_)
        distance = np.empty(len(rows))
        for start in range(0, len(rows), _AT_ONCE):
            block = slice(start, start + _AT_ONCE)
            apart = rows[block] - chosen.cluster_centers_[chosen.labels_[block]]
            distance[block] = np.sqrt(np.einsum("ij,ij->i", apart, apart))
        for count in range(2, launch.settings["cluster_most"] + 1):
            squares = float(KMeans(count, n_init=2, random_state=count).fit(rows).inertia_)
            # No partition into at most the true number of clusters is better than the true one.
            if count <= true:
                launch.require(
                    f"{count} clusters have less variance than the true ones", squares > within * 0.999
                )
            else:
                launch.require(
                    f"{count} clusters explain nothing", squares < float(rows.var(axis=0).sum()) * len(rows)
                )
    write_result(launch, "clusters", {"cluster": chosen.labels_.astype(np.int64), "distance": distance})


def _seeds(rows: Floats, count: int) -> Floats:
    """Rows far from each other: each is the furthest from those before it. Shape (count, columns)."""
    seeds = [rows[0]]
    nearest = np.full(len(rows), np.inf)
    while len(seeds) < count:
        apart = rows - seeds[-1]
        nearest = np.minimum(nearest, np.einsum("ij,ij->i", apart, apart))
        seeds.append(rows[int(np.argmax(nearest))])
    return np.array(seeds)


def _check_clusters(launch: Launch, rows: Floats, centres: Floats, labels: Integers) -> None:
    facts = launch.facts("observations")
    whole = len(rows) == facts.rows
    squares = 0.0
    for number, truth in enumerate(np.array(CENTRES, dtype=np.float64)):
        nearest = int(np.argmin(np.square(centres - truth).sum(axis=1)))
        members = rows[labels == nearest]
        launch.require(f"cluster {number} has {len(members)} rows", len(members) > 1)
        error = STANDARD_ERRORS / np.sqrt(len(members))
        for column, name in enumerate(CLUSTERED):
            found = float(centres[nearest, column])
            launch.check(f"{name} of cluster {number}", found, truth[column], tolerance=error)
        squares += float(np.square(members - centres[nearest]).sum())
        # Rows half-way between two centres are so rare that a few of them may fall on either side.
        share = facts.expected["rows_by_cluster"][number] / facts.rows
        expected = share * len(rows)
        spread = 2 + 1e-5 * len(rows) if whole else STANDARD_ERRORS * np.sqrt(expected) + 1
        launch.check(f"rows of cluster {number}", len(members), expected, tolerance=spread)
    values = len(rows) * len(CLUSTERED)
    error = STANDARD_ERRORS * np.sqrt(2 / values) + len(CENTRES) / len(rows) + 1e-3
    launch.check("variance within clusters", squares / values, 1.0, tolerance=error)


PROGRAM = Program(
    name="cluster",
    class_="computation",
    mirrors="PROC FASTCLUS",
    engine="scikit-learn",
    tables=("observations",),
    run=_run,
    work={"observations": 16 / 384},
    threaded=True,
)
