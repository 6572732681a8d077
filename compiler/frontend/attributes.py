"""Attributes of ONNX nodes, with defaults."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import onnx
from onnx import helper

__all__ = ["attribute", "default_attributes", "is_default"]


def attribute(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """Value of an attribute, or `default` if it is absent."""
    for item in node.attribute:
        if item.name == name:
            return helper.get_attribute_value(item)
    return default


@lru_cache(maxsize=1024)
def default_attributes(
    op_type: str, opset: int, domain: str = ""
) -> Mapping[str, onnx.AttributeProto]:
    """The attributes with a default value that ONNX's schema of an operator has; none if there is
    no such operator."""
    try:
        schema: Any = onnx.defs.get_schema(op_type, opset, "" if domain == "ai.onnx" else domain)
    except onnx.defs.SchemaError:
        return {}
    found = ((name, item.default_value) for name, item in schema.attributes.items())
    return {name: value for name, value in found if value.type != onnx.AttributeProto.UNDEFINED}


def is_default(item: onnx.AttributeProto, op_type: str, opset: int, domain: str = "") -> bool:
    """Whether an attribute has its default value, so that it is as if it were absent."""
    default = default_attributes(op_type, opset, domain).get(item.name)
    if default is None or default.type != item.type:
        return False
    return bool(helper.get_attribute_value(item) == helper.get_attribute_value(default))
