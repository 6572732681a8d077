"""docs/pool.md: its commands and its Python run, the pool's on the loopback interface."""

import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.pages import blocks, commands, make_checkout, run_line

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "pool.md").read_text("utf-8")
HOST = "192.0.2.10:8786"
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from daedal.cli import main
main()
"""
"""A shell's background job is started with SIGINT ignored."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for package in ("distributed", "xgboost"):
        pytest.importorskip(package, reason="the extra `tune` is not installed")
    return make_checkout(tmp_path)


@contextmanager
def running(command: str, folder: Path) -> Iterator[None]:
    """A `daedal pool` that has said where it is, until the end of the block."""
    arguments = command.removeprefix("daedal ").split()
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any(" with cycle-model" in line for line in lines), "it ended before it was there"
        yield
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130


@pytest.mark.slow
def test_commands_run(folder: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl, which is not there")
    for line in commands(PAGE):
        run_line(line, folder)
    lines = "".join(blocks(PAGE, "console")).splitlines()
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    listen, join, tune = (line.removeprefix("$ ").replace(HOST, address) for line in lines)
    with running(listen, folder), running(join.replace("--workers 4", "--workers 1"), folder):
        assert "layers alone:" in run_line(tune, folder)


def test_python_runs(folder: Path) -> None:
    (block,) = blocks(PAGE, "python")
    (folder / "block.py").write_text(block)
    run_line("python block.py", folder)


def test_the_page_names_all_files() -> None:
    from daedal.tuning.pool_security import TLS_FILES

    assert set(TLS_FILES) <= set(re.findall(r"`(\w+\.pem)`", PAGE))
