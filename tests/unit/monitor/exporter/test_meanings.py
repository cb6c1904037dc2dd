"""Each series says what it is, in words of its own."""

from __future__ import annotations

from gridwright.monitor.exporter.metric_families import MEANINGS, OF_READINGS
from gridwright.monitor.readings import LABELS


def test_each_reading_that_is_told_has_a_sentence_of_its_own() -> None:
    assert [metric for metric in OF_READINGS if metric not in MEANINGS] == []
    assert set(MEANINGS) <= set(LABELS)
    assert len(set(MEANINGS.values())) == len(MEANINGS)
    assert [text for text in MEANINGS.values() if not text.endswith(".") or "|" in text] == []
