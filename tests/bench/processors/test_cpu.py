"""Comparisons of our own runs in `bench/processors/cpu.py`: int8 with float, threads with one."""

from bench.processors.cpu import ALONE, Row, over_floats


def row(name: str, seconds: float, threads: int = 1) -> Row:
    return Row(name, False, threads, 1.0, 1, [], 0.0, {"daedal": seconds}, {"daedal": seconds})


def test_forms_of_one_network_are_compared() -> None:
    rows = [
        row("net", 3.0),
        row("net, int8", 2.0),
        row("net", 2.0, threads=2),
        row("folder/model.onnx", 4.0),
        row("folder/model_qdq.onnx", 5.0),
        row("alone.onnx", 1.0),
    ]
    assert over_floats(rows) == {"net, 1 threads": 1.5, "folder/model.onnx, 1 threads": 0.8}


def test_several_threads_are_compared_with_one() -> None:
    """Not with the libraries: our run by one thread is none of theirs."""
    times = {"daedal": 2.0, ALONE: 3.0, "onnxruntime": 8.0}
    both = Row("net", False, 2, 1.0, 1, [], 0.0, times, times)
    assert (both.over_one, both.ratio) == (1.5, 4.0)
    assert row("net", 1.0).over_one is None
