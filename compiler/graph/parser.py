"""`parse_graph`: a graph from its text, as `printer` writes it.

The text has the types of results, which must be those that the operators infer. Constants of more
than four elements are a checksum in the text; their values are given, or drawn where the text has
``?`` instead. So tests of passes can be written in text.
"""

import ast
import json
import re
import zlib
from collections.abc import Callable, Mapping

import numpy as np

from daedal.common.errors import ModelError
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, AttrValue, Graph
from daedal.compiler.graph.layout import (
    PLAIN,
    ActivationLayout,
    Layout,
    PixelLayout,
    WeightLayout,
)
from daedal.compiler.graph.ops.registry import get_op, list_ops
from daedal.compiler.graph.types import TensorType

__all__ = ["parse_graph"]

_NAME = r'(?:[A-Za-z0-9_./:\-]+|"(?:[^"\\]|\\.)*")'
_TYPE = r"(?P<type>[a-z0-9]+\[[0-9,]*\](?::\w+)?)"
_HEAD = re.compile(rf"graph (?P<name>{_NAME}) \{{")
_INPUT = re.compile(rf"input (?P<name>{_NAME}): {_TYPE}")
_CONST = re.compile(rf"const (?P<name>{_NAME}): {_TYPE} = (?P<value>.+)")
_OUTPUT = re.compile(rf"output (?P<name>{_NAME})")
_NODE = re.compile(
    rf"(?P<name>{_NAME}): {_TYPE} = (?P<op>\w+)\((?P<operands>.*?)\)(?P<attrs>(?: \w+=\S*)*)"
    rf"(?:  # (?P<comment>{_NAME}))?"
)
_DTYPE = re.compile(r"([a-z0-9]+)\[([0-9,]*)\](?::(\w+))?")

_LAYOUTS: dict[str, Callable[[int, int], Layout]] = {
    r"NCHW(\d+)n(\d+)c": lambda batch, block: ActivationLayout(batch=batch, block=block),
    r"NCP(\d+)p(\d+)c": lambda batch, block: PixelLayout(batch=batch, block=block),
    r"OIHW(\d+)o(\d+)i": lambda outs, ins: WeightLayout(block_out=outs, block_in=ins),
}
"""Those that two numbers determine."""

_KINDS: dict[str, Callable[[str], AttrValue]] = {
    "float": float,
    "int": int,
    "ints": lambda text: tuple(int(item) for item in text.split(",") if item),
    "str": str,
}


def parse_graph(
    text: str,
    constants: Mapping[str, Array] | None = None,
    rng: np.random.Generator | None = None,
) -> Graph:
    """The graph that `text` describes.

    Parameters
    ----------
    constants : values of those that are a checksum in the text, in the physical shape.
    rng : draws the values of those that are ``?``.

    Raises
    ------
    ModelError
        For a line that is none of a graph, a type that an operator does not infer, and a constant
        without its value.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line]
    head = _HEAD.fullmatch(lines[0][1]) if lines else None
    if head is None or lines[-1][1] != "}":
        raise ModelError("the text of a graph must begin with 'graph NAME {' and end with '}'")
    reader = _Reader(_unquoted(head["name"]), constants or {}, rng)
    for number, line in lines[1:-1]:
        try:
            reader.read(line)
        except (KeyError, ValueError, SyntaxError, AssertionError) as error:
            raise ModelError(f"line {number} of a graph is wrong: {error} ({line})") from error
    return reader.builder.finish(reader.outputs)


class _Reader:
    def __init__(
        self, name: str, constants: Mapping[str, Array], rng: np.random.Generator | None
    ) -> None:
        self.builder = GraphBuilder(name)
        self.outputs: list[str] = []
        self._constants, self._rng = constants, rng
        self._operators = {item.name for item in list_ops()}

    def read(self, line: str) -> None:
        """Add what a line says."""
        if found := _INPUT.fullmatch(line):
            self.builder.input(_unquoted(found["name"]), _type(found["type"]))
        elif found := _CONST.fullmatch(line):
            name, kind = _unquoted(found["name"]), _type(found["type"])
            self.builder.constant(name, self._value(name, kind, found["value"]), kind)
        elif found := _OUTPUT.fullmatch(line):
            self.outputs.append(_unquoted(found["name"]))
        elif found := _NODE.fullmatch(line):
            self._add_node(found)
        else:
            raise ValueError("it is no input, constant, node or output")

    def _add_node(self, found: re.Match[str]) -> None:
        op, name = found["op"], _unquoted(found["name"])
        if op not in self._operators:
            raise ValueError(f"there is no operator {op!r}")
        kinds = get_op(op).attrs
        attrs: dict[str, AttrValue] = {}
        for item in found["attrs"].split():
            key, _, value = item.partition("=")
            if kinds.get(key) not in _KINDS:
                raise ValueError(f"{op} has no attribute {key!r} that text can give")
            attrs[key] = _KINDS[kinds[key]](value)
        operands = [_unquoted(item) for item in re.findall(_NAME, found["operands"])]
        comment = _unquoted(found["comment"] or found["name"])
        self.builder.add(op, operands, attrs, output=name, name=comment)
        inferred = str(self.builder.types[name])
        if inferred != found["type"]:
            raise ValueError(f"{name!r} is {inferred}")

    def _value(self, name: str, kind: TensorType, text: str) -> Array:
        if text == "?":
            if self._rng is None:
                raise ValueError(f"no generator draws {name!r}")
            return _drawn(kind, self._rng)
        if not text.startswith("crc32:"):
            return np.array(ast.literal_eval(text), kind.dtype).reshape(kind.physical_shape)
        if name not in self._constants:
            raise ValueError(f"{name!r} is a checksum, and its value is not given")
        value = np.ascontiguousarray(self._constants[name])
        if f"crc32:{zlib.crc32(value.tobytes()):08x}" != text:
            raise ValueError(f"{name!r} has another value")
        return value


def _drawn(kind: TensorType, rng: np.random.Generator) -> Array:
    dtype = np.dtype(kind.dtype)
    if dtype.kind == "f":
        return rng.normal(size=kind.physical_shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -128), min(info.max, 127) + 1, kind.physical_shape, dtype)


def _type(text: str) -> TensorType:
    found = _DTYPE.fullmatch(text)
    assert found is not None
    dtype, extents, layout = found.groups()
    shape = tuple(int(extent) for extent in extents.split(",") if extent)
    return TensorType(shape, dtype, PLAIN if layout is None else _layout(layout))


def _layout(text: str) -> Layout:
    for pattern, make in _LAYOUTS.items():
        if found := re.fullmatch(pattern, text):
            first, second = map(int, found.groups())
            return make(first, second)
    raise ValueError(f"text does not say enough of layout {text}")


def _unquoted(name: str) -> str:
    return json.loads(name) if name.startswith('"') else name
