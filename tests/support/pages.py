"""Pages whose commands and Python are executed: their blocks, and a folder to run them in."""

import contextlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from daedal import cli

__all__ = [
    "blocks",
    "commands",
    "make_checkout",
    "numbers_differ",
    "printed_again",
    "run_in_shell",
    "run_line",
    "run_page",
    "shown_again",
    "with_assertions",
]

ROOT = Path(__file__).resolve().parent.parent.parent


def blocks(page: str, language: str) -> list[str]:
    """Fenced blocks of a page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def printed_again(page: str, name: str, names: dict[str, object] | None = None) -> str:
    """The page with every block of text as the Python above it, run in one module that has `names`
    already, prints it."""
    known = {} if names is None else names
    printed = io.StringIO()

    def run(match: re.Match[str]) -> str:
        nonlocal printed
        kind, code = match.groups()
        if kind == "text":
            return f"```text\n{printed.getvalue()}```"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, name, "exec"), known)  # noqa: S102 our own page
        return match[0]

    return re.sub(r"```(python|text)\n(.*?)```", run, page, flags=re.DOTALL)


def commands(page: str) -> list[str]:
    """Lines of a page's shell blocks, without their comments."""
    lines = "".join(blocks(page, "sh")).splitlines()
    return [line.split("  #")[0].strip() for line in lines if line.strip()]


def make_checkout(folder: Path) -> Path:
    """Make `folder` look like a checkout, for commands that write into it."""
    for name in ("examples", "variants"):
        (folder / name).symlink_to(ROOT / name)
    return folder


_FOR_THE_SHELL = re.compile(r"[|&;<>$`*]")
_ON_RTL = re.compile(r"daedal (run\b.*--device rtl|profile\b(?!.*--device)|trace)\b")


def with_assertions(command: str) -> str:
    """A page's command as the tests run it: simulated machines check their contracts.

    So the pages' runs are checked, too, and take the simulators that all tests share.
    """
    return f"{command} --assertions" if _ON_RTL.match(command) else command


def run_line(command: str, folder: Path) -> str:
    """Run a line of a page in `folder`; return what it printed.

    ``daedal ...`` and ``python FILE`` run in this process, which has imported everything already;
    any other line runs in a shell with this Python's tools first on the path.
    """
    command = with_assertions(command)
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if _FOR_THE_SHELL.search(command) or not words:
        return run_in_shell(command, folder)
    if words[0] == "daedal":
        return _run_here(cli.main, words, folder, command)
    if words[0] == "python" and words[1].endswith(".py"):
        script = str(folder / words[1])
        return _run_here(
            lambda: runpy.run_path(script, run_name="__main__"), words[1:], folder, command
        )
    return run_in_shell(command, folder)


def run_in_shell(command: str, folder: Path) -> str:
    """Run a shell line with this Python's tools first on the path; return what it printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def _run_here(call: Callable[[], object], words: list[str], folder: Path, command: str) -> str:
    """Call what `words` start, in `folder`; fails unless it ends with exit status 0."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    status: object = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
    ):
        patch.setattr(sys, "argv", words)
        try:
            call()
        except SystemExit as end:
            status = end.code or 0
    out, err = (stream.buffer.getvalue().decode("utf-8") for stream in streams)  # type: ignore[attr-defined]
    assert status == 0, f"{command}\n{err}"
    return str(out)


def run_page(
    page: str, folder: Path, tolerance: float, fault: Callable[[], str] | None = None
) -> tuple[str, str, list[tuple[str, str]]]:
    """Run a page's shell and Python blocks in order; a text block shows what the last line printed.

    Before a text block with the comment ``<!-- a fault ... -->``, `fault` runs and prints instead.

    Returns
    -------
    The page as it now is, what the last command printed, and the numbers that are farther apart
    than `tolerance` (`numbers_differ`).
    """
    printed, result, at = "", "", 0
    far = []
    for number, block in enumerate(_BLOCK.finditer(page)):
        is_fault, kind, text = block.groups()
        if kind == "sh":
            for line in text.splitlines():
                printed = run_line(line, folder)
        elif kind == "python":
            (folder / f"block{number}.py").write_text(text)
            printed = run_line(f"python block{number}.py", folder)
        else:
            if is_fault and fault is not None:
                printed = fault()
            now = shown_again(text, printed)
            far += numbers_differ(text, now, tolerance)
            result += page[at : block.start(3)] + now
            at = block.end(3)
    return result + page[at:], printed, far


def shown_again(shown: str, found: str) -> str:
    """What a page shows of an output, as the output now is.

    Lines must be the same but for their numbers and the width of columns; a line ``...`` stands for
    any number of lines. Fails with the first line that is not there.
    """
    lines = found.splitlines()
    at, result, skipping = 0, [], False
    for line in shown.splitlines():
        if line == "...":
            skipping = True
            result.append(line)
            continue
        reach = range(at, len(lines)) if skipping else range(at, min(at + 1, len(lines)))
        number = next((k for k in reach if _masked(lines[k]) == _masked(line)), None)
        assert number is not None, f"not in the output, or not there: {line!r}\n{found}"
        result.append(lines[number].rstrip())
        at, skipping = number + 1, False
    assert skipping or at == len(lines), f"the page leaves out {lines[at:]}"
    return "\n".join(result) + "\n"


def numbers_differ(shown: str, found: str, tolerance: float) -> list[tuple[str, str]]:
    """Numbers of two such texts that are farther apart; times and shares may be anything."""
    old_numbers, new_numbers = (_NUMBER.findall(_HASH.sub("", text)) for text in (shown, found))
    pairs = zip(old_numbers, new_numbers, strict=True)
    return [
        (old, new)
        for old, new in pairs
        if not old.endswith(("%", "ms"))
        and abs(_value(old) - _value(new)) > tolerance * _value(old)
    ]


_BLOCK = re.compile(r"(<!-- a fault.*?-->\n)?```(sh|python|text)\n(.*?)```\n", re.DOTALL)
_NUMBER = re.compile(r"\d[\d,.]*(?: %| ms)?")
_HASH = re.compile(r"[0-9a-f]{16}|\bx[0-9a-f]{12}\b")
"""Fingerprints, and the names of variants that a search finds."""


def _masked(line: str) -> str:
    """Words, with # for numbers, whether they have a sign or not; rules and bars have length 1."""
    words = re.sub(r"([─█])\1+", r"\1", _HASH.sub("#", line)).split()
    return " ".join(re.sub(r"-?\d[\d,.]*", "#", word) for word in words)


def _value(number: str) -> float:
    return float(number.split()[0].replace(",", "").rstrip("."))
