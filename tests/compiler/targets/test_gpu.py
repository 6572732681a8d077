"""A GPU as a target: what it runs, what that costs, and which islands are worth it."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from daedal.common.errors import ModelError
from daedal.compiler.codegen.gpu.nvptx import ARCHITECTURES
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.passes.partition import Part, partition
from daedal.compiler.targets.crossings import HostRates
from daedal.compiler.targets.gpu import Gpu, GpuRates, gpu_rates
from daedal.compiler.targets.gpu_islands import gpu_islands
from daedal.compiler.targets.names import CPU
from daedal.compiler.targets.products import float_products

node = helper.make_node
RATES = GpuRates(1e9, 1e9, 1e-3, 1e9, 1e-2)


def graph_of(nodes: Sequence[onnx.NodeProto], *outputs: str, **constants: np.ndarray) -> Graph:
    """From x, of shape (4, 6)."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 6))
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    values = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "small", [x], results, values)
    opset = helper.make_opsetid("", 21)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    return load_onnx(onnx.shape_inference.infer_shapes(model))


def part_of(graph: Graph) -> list[Part]:
    return [Part("cpu0", CPU, (), graph)]


def chain() -> Graph:
    """A product, and a function of it."""
    weights = np.ones((6, 5), np.float32)
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Sin", ["a"], ["y"])]
    return graph_of(nodes, "y", w=weights)


def test_what_it_lacks() -> None:
    graph = graph_of(
        [node("Relu", ["x"], ["a"]), node("Sin", ["a"], ["b"]), node("Bernoulli", ["b"], ["y"])],
        "y",
    )
    gpu = Gpu(None)
    found = {item.output: gpu.lacks(graph, item) for item in graph.nodes}
    assert found == {"a": "", "b": "", "y": "Bernoulli has no code, and is interpreted"}


def test_products() -> None:
    graph = chain()
    assert [float_products(graph, item) for item in graph.nodes] == [4 * 5 * 6, 0]


def test_costs_are_of_bytes_or_products() -> None:
    graph, gpu = chain(), Gpu(RATES)
    product, sine = graph.nodes
    assert gpu.seconds(graph, product) == 1e-3 + 4 * (24 + 30 + 20) / 1e9
    assert gpu.seconds(graph, sine) == 1e-3 + 4 * (20 + 20) / 1e9
    assert gpu.crossing_seconds(1000) == 1e-2 + 1e-6
    slow = Gpu(GpuRates(1e9, 1e3, 0.0))
    assert slow.seconds(graph, product) == 0.12
    free = Gpu(None)
    assert free.seconds(graph, product) == free.crossing_seconds(10**9) == 0


@pytest.mark.parametrize("elements_per_cycle", [1e-5, 1e-6])
def test_an_island_is_worth_it_or_not(elements_per_cycle: float) -> None:
    """Two kernels and two transfers take 22 ms; the processor 40 times an element, and the
    products."""
    host = HostRates(elements_per_cycle=elements_per_cycle, macs_per_cycle=1e9)
    found = gpu_islands(part_of(chain()), Gpu(RATES), host, lambda _name: True)
    seconds = 40 / elements_per_cycle / 100e6
    assert (found.moved == {"a", "y"}) == (seconds > 0.022)
    assert bool(found.reasons) != bool(found.moved)
    for reason in found.reasons.values():
        assert reason == (
            "the GPU would take 22,000.8 microseconds, 20,000.2 of these for 176 bytes there and "
            "back, and the processor takes 40.0"
        )


def test_islands_that_exchange_nothing_are_apart() -> None:
    """Each is worth it or not by itself."""
    large = np.ones((6, 5000), np.float32)
    graph = graph_of(
        [node("MatMul", ["x", "w"], ["y"]), node("Sin", ["x"], ["z"])], "y", "z", w=large
    )
    host = HostRates(elements_per_cycle=1e-3)
    found = gpu_islands(part_of(graph), Gpu(RATES), host, lambda _name: True)
    assert found.moved == {"y"} and set(found.reasons) == {"z"}


def test_borders_are_tensors_of_the_model() -> None:
    """A node that exchanges another one stays, and so its neighbours may."""
    given = {"x", "y"}
    graph = chain()
    assert gpu_islands(part_of(graph), Gpu(None), HostRates(), given.__contains__).moved == {
        "a",
        "y",
    }
    more = graph_of(
        [
            node("Sin", ["x"], ["a"]),
            node("Bernoulli", ["a"], ["b"]),
            node("Sin", ["b"], ["c"]),
            node("Sin", ["c"], ["y"]),
        ],
        "y",
    )
    for names, moved in (({*"xaby"}, {*"acy"}), ({*"xayc"}, {*"ay"}), ({*"xy"}, set[str]())):
        found = gpu_islands(part_of(more), Gpu(None), HostRates(), names.__contains__)
        assert found.moved == moved


def test_views_alone_stay() -> None:
    graph = graph_of([node("Transpose", ["x"], ["y"])], "y")
    found = gpu_islands(part_of(graph), Gpu(None), HostRates(), lambda _name: True)
    assert not found.moved
    assert found.reasons == {"y": "only the order of elements changes"}


def test_rates_are_those_of_the_slowest() -> None:
    assert gpu_rates(["emulated-x86-64"]) is None
    fast, both, opencl = (gpu_rates(x) for x in (["sm_90"], ["sm_90", "sm_80"], ["spirv", "sm_80"]))
    assert both == gpu_rates(["sm_80", "emulated-x86-64"]) != fast
    assert opencl == gpu_rates(["spirv"]) != both
    for name in ARCHITECTURES:
        assert gpu_rates([name]) is not None


def test_a_gpu_without_an_accelerator_is_no_partition() -> None:
    with pytest.raises(ModelError, match="at least one layer must run on the accelerator"):
        partition(chain(), ("a",))
