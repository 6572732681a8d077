"""Checks the invariants of `graph.Graph`; tests run it after every pass."""

from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.registry import get_op

__all__ = ["verify"]


def verify(graph: Graph) -> None:
    """Assert single assignment, order, signatures and types of a graph.

    A violation is a bug in a pass, not a mistake of the user, so it is an AssertionError.
    """
    defined: set[str] = set()
    for name in (*graph.inputs, *graph.constants):
        assert name not in defined, f"tensor {name!r} is defined twice"
        defined.add(name)
    for name, array in graph.constants.items():
        type_ = graph.types[name]
        assert array.shape == type_.physical_shape and array.dtype.name == type_.dtype, (
            f"constant {name!r} holds {array.dtype}{list(array.shape)}, its type is {type_}"
        )
    for node in graph.nodes:
        for name in node.inputs:
            assert name in defined, f"{node} reads {name!r} before it is defined"
        definition = get_op(node.op)
        operands = [graph.types[name] for name in node.inputs]
        definition.check(operands, node.attrs)
        result = definition.infer(operands, node.attrs)
        assert graph.types[node.output] == result, (
            f"{node} gives {result}, its type is {graph.types[node.output]}"
        )
        assert node.output not in defined, f"tensor {node.output!r} is defined twice"
        defined.add(node.output)
    for name in graph.outputs:
        assert name in defined, f"output {name!r} is not defined"
    assert defined == set(graph.types), "types are kept for tensors that are not defined"
