"""The typed graph: operators, interpreter, printer, verifier and the passes over it."""

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.extract import extract
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.interpreter import run, run_all
from daedal.compiler.graph.layout import (
    PLAIN,
    ActivationLayout,
    DepthwiseLayout,
    Layout,
    PlainLayout,
    WeightLayout,
)
from daedal.compiler.graph.ops import OpDef, get_op, list_ops
from daedal.compiler.graph.printer import print_graph
from daedal.compiler.graph.types import TensorType
from daedal.compiler.graph.verifier import verify

__all__ = [
    "PLAIN",
    "ActivationLayout",
    "DepthwiseLayout",
    "Graph",
    "GraphBuilder",
    "Layout",
    "Node",
    "OpDef",
    "PlainLayout",
    "TensorType",
    "WeightLayout",
    "extract",
    "get_op",
    "list_ops",
    "print_graph",
    "run",
    "run_all",
    "verify",
]
