"""Judge a directory of case files through the public API.

    python tests/acceptance/judge.py DIR [--only NN] [--json OUT]

Each file has ``build() -> (module, args, kwargs, options)`` and, for several ranks, ``train(rank, world_size)``. Every
rank is a separate process with a time limit, so that output and exits of a case have no effect on others. TRUTH in a
case file is never read.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

SECONDS = 180.0
GRACE = 5.0  # for the other ranks, once one has failed
SHOWN = ("code", "name", "severity", "where", "message", "fix")
RANK_FAILED = {"code": "ER190", "name": "rank_finishes", "severity": "error"}
AS_FIELD = {"golden_tol": "golden_tolerance"}
NOT_FIELDS = ("world_size", "timeout_s", "dynamic_shapes", "strict")


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def judge_rank(path: Path, rank: int, folder: Path) -> None:
    """Judge the case in the process of a rank, and write ``rank.json`` to ``folder``."""
    os.setsid()
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    try:
        found = {"findings": findings_of(path, rank, folder)}
    except BaseException as error:
        from pytest_exportready.analysis.source.user_frames import user_place
        from pytest_exportready.case.sanitize import exception_text

        file, line = user_place(error)
        where = f"rank {rank}, {Path(file).name}:{line}" if file else f"rank {rank}"
        message = f"The case raised {exception_text(error)}."
        found = {
            "findings": [{**RANK_FAILED, "where": where, "message": message, "fix": "Correct the case."}],
            "failed": time.time(),
        }
    (folder / f"{rank}.part").write_text(json.dumps(found))
    (folder / f"{rank}.part").rename(folder / f"{rank}.json")
    os._exit(0)  # skip destructors of a process group that another rank has left


def findings_of(path: Path, rank: int, folder: Path) -> list[dict[str, Any]]:
    import torch

    from pytest_exportready import export_ready_check

    torch.set_num_threads(1)  # several ranks and cases share the machine
    case = load(path)
    model, args, kwargs, options = case.build()
    size = options.get("world_size", 1)
    if hasattr(case, "train"):
        import torch.distributed as dist

        store = dist.FileStore(str(folder / "store"), size)  # no port that may be in use
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=SECONDS))
        model = case.train(rank, size)
    knowledge = {AS_FIELD.get(name, name): value for name, value in options.items() if name not in NOT_FIELDS}
    readiness = export_ready_check(
        model,
        args,
        example_kwargs=kwargs,
        dynamic_shapes=options.get("dynamic_shapes"),
        strict=options.get("strict", False),
        **knowledge,
    )
    shown = [{**{name: getattr(f, name) for name in SHOWN}, "where": f.place} for f in readiness.findings]
    fault = {"code": "ER199", "name": "harness", "severity": "error", "fix": "Correct the runner."}
    broken = [s for s in readiness.stages if s.outcome == "infra"]
    return shown + [{**fault, "where": stage.name, "message": stage.reason} for stage in broken]


@dataclass
class Running:
    path: Path
    folder: tempfile.TemporaryDirectory[str]
    started: float
    deadline: float
    ranks: list[Any] = field(default_factory=list)
    stopped: set[int] = field(default_factory=set)

    def result_of(self, rank: int) -> dict[str, Any] | None:
        file = Path(self.folder.name, f"{rank}.json")
        return json.loads(file.read_text()) if file.exists() else None

    def look(self) -> None:
        """Shorten the time limit once a rank has failed: others may wait for it in a collective."""
        for rank, process in enumerate(self.ranks):
            result = self.result_of(rank)
            if (result and result.get("failed")) or (process.exitcode is not None and result is None):
                self.deadline = min(self.deadline, time.monotonic() + GRACE)
        if time.monotonic() > self.deadline:
            for rank, process in enumerate(self.ranks):
                if process.exitcode is None:
                    self.stopped.add(rank)
                    kill(process)

    def finish(self) -> dict[str, Any]:
        findings: list[dict[str, Any]] = []
        results = [(self.result_of(rank), rank, process) for rank, process in enumerate(self.ranks)]
        # the rank that failed first, then the ranks that waited for it
        for result, rank, process in sorted(results, key=lambda r: (r[0] or {}).get("failed", float("inf"))):
            process.join()
            if result is not None:
                findings += result["findings"]
            else:
                ended = "did not end in time and was stopped" if rank in self.stopped else ending(process.exitcode)
                message, fix = f"The rank {ended}, without a result.", "Check the rank that failed first."
                findings.append({**RANK_FAILED, "where": f"rank {rank}", "message": message, "fix": fix})
        findings.sort(key=lambda f: f["severity"] != "error")
        unique = list({json.dumps(f): f for f in findings}.values())
        self.folder.cleanup()
        verdict = "not_ready" if any(f["severity"] == "error" for f in unique) else "ready"
        seconds = round(time.monotonic() - self.started, 2)
        return {"case": self.path.stem, "verdict": verdict, "findings": unique, "seconds": seconds}


def kill(process: Any) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()


def ending(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def start(context: Any, path: Path) -> Running:
    """Start the ranks of a case; its world size and time limit are read without running the file."""
    text = path.read_text(encoding="utf-8")
    size = _number(text, "world_size", 1)
    now = time.monotonic()
    running = Running(
        path, tempfile.TemporaryDirectory(prefix="judge-"), now, now + _number(text, "timeout_s", SECONDS)
    )
    for rank in range(int(size)):
        process = context.Process(target=judge_rank, args=(path, rank, Path(running.folder.name)))
        process.start()
        running.ranks.append(process)
    return running


def _number(text: str, option: str, default: float) -> float:
    found = re.search(rf"""\b{option}["']?\s*[:=]\s*(\d+(?:\.\d+)?)""", text)
    return float(found[1]) if found else default


def judge_all(paths: list[Path], at_once: int = 2) -> list[dict[str, Any]]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.export", "torch.distributed", "pytest_exportready.judge.judge"])
    waiting, running, results = list(paths), list[Running](), []
    while waiting or running:
        while waiting and len(running) < at_once:
            running.append(start(context, waiting.pop(0)))
        wait([p.sentinel for r in running for p in r.ranks if p.exitcode is None], timeout=0.5)
        for item in list(running):
            item.look()
            if all(process.exitcode is not None for process in item.ranks):
                running.remove(item)
                results.append(item.finish())
                print(f"{results[-1]['case']}: {results[-1]['verdict']} ({results[-1]['seconds']} s)", file=sys.stderr)
    return sorted(results, key=lambda result: result["case"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", metavar="NN", help="judge the case of this number only")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the result here instead of to the terminal")
    given = parser.parse_args()
    pattern = f"case_{given.only}_*.py" if given.only else "case_*.py"
    paths = sorted(path.resolve() for path in given.directory.glob(pattern))
    if not paths:
        parser.error(f"no {pattern} in {given.directory}")
    text = json.dumps(judge_all(paths), indent=1)
    if given.json:
        given.json.write_text(text + "\n")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
