"""Which C++ compiler this is: two that may make other code of the same source have other identities."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path

import xxhash

_VARIABLES = (
    *("CC", "CFLAGS", "COMPILER_PATH", "CONDA_PREFIX", "CPATH", "CPLUS_INCLUDE_PATH", "CPPFLAGS", "CUDA_HOME"),
    *("CUDA_PATH", "CXX", "CXXFLAGS", "C_INCLUDE_PATH", "GCC_EXEC_PREFIX", "LDFLAGS", "LD_LIBRARY_PATH"),
    *("LD_PRELOAD", "LIBRARY_PATH"),
)
_FAMILIES = ("AOT_INDUCTOR_", "TORCHINDUCTOR_")
_WITHOUT = ("TORCHINDUCTOR_CACHE_DIR",)  # where it writes changes nothing
_PARTS = ("-print-prog-name=cc1plus", "-print-prog-name=as", "-print-prog-name=ld", "-print-file-name=libstdc++.so")
_SECONDS = 60.0  # for a compiler to say its version


def compiler() -> str:
    """The command that AOTInductor calls."""
    return os.environ.get("CXX") or "g++"


def compiler_identity() -> tuple[str, ...]:
    """What the compiler says its version is; the contents of itself, of what it calls and links; libc's version; the
    variables by which it, or inductor, works otherwise.

    By contents and not by time, so that nodes installed alike agree. System headers count by these versions.
    """
    told = {name: value for name, value in os.environ.items() if name in _VARIABLES or name.startswith(_FAMILIES)}
    variables = (f"{name}={value}" for name, value in sorted(told.items()) if name not in _WITHOUT)
    return *_program(compiler(), os.environ.get("PATH", "")), *platform.libc_ver(), *variables


@cache
def _program(command: str, path: str) -> tuple[str, ...]:
    """path: where commands are looked for."""
    found = shutil.which(command, path=path)
    if found is None:
        return ("none",)
    parts = [_said(found, part) for part in _PARTS]
    files = [found, *(shutil.which(part, path=path) or part for part in parts)]
    return _said(found, "--version"), *map(_content, files)


def _said(program: str, argument: str) -> str:
    try:
        ran = subprocess.run([program, argument], capture_output=True, text=True, errors="replace", timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        return type(error).__name__
    return ran.stdout.strip()


def _content(file: str) -> str:
    try:
        return xxhash.xxh3_128(Path(file).read_bytes()).hexdigest()
    except OSError:
        return file  # as clang says of a part that it has built in
