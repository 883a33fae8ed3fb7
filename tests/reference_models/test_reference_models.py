"""Every reference model, exported with torch.export directly and compared with eager, bit by bit."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram
from torch.utils._pytree import tree_leaves, tree_map

import exportready_reference_models
from exportready_reference_models.bert import Bert, BertConfig
from exportready_reference_models.gpt import GPT, GPTConfig
from pytest_exportready.case.export_case import ExportCase, as_case
from pytest_exportready.discover import module_names

# torch's own RNN modules keep a list of their parameters, which non-strict export takes for an assignment.
pytestmark = pytest.mark.filterwarnings("ignore:The tensor attributes self.lstm._flat_weights:UserWarning")

MODELS = module_names(exportready_reference_models)
MODES = ["non-strict", "strict"]
SIZES = [1, 2, 3, 7]


@dataclass(frozen=True)
class Exported:
    case: ExportCase
    inputs: dict[str, Any]  # by the names of forward's parameters
    shapes: dict[str, Any] | None
    program: ExportedProgram

    def output(self, module: Any, inputs: dict[str, Any]) -> Any:
        """Return the output for ``inputs``, passed by position and by keyword as in the case."""
        by_position = list(inputs.values())[: len(self.case.args)]
        by_keyword = {name: inputs[name] for name in self.case.kwargs}
        with torch.no_grad():
            return module(*by_position, **by_keyword)


def declared(name: str) -> Any:
    return getattr(import_module(f"exportready_reference_models.{name}"), f"test_{name}")


def export(name: str, mode: str) -> Exported:
    case = as_case(declared(name)())
    marker = declared(name).pytestmark[0].kwargs
    inputs = inspect.signature(case.model.forward).bind(*case.args, **case.kwargs).arguments
    shapes = marker.get("dynamic_shapes")
    if marker.get("dynamic_batch"):
        batch = Dim("batch")
        shapes = {key: tree_map(lambda _: {0: batch}, value) for key, value in inputs.items()}
    args, kwargs = tuple(case.args), dict(case.kwargs)
    program = torch.export.export(case.model, args, kwargs, dynamic_shapes=shapes, strict=mode == "strict")
    return Exported(case, dict(inputs), shapes, program)


@pytest.fixture(scope="module", params=[(name, mode) for name in MODELS for mode in MODES], ids="-".join)
def exported(request: pytest.FixtureRequest) -> Exported:
    return export(*request.param)


def calls(exported: Exported) -> Iterator[dict[str, Any]]:
    """The example and, for a dynamic model, fresh inputs at other sizes, the smallest ones first."""
    generator = torch.Generator().manual_seed(1)
    yield exported.inputs
    for size in SIZES if exported.shapes else []:
        shapes = exported.shapes
        yield {name: fresh(value, shapes[name], size, generator) for name, value in exported.inputs.items()}


def fresh(value: Any, dims: Any, size: int, generator: torch.Generator) -> Any:
    if isinstance(value, list):
        return [fresh(*pair, size, generator) for pair in zip(value, dims, strict=True)]
    tensor, shape = value, list(value.shape)
    for index, dim in dims.items():
        shape[index] = size if index == 0 else max(dim.min, 1) if size == 1 else shape[index] + size
    if tensor.is_floating_point():
        return torch.randn(shape, generator=generator)
    picks = torch.randint(tensor.numel(), (torch.Size(shape).numel(),), generator=generator)
    return tensor.flatten()[picks].reshape(shape)


def assert_bitwise(output: Any, truth: Any) -> None:
    for got, expected in zip(tree_leaves(output), tree_leaves(truth), strict=True):
        assert expected.isfinite().all()
        assert expected.count_nonzero() > 0
        torch.testing.assert_close(got, expected, rtol=0, atol=0)


def test_program_equals_eager_at_every_size(exported: Exported) -> None:
    program, model = exported.program.module(), exported.case.model
    for inputs in calls(exported):
        assert_bitwise(exported.output(program, inputs), exported.output(model, inputs))


def test_names_and_numbers_survive_save_and_load(exported: Exported, tmp_path: Path) -> None:
    torch.export.save(exported.program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2")
    assert set(loaded.state_dict) == set(exported.case.model.state_dict())
    truth = exported.output(exported.case.model, exported.inputs)
    assert_bitwise(exported.output(loaded.module(), exported.inputs), truth)


@pytest.mark.parametrize("mode", MODES)
def test_gpt_program_carries_its_cache_through_a_sequence(mode: str) -> None:
    case = as_case(declared("gpt")())
    module = export("gpt", mode).program.module()
    with torch.no_grad():
        for args, _ in [(case.args, {}), *case.more_inputs]:
            assert_bitwise(module(*args), case.model(*args))


def test_gpt_decodes_what_it_computes_for_the_whole_sequence() -> None:
    torch.manual_seed(0)
    config = GPTConfig(dropout=0.0)
    model = GPT(config)
    tokens = torch.randint(config.vocabulary, (config.batch, 6))
    with torch.no_grad():
        whole = model.train()(tokens, torch.arange(6))
        model.eval()
        steps = [model(tokens[:, t : t + 1], torch.tensor([t])) for t in range(6)]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole)


def test_bert_ignores_padding_and_survives_a_row_of_nothing_else() -> None:
    torch.manual_seed(0)
    model = Bert(BertConfig()).eval()
    ids = torch.randint(1000, (2, 8))
    mask = torch.arange(8) < torch.tensor([[5], [0]])
    with torch.no_grad():
        before = model(ids, mask)["logits"]
        ids[0, 5:] = 7
        after = model(ids, mask)["logits"]
    torch.testing.assert_close(before[0, :5], after[0, :5])
    assert after.isfinite().all()


@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_head_is_tied_to_the_embedding(name: str) -> None:
    model = as_case(declared(name)()).model
    assert model.head.weight is model.tokens.weight


@pytest.mark.parametrize("name", MODELS)
def test_is_seeded_small_and_in_eval_mode(name: str) -> None:
    first, second = as_case(declared(name)()), as_case(declared(name)())
    assert not any(module.training for module in first.model.modules())
    assert sum(p.numel() for p in first.model.parameters()) < 2_000_000
    torch.testing.assert_close(dict(first.model.state_dict()), dict(second.model.state_dict()), rtol=0, atol=0)
    torch.testing.assert_close((first.args, first.kwargs), (second.args, second.kwargs), rtol=0, atol=0)


@pytest.mark.parametrize("name", MODELS)
def test_imports_only_torch_and_the_public_api(name: str) -> None:
    file = Path(str(import_module(f"exportready_reference_models.{name}").__file__))
    imported = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module if node.module != "torch.export" else "torch")
    assert imported <= {"__future__", "dataclasses", "itertools", "pytest_exportready", "torch"}
