"""The command line: registers every command of `daedal.commands`, and turns errors into sentences.

Results go to standard output (as JSON with ``--json``), progress to standard error. Exit status: 0
done, 1 a device failed or differs, 2 the input was wrong, 130 interrupted.
"""

import sys

import typer
from rich.markup import escape

from daedal.commands.build import build_command
from daedal.commands.compile import compile_command
from daedal.commands.diff import diff_command
from daedal.commands.disasm import disasm_command
from daedal.commands.doctor import doctor_command
from daedal.commands.export import export_command
from daedal.commands.inspect import inspect_command
from daedal.commands.ops import ops_command
from daedal.commands.profile import profile_command
from daedal.commands.quantize import quantize_command
from daedal.commands.run import run_command
from daedal.commands.synth import synth_command
from daedal.commands.trace import trace_command
from daedal.commands.verilog import verilog_command
from daedal.isa.errors import DaedalError, UserError
from daedal.reports.console import make_console

__all__ = ["app", "main"]

app = typer.Typer(
    help="Hardware/software co-design for neural-network accelerators.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("compile")(compile_command)
app.command("run")(run_command)
app.command("inspect")(inspect_command)
app.command("profile")(profile_command)
app.command("diff")(diff_command)
app.command("quantize")(quantize_command)
app.command("ops")(ops_command)
app.command("trace")(trace_command)
app.command("export")(export_command)
app.command("verilog")(verilog_command)
app.command("synth")(synth_command)
app.command("build")(build_command)
app.command("disasm")(disasm_command)
app.command("doctor")(doctor_command)


def main() -> None:
    """Run the command line; users' mistakes end in one sentence and exit status 2."""
    try:
        app()
    except UserError as error:
        _fail(str(error), 2)
    except DaedalError as error:
        _fail(str(error), 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        reason = f"{error.filename!r} is not: {error.strerror}" if error.filename else str(error)
        _fail(f"files must be readable and writable; {reason}", 1)
    except KeyboardInterrupt:
        _fail("interrupted", 130)


def _fail(sentence: str, status: int) -> None:
    make_console(stderr=True).print(f"[bold red]error:[/bold red] {escape(sentence)}")
    sys.exit(status)
