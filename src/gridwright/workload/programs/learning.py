"""Tests that learn: HPFOREST, GRADBOOST and FASTCLUS, and how good an answer has to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridwright.workload.datasets.table import Floats, Integers
from gridwright.workload.datasets.tables import CENTRES, CLUSTERED, FACTORED, LABEL_NOISE, LABELS
from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program
from gridwright.workload.programs.sampling import (
    STANDARD_ERRORS,
    columns_of,
    quiet,
    read_sample,
    write_result,
)

if TYPE_CHECKING:
    import pyarrow as pa


_LOST = 0.06
"""Share of rows so near a border of the rule that a few hundred rows do not show their side."""


def _read_labelled(launch: Launch, limit: int) -> tuple[NDArray[np.float32], Integers]:
    """Read predictors, missing ones included, and labels of at most `limit` rows: (rows, columns), (rows,).

    Counts the labels of all rows. Raises WrongAnswer and OSError.
    """
    count = np.zeros(LABELS, dtype=np.int64)

    def tally(batch: pa.RecordBatch) -> None:
        label = columns_of(batch, ["label"])[0].astype(np.int64)
        launch.require("a label does not exist", bool(((label >= 0) & (label < LABELS)).all()))
        count[:] += np.bincount(label, minlength=LABELS)

    rows = read_sample(launch, "observations", (*FACTORED, "label"), limit, tally)
    for number, expected in enumerate(launch.facts("observations").expected["rows_by_label"]):
        launch.check(f"rows of label {number}", int(count[number]), expected)
    return rows[:, :-1].astype(np.float32), rows[:, -1].astype(np.int64)


def _check_accuracy(launch: Launch, found: Integers, truth: Integers) -> None:
    """Check predictions of rows that were not learned from. Raises WrongAnswer."""
    accuracy = float((found == truth).mean())
    # A label drawn at random is still right in one of LABELS.
    best = 1 - (1 - 1 / LABELS) / LABEL_NOISE
    error = STANDARD_ERRORS * float(np.sqrt(best * (1 - best) / len(truth)))
    launch.require(
        f"accuracy is {accuracy:.4f}, expected {best - _LOST:.4f} to {best:.4f} within {error:.4f}",
        best - _LOST - error <= accuracy <= best + error,
    )


_AT_ONCE = 65_536


def _run_forest(launch: Launch) -> None:
    """Mirrors PROC HPFOREST: a forest of decision trees for a label of four classes.

    I/O: reads the observations from data once; writes the predicted label and its probability of up to
    half of `forest_rows` rows, which no tree has seen, to work.
    Check: rows by label, counted when the table was made; accuracy on rows that no tree has seen, which
    the noise of the labels bounds from above and the rule behind them from below; the predictors of that
    rule matter most.
    """
    from sklearn.ensemble import RandomForestClassifier

    rows, label = _read_labelled(launch, launch.settings["forest_rows"])
    # A leaf takes about 100 bytes; this keeps a tree in proportion to its rows.
    forest = RandomForestClassifier(
        launch.settings["forest_trees"],
        min_samples_leaf=20,
        max_features=0.4,
        n_jobs=launch.cores,
        random_state=0,
    )
    with quiet():
        forest.fit(rows[::2], label[::2])
        unseen, truth = rows[1::2], label[1::2]
        blocks = [forest.predict_proba(unseen[at : at + _AT_ONCE]) for at in range(0, len(unseen), _AT_ONCE)]
        probability = np.concatenate(blocks)
    place = np.argmax(probability, axis=1)
    found = np.asarray(forest.classes_)[place].astype(np.int64)
    write_result(launch, "labels", {"label": found, "probability": probability.max(axis=1)})
    _check_accuracy(launch, found, truth)
    most = {FACTORED[number] for number in np.argsort(forest.feature_importances_)[-2:].tolist()}
    launch.require(f"{sorted(most)} matter most, not x05 and x12", most == {"x05", "x12"})


FOREST_PROGRAM = Program(
    name="forest",
    class_="computation",
    mirrors="PROC HPFOREST",
    engine="scikit-learn",
    tables=("observations",),
    run=_run_forest,
    work={"observations": 8 / 384},
    threaded=True,
)


def _run_boost(launch: Launch) -> None:
    """Mirrors PROC GRADBOOST: gradient boosting of trees for a label of four classes.

    I/O: reads the observations from data once; writes the predicted label and its probability of up to
    half of `boost_rows` rows, which no tree has seen, to work.
    Check: rows by label, counted when the table was made; accuracy on rows that no tree has seen, which
    the noise of the labels bounds from above and the rule behind them from below; the predictors of that
    rule matter most.
    """
    import lightgbm

    rows, label = _read_labelled(launch, launch.settings["boost_rows"])
    unseen, truth = rows[1::2], label[1::2]
    options = {
        "objective": "multiclass",
        "num_class": LABELS,
        "learning_rate": 0.1,
        "num_leaves": 15,
        "min_data_in_leaf": 20,
        "feature_fraction": 0.8,
        "num_threads": launch.cores,
        "deterministic": True,
        "force_row_wise": True,
        "seed": 0,
        "verbosity": -1,
    }
    with quiet():
        data = lightgbm.Dataset(rows[::2], label[::2], params=options)
        model = lightgbm.train(options, data, num_boost_round=launch.settings["boost_rounds"])
        parts = [model.predict(unseen[at : at + _AT_ONCE]) for at in range(0, len(unseen), _AT_ONCE)]
        probability = np.concatenate([np.asarray(part) for part in parts])
    found = np.argmax(probability, axis=1).astype(np.int64)
    write_result(launch, "labels", {"label": found, "probability": probability.max(axis=1)})
    _check_accuracy(launch, found, truth)
    gain = np.asarray(model.feature_importance("gain"))
    most = {FACTORED[number] for number in np.argsort(gain)[-2:].tolist()}
    launch.require(f"{sorted(most)} matter most, not x05 and x12", most == {"x05", "x12"})


BOOST_PROGRAM = Program(
    name="boost",
    class_="computation",
    mirrors="PROC GRADBOOST",
    engine="LightGBM",
    tables=("observations",),
    run=_run_boost,
    work={"observations": 8 / 384},
    threaded=True,
)


def _run_cluster(launch: Launch) -> None:
    """Mirrors PROC FASTCLUS: k-means from seeds that are far apart, for several numbers of clusters.

    I/O: reads the observations from data once; writes the cluster and the distance of up to
    `cluster_rows` rows to work.
    Check: rows nearest to each true centre, counted when the table was made; the centres and the
    variance within the clusters, which are known; sums of squares fall as clusters are added.
    """
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


CLUSTER_PROGRAM = Program(
    name="cluster",
    class_="computation",
    mirrors="PROC FASTCLUS",
    engine="scikit-learn",
    tables=("observations",),
    run=_run_cluster,
    work={"observations": 16 / 384},
    threaded=True,
)
