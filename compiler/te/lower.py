"""From tensor expressions to the loop IR: one block per computation, in order of need."""

from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType

from daedal.compiler.te.reduction import combine, identity
from daedal.compiler.te.tensor import Tensor
from daedal.compiler.tir.errors import ExpressionError
from daedal.compiler.tir.expr import Axis, Buffer, Expr, Load, Reduce, Var
from daedal.compiler.tir.region import make_block, whole_window
from daedal.compiler.tir.stmt import (
    Allocate,
    Allocation,
    Block,
    BlockRealize,
    BufferStore,
    For,
    PrimFunc,
    Seq,
    Stmt,
)
from daedal.compiler.tir.verify import verify
from daedal.compiler.tir.visit import replace_buffers, substitute

__all__ = ["create_prim_func", "tensor_block", "topological"]


def topological(outputs: Sequence[Tensor], known: Container[Tensor] = ()) -> list[Tensor]:
    """Every tensor that `outputs` need, producers first; neither the `known` ones nor what only
    they need."""
    order: dict[Tensor, None] = {}
    stack = [(tensor, False) for tensor in reversed(outputs)]
    while stack:
        tensor, ready = stack.pop()
        if ready:
            order[tensor] = None
        elif tensor not in order and tensor not in known:
            stack.append((tensor, True))
            stack += [(source, False) for source in reversed(tensor.inputs)]
    return list(order)


def create_prim_func(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    name: str = "main",
    starts: Mapping[Tensor, Expr] = MappingProxyType({}),
) -> PrimFunc:
    """A function with `inputs` and then `outputs` as parameters; what lies between is allocated.

    `starts` says what reductions begin at, over their axes, instead of what changes nothing.

    Raises
    ------
    ExpressionError
        Where a placeholder is missing from `inputs` or stands among `outputs`, something else
        stands among `inputs`, or two tensors bear one name.
    """
    tensors = topological(outputs)
    _check_parameters(inputs, outputs, tensors, name)
    everything = list(dict.fromkeys([*inputs, *tensors]))
    buffers: dict[Buffer, Buffer] = {
        tensor: Buffer(tensor.name, tensor.shape, tensor.dtype) for tensor in everything
    }
    nests = [
        _nest(tensor, buffers, starts.get(tensor)) for tensor in tensors if tensor.value is not None
    ]
    body: Stmt = nests[0] if len(nests) == 1 else Seq(tuple(nests))
    params = (*inputs, *outputs)
    inner = [buffers[tensor] for tensor in tensors if tensor not in params]
    if inner:
        body = Allocate(tuple(Allocation(buffer, whole_window(buffer)) for buffer in inner), body)
    func = PrimFunc(name, tuple(buffers[t] for t in params), body, len(outputs))
    verify(func)
    return func


def _check_parameters(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], tensors: Sequence[Tensor], name: str
) -> None:
    for tensor in (*inputs, *tensors):
        if tensor.value is None and tensor not in inputs:
            raise ExpressionError(
                f"placeholder {tensor.name!r} must be among the inputs of {name!r}"
            )
        if tensor.value is not None and tensor in inputs:
            raise ExpressionError(f"inputs of {name!r} must be placeholders, not {tensor.name!r}")
    if not outputs or any(tensor.value is None for tensor in outputs):
        raise ExpressionError(f"{name!r} needs outputs, and must compute each of them")
    names = [tensor.name for tensor in (*inputs, *tensors) if tensor.value is not None]
    names += [tensor.name for tensor in inputs]
    for item in names:
        if names.count(item) > 1:
            raise ExpressionError(f"tensors of one function need distinct names, not two {item!r}")


def tensor_block(
    tensor: Tensor, buffers: Mapping[Buffer, Buffer], start: Expr | None = None
) -> Block:
    """The block that computes one tensor; its variables are the axes with a ``v`` before.

    `start` : what a reduction begins at; None: what changes nothing.
    """
    assert tensor.value is not None
    reduce = tensor.value if isinstance(tensor.value, Reduce) else None
    axes = tensor.axes + (reduce.axes if reduce is not None else ())
    iter_vars = tuple(Axis(f"v{axis.name}", extent=axis.extent, kind=axis.kind) for axis in axes)
    renamed: dict[Var, Expr] = dict(zip(axes, iter_vars, strict=True))
    formula = tensor.value if reduce is None else reduce.value
    value = replace_buffers(substitute(formula, renamed), buffers)
    target = buffers[tensor]
    indices = iter_vars[: len(tensor.axes)]
    init: Stmt | None = None
    if reduce is not None:
        first = identity(reduce.op, tensor.dtype)
        if start is not None:
            first = replace_buffers(substitute(start, renamed), buffers)
        init = BufferStore(target, indices, first)
        value = combine(reduce.op, Load(target, indices), value)
    return make_block(tensor.name, iter_vars, BufferStore(target, indices, value), init)


def _nest(tensor: Tensor, buffers: Mapping[Buffer, Buffer], start: Expr | None) -> Stmt:
    """Loops named as the axes around the block of one tensor."""
    block = tensor_block(tensor, buffers, start)
    loops = tuple(Var(axis.name.removeprefix("v")) for axis in block.iter_vars)
    stmt: Stmt = BlockRealize(loops, block)
    for loop, axis in zip(reversed(loops), reversed(block.iter_vars), strict=True):
        stmt = For(loop, axis.extent, stmt)
    return stmt
