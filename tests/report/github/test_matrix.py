"""A night's jobs: every combination once, named, in the form of a matrix; wrong files are reported by entry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_exportready.report.github.matrix import Channel, PlanError, Runner, matrix, planned, read_plan, read_runners

H100 = {"labels": ["self-hosted", "h100"], "gpu": "H100", "gpus": 2, "cuda": "cu130", "memory_gib": 20}
CPU = {"labels": ["ubuntu-latest"], "gpu": "cpu", "gpus": 0, "cuda": "cpu"}
STABLE = Channel("stable", "2.14.1", "https://example.invalid/{cuda}")
NIGHTLY = Channel("nightly", "2.16.0.dev1129", "https://example.invalid/nightly/{cuda}")


def runners(tmp_path: Path, data: object) -> list[Runner]:
    path = tmp_path / "runners.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return read_runners(path)


def test_every_channel_on_every_runner_in_every_shard(tmp_path: Path) -> None:
    legs = planned(runners(tmp_path, [H100, CPU]), [STABLE, NIGHTLY], 2)
    assert [leg.name for leg in legs] == [
        f"{channel}-{runner}-{shard}of2"
        for channel in ("stable", "nightly")
        for runner in ("h100x2", "cpu")
        for shard in (1, 2)
    ]
    assert legs[0].index == "https://example.invalid/cu130"
    assert legs[0].memory_gib == 20
    assert legs[-1].labels == ("ubuntu-latest",)


def test_the_plan_reads_back_what_the_matrix_says(tmp_path: Path) -> None:
    legs = planned(runners(tmp_path, [H100, CPU]), [STABLE], 3)
    text = matrix(legs)
    assert "\n" not in text
    assert [entry["name"] for entry in json.loads(text)["include"]] == [leg.name for leg in legs]
    (tmp_path / "plan.json").write_text(text)
    assert read_plan(tmp_path / "plan.json") == legs


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param("{", "cannot be read", id="no JSON"),
        pytest.param("[" * 100_000, "cannot be read", id="deep"),
        pytest.param({}, "is not a list of runners", id="no list"),
        pytest.param([], "is not a list of runners", id="empty"),
        pytest.param([1], "runner 1: must be an object with labels, gpu", id="no object"),
        pytest.param([CPU, {"gpu": "a"}], "runner 2: missing labels, missing gpus, missing cuda", id="keys left out"),
        pytest.param([{**CPU, "gpu_count": 1}], "runner 1: unknown gpu_count", id="key"),
        pytest.param([{**CPU, "labels": "gpu"}], "runner 1: labels must be a list, not str", id="labels"),
        pytest.param([{**CPU, "labels": []}], "runner 1: labels is empty", id="no labels"),
        pytest.param([{**CPU, "gpus": True}], "runner 1: gpus must be a whole number, not bool", id="bool"),
        pytest.param([{**CPU, "gpus": -1}], "runner 1: gpus is -1, which is not a number from 0", id="negative"),
        pytest.param([{**CPU, "cuda": ""}], "runner 1: cuda is empty", id="empty text"),
        pytest.param([CPU, CPU], "two runners have the name cpu", id="twice"),
    ],
)
def test_runners_that_cannot_be_used_are_reported_by_entry(tmp_path: Path, data: object, message: str) -> None:
    with pytest.raises(PlanError, match=r"runners\.json(: | is not a list| cannot be read)") as error:
        runners(tmp_path, data)
    assert message in str(error.value)


def test_more_legs_than_a_matrix_holds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"258 legs, and a matrix may have 256\. Fix: Use fewer shards"):
        planned(runners(tmp_path, [CPU]), [STABLE, NIGHTLY], 129)


@pytest.mark.parametrize("name", ["../../etc", "a/b", ".hidden"])
def test_a_plan_cannot_name_a_folder_elsewhere(tmp_path: Path, name: str) -> None:
    text = json.loads(matrix(planned([Runner(("x",), "cpu", 0, "cpu")], [STABLE], 1)))
    text["include"][0]["channel"] = name
    (tmp_path / "plan.json").write_text(json.dumps(text))
    with pytest.raises(PlanError, match="cannot be the name of a folder"):
        read_plan(tmp_path / "plan.json")


@pytest.mark.parametrize("data", ["[]", "{}", '{"include": []}', '{"include": [1]}', '{"include": [{}]}', "nonsense"])
def test_what_is_no_plan_is_reported(tmp_path: Path, data: str) -> None:
    (tmp_path / "plan.json").write_text(data)
    with pytest.raises(PlanError, match=r"plan\.json(: | is not a plan| cannot be read)"):
        read_plan(tmp_path / "plan.json")


@pytest.mark.parametrize(("key", "value"), [("gpus", 1.5), ("gpus", True), ("memory_gib", float("nan"))])
def test_numbers_are_what_a_machine_can_have(tmp_path: Path, key: str, value: object) -> None:
    with pytest.raises(PlanError, match=rf"runner 1: {key} (is|must be)"):
        runners(tmp_path, [{**H100, key: value}])


def test_two_legs_of_one_name_are_refused(tmp_path: Path) -> None:
    leg = planned(runners(tmp_path, [CPU]), [STABLE], 1)
    (tmp_path / "plan.json").write_text(matrix([*leg, *leg]))
    with pytest.raises(PlanError, match="two legs have the name"):
        read_plan(tmp_path / "plan.json")
