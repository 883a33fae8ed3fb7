"""Identify the C++ compiler: compilers that may generate different code have different identities."""

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
_IGNORED = ("TORCHINDUCTOR_CACHE_DIR",)  # does not change the generated code
_PARTS = ("-print-prog-name=cc1plus", "-print-prog-name=as", "-print-prog-name=ld", "-print-file-name=libstdc++.so")
_SECONDS = 60.0  # for a compiler to print its version


def compiler() -> str:
    """Return the command that AOTInductor calls."""
    return os.environ.get("CXX") or "g++"


def compiler_identity() -> tuple[str, ...]:
    """Return what determines the generated code.

    This is the version of the compiler; hashes of it and of the programs and libraries it uses; the version of libc;
    and the environment variables that the compiler and inductor read. Hashes, not times, so that machines with the same
    installation agree.
    """
    variables = (
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if (name in _VARIABLES or name.startswith(_FAMILIES)) and name not in _IGNORED
    )
    return *_program(compiler(), os.environ.get("PATH", "")), *platform.libc_ver(), *variables


@cache
def _program(command: str, path: str) -> tuple[str, ...]:
    """Return version and hashes of ``command``. path: the value of PATH in which it is looked up."""
    found = shutil.which(command, path=path)
    if found is None:
        return ("none",)
    parts = [_output(found, part) for part in _PARTS]
    files = [found, *(shutil.which(part, path=path) or part for part in parts)]
    return _output(found, "--version"), *map(_hash, files)


def _output(program: str, argument: str) -> str:
    try:
        ran = subprocess.run([program, argument], capture_output=True, text=True, errors="replace", timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        return type(error).__name__
    return ran.stdout.strip()


def _hash(file: str) -> str:
    try:
        return xxhash.xxh3_128(Path(file).read_bytes()).hexdigest()
    except OSError:
        return file  # clang prints the name of a part that is built in
