"""The command ``exportready``: one subcommand for each module of this package.

Only the module of the given command is imported, or all of them for ``--help``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_exportready import __version__
from pytest_exportready.discover import declared_in, module_names


@dataclass(frozen=True)
class Command:
    """One subcommand, named after its module."""

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]  # returns the exit status: 0 success, 1 negative result, 2 usage error


def fail(command: str, message: object) -> int:
    """Print why a command cannot run, and return the exit status of a usage error."""
    print(f"exportready {command}: {message}", file=sys.stderr)
    return 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    description = "Prove that a trained PyTorch model survives torch.export."
    parser = argparse.ArgumentParser("exportready", description=description)
    parser.add_argument("--version", action="version", version=f"pytest-exportready {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    given = sys.argv[1:] if argv is None else argv
    package = sys.modules[__name__]
    names = module_names(package)
    for name in given[:1] if given and given[0] in names else names:
        command = declared_in(package, name, "COMMAND", Command)
        subparser = subparsers.add_parser(name, help=command.help, description=command.help)
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    arguments = parser.parse_args(given)
    try:
        return int(arguments.run(arguments))
    except BrokenPipeError:
        sys.stderr.close()
        return 1
