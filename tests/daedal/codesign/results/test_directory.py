"""The folder of a search: it gives back what was written, and refuses what is not its own."""

import json
import math
from pathlib import Path

import pytest

from daedal.codesign.cycles.work import Counts, Work
from daedal.codesign.results.directory import Round, SearchDirectory
from daedal.codesign.search.evaluation import Evaluation, Step
from daedal.codesign.search.objectives import Objective
from daedal.codesign.search.variant_space import Point
from daedal.common.errors import ExploreError, UserError
from daedal.hw.synth.families import Family
from daedal.isa.variant import Variant, load_variant

OBJECTIVES = (Objective.latency, Objective.area)
BASE = load_variant("ecp5")


def made_up(number: int) -> Evaluation:
    variant = BASE.replace(f"x{number}", queue_depth=2 << number)
    used = {"lut": 1_000.5 + number, "ff": 0.1, "dsp": 1.0, "block_ram": 2.0}
    cycles = {"network": 1e6 / (number + 1)}
    return Evaluation(variant, Family.ECP5, Step.counted, cycles, used, 100.0)


def test_it_gives_back_what_was_counted(tmp_path: Path) -> None:
    folder = SearchDirectory(tmp_path / "found")
    assert folder.open({"seed": 1}) == {}
    made = {(number, 1): made_up(number) for number in range(3)}
    for point, item in made.items():
        folder.add(point[0] // 2, 2, point, item)
    folder.add(1, 2, (0, 0), None)
    first, second = Round(2, {}), Round(2, {})
    first.found.update({(0, 1): made[0, 1], (1, 1): made[1, 1]})
    second.found.update({(2, 1): made[2, 1], (0, 0): None})
    assert folder.open({"seed": 1}) == {0: first, 1: second}
    with (tmp_path / "found" / "evaluations.jsonl").open("a") as file:
        file.write('{"round": 1, "point": [1, 2')  # killed while it wrote
    assert folder.open({"seed": 1}) == {0: first, 1: second}
    folder.add(2, 2, (1, 0), None)
    assert folder.open({"seed": 1}) == {0: first, 1: second, 2: Round(2, {(1, 0): None})}
    assert first.is_whole and not Round(2, {(1, 0): None}).is_whole


def test_it_gives_back_what_was_estimated(tmp_path: Path) -> None:
    folder = SearchDirectory(tmp_path)
    folder.open({})
    assert folder.estimates("a") == {}
    made = {(0, 1): Counts({"network": 1e6 / 7}), (0, 2): None}
    later = {(1, 1): Counts({"network": 5.0}, {"network": Work(1 / 3, 2.0, 3.0, 4.0)})}
    folder.add_estimates(made)
    folder.add_estimates(later)
    path = tmp_path / "estimates.jsonl"
    path.write_text(path.read_text() + "[[1, 2")  # killed while it wrote
    assert folder.estimates("a") == {**made, **later}
    # Other code may estimate something else.
    assert folder.estimates("b") == {}
    assert folder.estimates("a") == {}


def test_time_adds_up(tmp_path: Path) -> None:
    folder = SearchDirectory(tmp_path)
    folder.open({})
    assert folder.seconds() == 0.0
    folder.write_seconds(12.5)
    assert SearchDirectory(tmp_path).seconds() == 12.5


def test_folders_of_another_search_are_refused(tmp_path: Path) -> None:
    SearchDirectory(tmp_path / "a").open({"seed": 1})
    with pytest.raises(ExploreError, match="another seed"):
        SearchDirectory(tmp_path / "a").open({"seed": 2})
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.tex").write_text("mine")
    with pytest.raises(ExploreError, match="something else"):
        SearchDirectory(tmp_path / "b").open({"seed": 1})
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["thesis.tex"]


def changed(**fields: object) -> str:
    """A line of another round, with other fields."""
    line = {"round": 1, "asked": 1, "point": [1] * 6, "evaluation": None}
    return json.dumps(line | fields)


def uncountable(**fields: object) -> str:
    return changed(evaluation=made_up(0).to_json() | fields)


@pytest.mark.parametrize(
    "line",
    [
        *("rubbish", "{}", "[1]", '{"round": 0, "asked": 1}', "\udcff"),
        *(changed(point=point) for point in ([], [1], [0.5] * 6, [True] * 6, [9] * 6, "0", None)),
        *(changed(asked=asked) for asked in (-1, 0, 1 << 70, 1.5, True, None)),
        *(changed(round=number) for number in (-1, 1 << 70, 10**6, 0.5)),
        *(uncountable(cycles=cycles) for cycles in ({}, {"network": 0}, {"network": math.inf})),
        uncountable(mhz=math.nan),
    ],
)
def test_damaged_evaluations_are_refused(tmp_path: Path, line: str) -> None:
    folder = SearchDirectory(tmp_path)
    folder.open({})
    folder.add(0, 1, (0,) * 6, None)
    path = tmp_path / "evaluations.jsonl"

    def is_point(point: Point) -> bool:
        return len(point) == 6 and max(point) < 9

    path.write_bytes(path.read_bytes() + line.encode(errors="surrogateescape") + b"\n")
    with pytest.raises(ExploreError, match="line 2 is damaged; delete that line, or the folder"):
        folder.open({}, is_point)
    path.write_text(path.read_text(errors="replace").partition("\n")[0] + "\n")
    assert folder.open({}, is_point) == {0: Round(1, {(0,) * 6: None})}


def test_lines_that_were_deleted_are_no_damage(tmp_path: Path) -> None:
    folder = SearchDirectory(tmp_path)
    folder.open({})
    for number in (0, 1, 5):
        folder.add(number, 1, (number,), None)
    assert list(folder.open({})) == [0, 1, 5]


@pytest.mark.parametrize(
    "line", ["rubbish", "{}", "[1]", "[1, 2]", "[[1], 2]", "[[1], {}]", "[[], null]"]
)
def test_damaged_estimates_are_refused(tmp_path: Path, line: str) -> None:
    folder = SearchDirectory(tmp_path)
    folder.open({})
    folder.estimates("a")
    path = tmp_path / "estimates.jsonl"
    path.write_text(path.read_text() + f"{line}\n")
    with pytest.raises(ExploreError, match="line 2 is damaged"):
        folder.estimates("a")


@pytest.mark.parametrize("text", ["rubbish", "[]", "{}", '{"seconds": null}'])
def test_damaged_progress_is_refused(tmp_path: Path, text: str) -> None:
    folder = SearchDirectory(tmp_path)
    folder.open({})
    (tmp_path / "progress.json").write_text(text)
    with pytest.raises(ExploreError, match=r"progress\.json' must be JSON of a search"):
        folder.seconds()


def test_the_front_is_written(tmp_path: Path) -> None:
    folder = SearchDirectory(tmp_path)
    folder.open({})
    front = [made_up(number) for number in range(3)]
    folder.write_front(front, OBJECTIVES)
    header, *rows = (tmp_path / "front.csv").read_text().splitlines()
    assert header.startswith("name,latency,area,cycles network,mhz,lut")
    assert [row.partition(",")[0] for row in rows] == ["x0", "x1", "x2"]
    for item in front:
        assert load_variant(variant_file(tmp_path, item.variant)) == item.variant


def test_points_that_left_the_front_leave_the_folder(tmp_path: Path) -> None:
    """Unless there is more than the variant: that took long to make."""
    folder = SearchDirectory(tmp_path)
    folder.open({})
    front = [made_up(number) for number in range(3)]
    folder.write_front(front, OBJECTIVES)
    (tmp_path / "points" / "x1" / "measured.json").write_text("{}")
    folder.write_front(front[2:], OBJECTIVES)
    assert sorted(path.name for path in (tmp_path / "points").iterdir()) == ["x1", "x2"]
    assert (tmp_path / "points" / "x1" / "variant.toml").is_file()


def test_one_search_at_a_time_is_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "found"
    with SearchDirectory(folder).claimed():
        with pytest.raises(ExploreError, match="one search at a time can use a result folder"):
            with SearchDirectory(folder).claimed():
                pass
    with SearchDirectory(folder).claimed():
        assert not list(folder.iterdir())


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    folder = SearchDirectory(tmp_path)
    folder.open({})
    (tmp_path / "evaluations.jsonl").mkdir()
    with pytest.raises(UserError, match="a result folder must be writable"):
        folder.add(0, 1, (0,), None)


def variant_file(folder: Path, variant: Variant) -> Path:
    return folder / "points" / variant.name / "variant.toml"
