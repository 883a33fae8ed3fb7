"""The verdicts of the harness on the model zoos, against what a bare torch.export shows.

    pip install -e .[zoo]
    python tests/zoo/survey.py eval|train|one [--jobs N] [--limit SECONDS] [PATTERN ...]

eval: models in eval mode. What a bare export handles with equal numbers must get no error; what it refuses must get a
diagnosis (at least 90 % of them). train: the same models left in train mode. Where the program then differs from the
eval-mode model, that must be an error; where it does not, there must be none. one: a batch of one exported under
Dim.AUTO. Where that became a static dimension, it must be told.

Prints a line for each model, then the counts; exit code 1 when one of them is wrong. Each model has its own process.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import multiprocessing
import sys
import time
import warnings
from collections import Counter
from multiprocessing.connection import Connection
from typing import Any

import bare_export
import torch
from zoo_model import Models

from pytest_exportready import export_ready_check
from pytest_exportready.diagnosis import UNCLASSIFIED

LIBRARIES = ("torchvision_models", "timm_models", "transformers_models")
DIAGNOSED = 0.9


def all_models() -> Models:
    found: Models = {}
    for library in LIBRARIES:
        found |= importlib.import_module(library).models()
    return found


def wake(model: torch.nn.Module) -> None:
    """Random numbers for parameters that begin at zero: a block that is switched off hides what is wrong with it."""
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(std=0.02)


def look(question: str, name: str) -> tuple[str, str]:
    """What a bare export shows of the model, and what the harness says of that: ``right`` or what is wrong."""
    model, args, kwargs = all_models()[name](1 if question == "one" else 2)
    if question == "train":
        wake(model)
    model.train(question == "train")
    shapes = bare_export.automatic(args, kwargs) if question == "one" else None
    shown = bare_export.of(model, args, kwargs, shapes)
    stages = None if question == "eval" else ["shapes" if question == "one" else "parity"]
    readiness = export_ready_check(model, args, example_kwargs=kwargs, dynamic_shapes=shapes, stages=stages)
    told = [f"{f.severity} {f}" for f in readiness.findings if f.severity != "note"]
    errors = [f for f in readiness.findings if f.severity == "error"]
    if shown == "refused":
        right = bool(errors) and all(f.code != UNCLASSIFIED.code for f in errors)
    elif question == "one":
        right = shown != "static" or any("ER6" in line for line in told)
    else:
        right = (shown == "differs") == bool(errors)
    return shown, "right" if right else "WRONG: " + ("; ".join(told) or "nothing is told")[:2000]


def _child(question: str, name: str, end: Connection) -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    try:
        end.send(look(question, name))
    except Exception as error:
        end.send(("nothing", f"not judged: {type(error).__name__}: {str(error)[:200]}"))


def survey(question: str, names: list[str], jobs: int, limit: float) -> Counter[tuple[str, str]]:
    """Counts of (what a bare export showed, ``right`` or ``WRONG`` or ``not judged``)."""
    context = multiprocessing.get_context("fork")
    waiting, running = list(names), dict[str, tuple[Any, Connection, float]]()
    counts: Counter[tuple[str, str]] = Counter()
    while waiting or running:
        while waiting and len(running) < jobs:
            name, (mine, childs) = waiting.pop(0), context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(question, name, childs))
            process.start()
            childs.close()
            running[name] = process, mine, time.monotonic()
        for name, (process, mine, begun) in list(running.items()):
            took = time.monotonic() - begun
            if mine.poll(0.05) or took > limit:
                shown, verdict = _received(mine) if took <= limit else ("nothing", f"not judged: over {limit:g} s")
                process.kill() if took > limit else process.join()
                del running[name]
                counts[shown, verdict.partition(":")[0]] += 1
                print(f"{name:45} {shown:8} {took:5.1f} s  {verdict}", flush=True)
    return counts


def _received(end: Connection) -> tuple[str, str]:
    try:
        shown, verdict = end.recv()
        return str(shown), str(verdict)
    except EOFError:
        return "nothing", "not judged: its process ended"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=("eval", "train", "one"))
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a model")
    given = parser.parse_args()
    torch.set_num_threads(1)
    names = [name for name in all_models() if any(fnmatch.fnmatch(name, pattern) for pattern in given.patterns)]
    counts = survey(given.question, names, given.jobs, given.limit)
    print()
    for (shown, verdict), count in sorted(counts.items()):
        print(f"{shown:8} {verdict:10} {count}")
    refused = counts["refused", "right"] + counts["refused", "WRONG"]
    wrong = sum(count for (shown, verdict), count in counts.items() if verdict == "WRONG" and shown != "refused")
    return int(wrong > 0 or counts["refused", "right"] < DIAGNOSED * refused)


if __name__ == "__main__":
    sys.exit(main())
