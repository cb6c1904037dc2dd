"""Mirrors PROC GRADBOOST: gradient boosting of trees for a label of four classes.

I/O: reads the observations from data once; writes the predicted label and its probability of up to
half of `boost_rows` rows, which no tree has seen, to work.
Check: rows by label, counted when the table was made; accuracy on rows that no tree has seen, which
the noise of the labels bounds from above and the rule behind them from below; the predictors of that
rule matter most.
"""

from __future__ import annotations

import numpy as np

from gridwright.workload.datasets.observations import FACTORED, LABELS
from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.labels import check_accuracy, read_labelled
from gridwright.workload.programs.program import Program
from gridwright.workload.programs.sampling import quiet, write_result

_AT_ONCE = 65_536


def _run(launch: Launch) -> None:
    import lightgbm

    rows, label = read_labelled(launch, launch.settings["boost_rows"])
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
    check_accuracy(launch, found, truth)
    gain = np.asarray(model.feature_importance("gain"))
    most = {FACTORED[number] for number in np.argsort(gain)[-2:].tolist()}
    launch.require(f"{sorted(most)} matter most, not x05 and x12", most == {"x05", "x12"})


PROGRAM = Program(
    name="boost",
    class_="computation",
    mirrors="PROC GRADBOOST",
    engine="LightGBM",
    tables=("observations",),
    run=_run,
    work={"observations": 8 / 384},
    threaded=True,
)
