"""`daedal pool`: what it refuses, one sentence each. tests/daedal/tuning/test_pool.py runs it."""

import socket
import subprocess
import sys

import pytest

from tests.support.command_line import Run, refuses


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "a pool is either started or joined; give --listen or --join"),
        (["--listen", "127.0.0.1:0", "--join", "127.0.0.1:1"], "give --listen or --join"),
        (["--listen", "192.0.2.1:80"], "a pool beyond this machine must have certificates"),
        (["--join", "192.0.2.1:80"], "a pool beyond this machine must have certificates"),
        (["--listen", "nowhere"], "a pool's address must be HOST:PORT"),
        (["--listen", "127.0.0.1:0", "--tag", "gpu"], "one tag of cycle-model, rtl, not 'gpu'"),
        (["--join", "127.0.0.1:1", "--workers", "0"], "at least 1 worker, not 0"),
        (["--listen", "192.0.2.1:0", "--tls", "nowhere"], "must have ca.pem, cert.pem, key.pem"),
    ],
)
def test_bad_input_is_refused(run: Run, arguments: list[str], words: str) -> None:
    pytest.importorskip("distributed", reason="the extra `tune` is not installed")
    refuses(run("pool", *arguments), words)


def test_an_address_that_is_taken_is_refused() -> None:
    pytest.importorskip("distributed", reason="the extra `tune` is not installed")
    command = "from daedal.cli import main; main()"
    with _loopback_server() as taken:
        host, port = taken.getsockname()[:2]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        # In a process of its own: Dask leaves the sockets that it could not bind open.
        done = subprocess.run(
            [sys.executable, "-c", command, "pool", "--listen", address],
            capture_output=True,
            text=True,
            check=False,
        )
    answer = (done.returncode, done.stdout, " ".join(done.stderr.split()))
    refuses(answer, "that is free; ", "choose another")


def _loopback_server() -> socket.socket:
    """A server at ``::1``, whose addresses have brackets, where this machine has IPv6."""
    try:
        return socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        return socket.create_server(("127.0.0.1", 0))


def test_a_missing_package_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("distributed", "daedal.tuning.pool_server", "daedal.tuning.pool_security"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    answer = run("pool", "--listen", "127.0.0.1:0")
    refuses(answer, "needs the Python package 'distributed', which is missing; install daedal[tune")
