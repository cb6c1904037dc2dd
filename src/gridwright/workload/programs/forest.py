"""Mirrors PROC HPFOREST: a forest of decision trees for a label of four classes.

I/O: reads the observations from data once; writes the predicted label and its probability of up to
half of `forest_rows` rows, which no tree has seen, to work.
Check: rows by label, counted when the table was made; accuracy on rows that no tree has seen, which
the noise of the labels bounds from above and the rule behind them from below; the predictors of that
rule matter most.
"""

from __future__ import annotations

import numpy as np

from gridwright.workload.datasets.observations import FACTORED
from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.labels import check_accuracy, read_labelled
from gridwright.workload.programs.program import Program
from gridwright.workload.programs.sampling import quiet, write_result

_AT_ONCE = 65_536


def _run(launch: Launch) -> None:
    from sklearn.ensemble import RandomForestClassifier

    rows, label = read_labelled(launch, launch.settings["forest_rows"])
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
    check_accuracy(launch, found, truth)
    most = {FACTORED[number] for number in np.argsort(forest.feature_importances_)[-2:].tolist()}
    launch.require(f"{sorted(most)} matter most, not x05 and x12", most == {"x05", "x12"})


PROGRAM = Program(
    name="forest",
    class_="computation",
    mirrors="PROC HPFOREST",
    engine="scikit-learn",
    tables=("observations",),
    run=_run,
    work={"observations": 8 / 384},
    threaded=True,
)
