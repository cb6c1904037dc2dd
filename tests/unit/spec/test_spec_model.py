"""What a valid spec means: defaults, paths, and the declarations of every field."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from gridwright.errors import GridwrightError
from gridwright.spec import (
    GridSpec,
    init_text,
    load_spec,
    parse_spec,
)
from gridwright.spec.fields import Update
from gridwright.spec.structure import all_fields
from gridwright.units import Bytes, Rate

EXAMPLES = Path(__file__).parents[3] / "examples"
BUILT = sorted(each for each in EXAMPLES.rglob("*.yaml") if not each.name.startswith("requirements"))
DISK = "filesystems:\n  disk: {type: local, path: /data}\n"


@pytest.fixture
def smallest() -> GridSpec:
    return parse_spec(DISK, base=Path("/base"))


def test_the_smallest_spec_has_all_libraries_on_its_only_file_system(smallest: GridSpec) -> None:
    assert smallest.name == "grid"
    assert smallest.provider == "local"
    assert smallest.scheduler.type == "local"
    assert smallest.node_count() == 1
    assert list(smallest.libraries) == ["data", "work", "util"]
    assert smallest.library_directory("work") == Path("/data/work")
    assert smallest.filesystem_of("util").path == Path("/data")
    assert smallest.libraries["data"].requires is None


def test_every_field_is_read() -> None:
    spec = parse_spec(
        "name: demo\nprovider: local\nnodes:\n  batch: {count: 1}\n"
        "filesystems:\n  fast: {type: local, path: /fast}\n  slow: {type: local, path: ./slow/../slow2}\n"
        "libraries:\n"
        "  work: {filesystem: fast, requires: 125 MB/s/core, path: scratch/w, capacity: 1.5 TiB}\n"
        "  data: {filesystem: slow}\n"
        "scheduler: {type: local}\nsilence:\n  no-requirement: a test\n",
        base=Path("/specs"),
    )
    work = spec.libraries["work"]
    assert work.requires == Rate(125_000_000, per_core=True)
    assert work.capacity == Bytes(3 * 2**39)
    assert spec.library_directory("work") == Path("/fast/scratch/w")
    assert spec.library_directory("data") == Path("/specs/slow2/data")
    assert spec.silence == {"no-requirement": "a test"}
    assert list(spec.nodes) == ["batch"]


def test_aliases_are_expanded() -> None:
    spec = parse_spec(DISK + "libraries:\n  work: &w {requires: 1 MB/s/core}\n  util: *w\n")
    assert spec.libraries["util"].requires == Rate(1_000_000, per_core=True)
    assert spec.library_directory("util") == Path("/data/util")


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_breaks_and_byte_order_marks_do_not_matter(newline: str, mark: str) -> None:
    spec = parse_spec((mark + init_text()).replace("\n", newline).encode(), base=Path("/base"))
    assert spec.libraries["work"].requires == Rate(125_000_000, per_core=True)


def test_a_spec_can_be_dumped_and_read_again(smallest: GridSpec) -> None:
    full = parse_spec(DISK + "libraries:\n  work: {requires: 125 MB/s/core, capacity: 12 TiB}\n")
    dumped = full.model_dump(mode="json", exclude_none=True)
    assert dumped["libraries"]["work"]["requires"] == "125 MB/s/core"
    assert dumped["filesystems"]["disk"] == {
        "type": "local",
        "path": "/data",
        "suid": False,
        "format": "xfs",
        "chunk": "512 KiB",
    }
    assert GridSpec.model_validate(dumped).libraries == full.libraries
    assert GridSpec.model_validate(smallest) is smallest


@pytest.mark.parametrize("deployment", ["scratch-2", "persistent-1", "persistent-2"])
def test_a_grid_on_aws_can_be_written_out_in_full_and_read_again(deployment: str) -> None:
    text = init_text("aws").replace("persistent-2", deployment).replace("250 MB/s/TiB", "200 MB/s/TiB")
    spec = parse_spec(text, base=Path("/base"))
    whole = spec.model_dump(mode="json", exclude_none=True)
    again = GridSpec.model_validate(whole, context={"base": Path("/")})
    assert again.model_dump(mode="json", exclude_none=True) == whole, "up keeps it so in the stack"


@pytest.mark.parametrize("path", BUILT, ids=lambda path: path.name)
def test_every_example_can_be_written_out_in_full_and_read_again(path: Path) -> None:
    """A rule between fields must not refuse what is there by default: `up` could not compare."""
    whole = parse_spec(path.read_bytes(), base=path.parent).model_dump(mode="json", exclude_none=True)
    again = GridSpec.model_validate(whole, context={"base": path.parent})
    assert again.model_dump(mode="json", exclude_none=True) == whole


def test_a_spec_made_of_values_keeps_the_rules() -> None:
    with pytest.raises(ValidationError):
        GridSpec.model_validate(
            {
                "filesystems": {"disk": {"type": "local", "path": "/d"}},
                "libraries": {"work": {"filesystem": "tape"}},
            }
        )
    with pytest.raises(ValidationError):
        GridSpec.model_validate({"filesystems": {"disk": {"type": "local", "path": "relative"}}})


def test_a_spec_does_not_change(smallest: GridSpec) -> None:
    with pytest.raises(ValidationError):
        smallest.name = "other"  # type: ignore[misc]


def test_a_loaded_spec_knows_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "filesystems:\n  disk: {type: local, path: ./disk}\n"
    (tmp_path / "grid.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    spec = load_spec("grid.yaml")
    assert spec.file == tmp_path / "grid.yaml"
    assert spec.source_text == text
    assert spec.library_directory("data") == tmp_path / "disk" / "data"


FIELDS = list(all_fields())


def test_every_section_is_reached() -> None:
    paths = {place.path for place in FIELDS}
    assert {"name", "nodes.<name>.count", "filesystems.<name>.path", "libraries.<library>.requires"} <= paths


@pytest.mark.parametrize("place", FIELDS, ids=lambda place: place.path)
def test_every_field_declares_itself(place: object) -> None:
    from gridwright.spec.structure import FieldPlace

    assert isinstance(place, FieldPlace)
    assert place.info.description, "a field needs a description: hints, the schema and the reference show it"
    assert place.info.description.endswith(".")
    assert len(place.updates) == 1, "a field needs one update policy"
    update = place.updates[0]
    assert isinstance(update, Update)
    assert update.because


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(DISK)
    (tmp_path / "other.yml").write_text(DISK)

    def refusal(path: Path) -> str:
        with pytest.raises(GridwrightError) as caught:
            load_spec(path)
        return str(caught.value).replace(str(tmp_path), "DIR")

    assert refusal(tmp_path / "gird.yaml") == "DIR/gird.yaml: no such file\n  Did you mean DIR/grid.yaml?"
    assert "Grid specs there may be grid.yaml, other.yml" in refusal(tmp_path)
    assert refusal(tmp_path / "no" / "grid.yaml").startswith("DIR/no/grid.yaml: no such file\n")
    assert "cannot be read" in refusal(Path("a\0b"))
    assert "cannot be read: File name too long" in refusal(tmp_path / ("x" * 300))
