"""What the command line answered, and the form of its refusals; `run` of tests/daedal calls it."""

from collections.abc import Callable

__all__ = ["Answer", "Run", "refuses"]

Answer = tuple[int, str, str]
"""Exit status, standard output, standard error."""

Run = Callable[..., Answer]


def refuses(answer: Answer, *parts: str) -> None:
    """Exit status 2, nothing on standard output, one last sentence that has all `parts`."""
    status, out, err = answer
    assert status == 2, err
    assert out == ""
    assert "Traceback" not in err
    *progress, last = err.splitlines()
    assert last.startswith("error: ")
    assert not any(line.startswith("error:") for line in progress)
    for part in parts:
        assert part in last
