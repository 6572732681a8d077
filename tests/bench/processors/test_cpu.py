"""The comparison of our int8 runs with our float runs in `bench/processors/cpu.py`."""

from bench.processors.cpu import Row, over_floats


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
