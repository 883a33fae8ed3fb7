"""The verdicts of the harness on the model zoos, compared with a bare torch.export.

    pip install -e .[zoo]
    python tests/zoo/survey.py eval|train|one [--jobs N] [--limit SECONDS] [PATTERN ...]

eval: models in eval mode. What a bare export handles with equal numbers must get no error; what it refuses must get a
diagnosis (at least 90 % of them). train: the same models left in train mode. Where the program then differs from the
eval-mode model, that must be an error; where it does not, there must be none. one: a batch of one exported under
Dim.AUTO. If that became a static dimension, it must be reported.

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
    """Set parameters that are zero to random numbers: a block that is switched off hides its faults."""
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(std=0.02)


def look(question: str, name: str) -> tuple[str, str]:
    """Return what a bare export shows of the model, and whether the verdict is ``right``, or what is wrong with it."""
    model, args, kwargs = all_models()[name](1 if question == "one" else 2)
    if question == "train":
        wake(model)
    model.train(question == "train")
    shapes = bare_export.automatic(args, kwargs) if question == "one" else None
    shown = bare_export.of(model, args, kwargs, shapes)
    stages = None if question == "eval" else ["shapes" if question == "one" else "parity"]
    readiness = export_ready_check(model, args, example_kwargs=kwargs, dynamic_shapes=shapes, stages=stages)
    findings = [f"{f.severity} {f}" for f in readiness.findings if f.severity != "note"]
    errors = [f for f in readiness.findings if f.severity == "error"]
    if shown == "refused":
        right = bool(errors) and all(f.code != UNCLASSIFIED.code for f in errors)
    elif question == "one":
        right = shown != "static" or any("ER6" in line for line in findings)
    else:
        right = (shown == "differs") == bool(errors)
    return shown, "right" if right else "WRONG: " + ("; ".join(findings) or "no findings")[:2000]


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
            name, (own_end, child_end) = waiting.pop(0), context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(question, name, child_end))
            process.start()
            child_end.close()
            running[name] = process, own_end, time.monotonic()
        for name, (process, own_end, begun) in list(running.items()):
            took = time.monotonic() - begun
            if own_end.poll(0.05) or took > limit:
                shown, verdict = _received(own_end) if took <= limit else ("nothing", f"not judged: over {limit:g} s")
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
