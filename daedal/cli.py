"""The command line: registers every command of `daedal.commands`, and turns errors into sentences.

Results go to standard output (as JSON with ``--json``), progress to standard error. Exit status: 0
success; 1 results differ, or what was asked for is not reached; 2 wrong input, a device that fails,
a file error or out of memory; 130 interrupted; 128 plus the number of any other signal that ended
it.
"""

import os
import signal
import sys
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from daedal.commands.board_test import board_test_command
from daedal.commands.build import build_command
from daedal.commands.compare import compare_command
from daedal.commands.compile import compile_command
from daedal.commands.diff import diff_command
from daedal.commands.disasm import disasm_command
from daedal.commands.doctor import doctor_command
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
from daedal.commands.verilog import verilog_command
from daedal.common.errors import DaedalError
from daedal.native.caches.report import cache_problem
from daedal.native.python_child import SAFE_PATH, changed_environment
from daedal.reports.console import make_console

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """The commands; an interruption that none of them handles raises `Ended`, since Typer turns a
    KeyboardInterrupt into an exit without a sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the user chose."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Ended(signal.SIGINT) from None


app = typer.Typer(
    cls=_Commands,
    help="Hardware/software co-design for neural-network accelerators.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("compile")(compile_command)
app.command("run")(run_command)
app.command("generate")(generate_command)
app.command("inspect")(inspect_command)
app.command("profile")(profile_command)
app.command("diff")(diff_command)
app.command("quantize")(quantize_command)
app.command("tune")(tune_command)
app.command("pool")(pool_command)
app.command("explore")(explore_command)
app.command("compare")(compare_command)
app.command("ops")(ops_command)
app.command("trace")(trace_command)
app.command("export")(export_command)
app.command("verilog")(verilog_command)
app.command("synth")(synth_command)
app.command("build")(build_command)
app.command("board-test")(board_test_command)
app.command("disasm")(disasm_command)
app.command("doctor")(doctor_command)


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
