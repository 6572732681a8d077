"""The command line: registers every command of `daedal.commands`, and turns errors into sentences.

Results go to standard output (as JSON with ``--json``), progress to standard error. Exit status: 0
success; 1 results differ, or what was asked for is not reached; 2 wrong input, a device that fails,
a file error or out of memory; 130 interrupted; 128 plus the number of any other signal that ended
it.
"""

import importlib.metadata
import inspect
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from rich.markup import escape
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.models import ArgumentInfo

from daedal.commands.board_test import board_test_command
from daedal.commands.build import build_command
from daedal.commands.compare import compare_command
from daedal.commands.compile import compile_command
from daedal.commands.diff import diff_command
from daedal.commands.disasm import disasm_command
from daedal.commands.doctor import doctor_command
from daedal.commands.evaluate import evaluate_command
from daedal.commands.examples import EXAMPLES
from daedal.commands.explore import explore_command
from daedal.commands.export import export_command
from daedal.commands.generate import generate_command
from daedal.commands.inspect import inspect_command
from daedal.commands.ops import ops_command
from daedal.commands.pool import pool_command
from daedal.commands.profile import profile_command
from daedal.commands.quantize import quantize_command
from daedal.commands.run import run_command
from daedal.commands.signals import Ended, signals_raise
from daedal.commands.streams import prepare_streams
from daedal.commands.synth import synth_command
from daedal.commands.trace import trace_command
from daedal.commands.tune import tune_command
from daedal.commands.usage import (
    UsageError,
    did_you_mean,
    remember_arguments,
    usage_sentence,
)
from daedal.commands.variants import variants_command
from daedal.commands.verilog import verilog_command
from daedal.common.errors import DaedalError, UserError
from daedal.native.caches.report import cache_problem
from daedal.native.python_child import SAFE_PATH, changed_environment
from daedal.reports.console import make_console

__all__ = ["app", "main"]


def _plain_params(params: Any) -> Any:
    """Parameters as help shall show them: flags and arguments have no type beside them."""
    for param in params:
        if isinstance(param, TyperArgument):
            param.display_type_rich = _no_type  # type: ignore[method-assign, assignment]
        elif param.is_flag:
            param.metavar = ""
    return params


def _no_type(**_: Any) -> None:
    return None


_VALUES = {Path: "PATH", str: "TEXT", int: "NUMBER", float: "NUMBER"}
"""How help calls a value of each type, where an option gives it no name."""


def _name_values(function: Callable[..., None]) -> Callable[..., None]:
    """Name arguments and values of options as texts of help do, in capitals."""
    for name, hint in get_type_hints(function, include_extras=True).items():
        for info in get_args(hint)[1:] if get_origin(hint) is Annotated else ():
            if info.metavar is not None:
                continue
            if isinstance(info, ArgumentInfo):
                info.metavar = name.upper()
            else:
                info.metavar = next(filter(None, map(_value_name, _types(hint))), None)
    return function


def _value_name(kind: Any) -> str | None:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(choice.value for choice in kind)
    return _VALUES.get(kind)


def _types(hint: Any) -> Iterator[Any]:
    """The types of which an annotation is made."""
    yield hint
    for part in get_args(hint):
        yield from _types(part)


@contextmanager
def _errors_know(ctx: Any, args: list[str]) -> Iterator[None]:
    """Give errors of the parser the command and its arguments."""
    remember_arguments(ctx, args)
    try:
        yield
    except UsageError as error:
        if error.ctx is None:
            error.ctx = ctx
        raise


class _Commands(TyperGroup):
    """The commands; an interruption that none of them handles raises `Ended`, since Typer turns a
    KeyboardInterrupt into an exit without a sentence."""

    def get_params(self, ctx: Any) -> Any:
        """The options."""
        return _plain_params(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the options before the command; errors know the command."""
        with _errors_know(ctx, args):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the user named. Raises UserError if there is none."""
        names = self.list_commands(ctx)
        if args[0] not in names and not ctx.resilient_parsing:
            raise UserError(
                f"a command must be one of `daedal --help`, not {args[0]!r}"
                f"{did_you_mean(args[0], names)}"
            )
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command line. Raises UsageError, which Typer would print in another form."""
        options |= {"prog_name": "daedal", "standalone_mode": False}
        sys.exit(super().main(*args, **options))

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the user chose."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Ended(signal.SIGINT) from None


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"daedal {importlib.metadata.version('daedal')}")
        raise typer.Exit


class _Command(TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> Any:
        """As `_Commands` has them."""
        return _plain_params(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> Any:
        """What follows the command's name: arguments that are required have no braces."""
        return [re.sub(r"[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse a command's arguments; errors know the command."""
        with _errors_know(ctx, args):
            return super().parse_args(ctx, args)


def _paragraphs(function: Callable[..., None]) -> str:
    """The text of a command, each paragraph in one line: then help breaks lines by itself."""
    parts = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts)


_COMMANDS: Mapping[str, Mapping[str, Callable[..., None]]] = {
    "First steps": {
        "quantize": quantize_command,
        "compile": compile_command,
        "run": run_command,
        "profile": profile_command,
        "explore": explore_command,
    },
    "A network in detail": {
        "inspect": inspect_command,
        "evaluate": evaluate_command,
        "diff": diff_command,
        "trace": trace_command,
        "disasm": disasm_command,
        "generate": generate_command,
    },
    "Schedules and machines": {
        "tune": tune_command,
        "compare": compare_command,
        "pool": pool_command,
    },
    "Hardware": {
        "verilog": verilog_command,
        "export": export_command,
        "synth": synth_command,
        "build": build_command,
        "board-test": board_test_command,
    },
    "What there is": {
        "variants": variants_command,
        "ops": ops_command,
        "doctor": doctor_command,
    },
}
"""By the heading under which ``daedal --help`` has them."""

app = typer.Typer(
    cls=_Commands,
    help="Hardware/software co-design for neural-network accelerators.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for _heading, _commands in _COMMANDS.items():
    for _name, _function in _commands.items():
        app.command(
            _name,
            cls=_Command,
            rich_help_panel=_heading,
            help=_paragraphs(_function),
            epilog="\n\n".join(["Examples:", *EXAMPLES[_name]]),
        )(_name_values(_function))


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; what cannot be done ends in one sentence and exit status 2."""
    prepare_streams()
    try:
        with signals_raise(), changed_environment(SAFE_PATH):
            _mention_caches()
            try:
                app()
            finally:
                sys.stdout.flush()  # here, where a full disk still becomes a sentence
    except DaedalError as error:
        _fail(str(error), 2)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help was printed
            sys.exit(2)
        _fail(usage_sentence(error), 2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        _drop_output()
        reason = f"{error.filename!r} is not: {error.strerror}" if error.filename else str(error)
        _fail(f"files must be readable and writable; {reason}", 2)
    except MemoryError:
        _fail("this needs more memory than there is; give smaller inputs or a smaller variant", 2)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except Ended as ended:
        name = signal.Signals(ended.number).name
        said = "interrupted" if ended.number == signal.SIGINT else f"ended by {name}"
        _fail(said, 128 + ended.number)


def _mention_caches() -> None:
    """Say which caches cannot be used: without them, commands take longer."""
    problem = cache_problem()
    if problem is not None:
        make_console(stderr=True).print(f"[yellow]note:[/yellow] {escape(problem)}")


def _drop_output() -> None:
    """Discard output that could not be written: Python would retry at exit, and fail again."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _fail(sentence: str, status: int) -> None:
    make_console(stderr=True).print(f"[bold red]error:[/bold red] {escape(sentence)}")
    sys.exit(status)
