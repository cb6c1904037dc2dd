"""What docs/repository.md says that can be lost is what tests hold: each sentence of it has one here."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/repository.md"
HEADING = "### What can be lost, and when\n"
HELD = {
    "User": "integration/test_no_byte_lost.py::test_no_byte_that_was_stored_is_gone_from_both_sides",
    "Only copies": "integration/test_lost_names.py"
    "::test_a_name_whose_object_is_gone_is_named_until_somebody_gives_it_up",
    "--prefer": "integration/test_repository_placing.py"
    "::test_a_changed_file_that_the_bucket_wins_over_is_in_the_trash",
    "--deletions": "integration/test_mass_deletion.py"
    "::test_an_export_deletes_no_half_of_a_library_unless_it_is_named",
    "Stores": "integration/test_repository_stores.py"
    "::test_a_store_that_ignores_conditions_gets_nothing_and_keeps_what_others_wrote",
    "Clocks": "unit/repository/test_known_rows.py::test_a_ctime_is_known_when_it_is_older_than_the_look",
    "Snapshots": "integration/test_library_set_back.py"
    "::test_a_library_that_was_set_back_takes_nothing_newer_from_the_bucket",
    "Released files of a Lustre that move": "lustre/test_release.py"
    "::test_the_only_copy_of_a_released_file_stays_whatever_becomes_of_its_name",
    "NFS": "integration/test_repository_placing.py"
    "::test_where_no_lease_tells_the_old_file_stays_in_the_trash",
    "Open files": "integration/test_repository_placing.py::test_no_byte_of_a_writer_is_lost_beside_an_import",
    "Kills": "integration/test_release_races.py::test_a_release_that_is_killed_at_any_step_loses_nothing",
    "Several machines": "integration/test_repository_nodes.py"
    "::test_what_one_machine_has_released_another_one_neither_overwrites_nor_deletes",
    "Two libraries": "integration/test_repository_nodes.py"
    "::test_an_older_file_of_another_library_takes_the_place_of_no_newer_object",
}
"""How each sentence begins, and the test that holds it."""


def test_each_case_of_a_loss_has_a_test_that_is_there() -> None:
    said = PAGE.read_text("utf-8").partition(HEADING)[2].partition("\n### ")[0]
    cases = re.findall(r"^- \*\*(.+?)\.\*\* ", said, re.MULTILINE)
    unheld = "Power cuts"
    assert cases == [*HELD, unheld]
    assert "no test cuts the power" in said
    for place in HELD.values():
        file, _, name = place.partition("::")
        tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
        assert name in {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}, place
