"""`KernelBuilder`: the kernels that `fusion` has decided on.

Input: roots, tensors that are stored, and the formula of every tensor. Output: `Kernel`s, with
placeholders for what other kernels write.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from daedal.compiler import te
from daedal.compiler.cpu.attentions import Stages
from daedal.compiler.cpu.constants import Constants
from daedal.compiler.cpu.immediates import without_immediates
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.cpu.reciprocals import with_reciprocals, without_tiny_powers
from daedal.compiler.ops.attended import Attended
from daedal.compiler.tir.expr import Buffer, Call, Expr, Load, Reduce, Var
from daedal.compiler.tir.visit import loads, rewrite, substitute, walk

__all__ = ["KernelBuilder"]


class KernelBuilder:
    """Builds kernels.

    Parameters
    ----------
    formulas : of all tensors.
    constants : which new ones are added to.
    copies : whether kernels are those of processors: divisions by constants become products, and
        large immediates constants.
    """

    def __init__(self, formulas: Mapping[Buffer, Expr], constants: Constants, copies: bool) -> None:
        self._formulas, self._constants, self._copies = formulas, constants, copies

    def kernel(self, root: te.Tensor, source: te.Tensor | None) -> Kernel:
        """The kernel of a root, with placeholders for what other kernels write."""
        formula = self._formulas[root]
        if source is None and isinstance(formula, Reduce):
            source = root
        reduction = None
        formula = self._constants.folded(formula)
        known: dict[Buffer, te.Tensor] = {}
        given: dict[Buffer, te.Tensor] = {}
        formulas = [formula]
        if source is not None:
            formulas.append(self._constants.folded(self._formulas[source]))
        if self._copies:
            formulas[0] = with_reciprocals(formulas[0])
            formulas, added = without_immediates(formulas)
            self._constants.added.update(added)
            formula = formulas[0]
        if source is not None:
            value, known = _outside(formulas[1], known)
            reduction = te.Tensor("r", source.shape, source.dtype, "global", source.axes, value)
        if source is root:
            assert reduction is not None
            result = te.compute(root.shape, lambda *i: reduction[i], "y")
        else:
            if source is not None and reduction is not None:
                given = {source: reduction}
            value, known = _outside(formula, {**known, **given})
            result = te.Tensor("y", root.shape, root.dtype, "global", root.axes, value)
        inputs = tuple(tensor for tensor in known.values() if tensor is not reduction)
        sources = tuple(buffer for buffer, tensor in known.items() if tensor is not reduction)
        return Kernel(inputs, result, reduction, sources)

    def rows(self, root: te.Tensor, stages: Sequence[te.Tensor]) -> Kernel:
        """The kernel of a root and what is computed before each of its rows."""
        if not self._copies:
            return self._staged(root, stages, None)
        folded = [self._constants.folded(self._formulas[item]) for item in (*stages, root)]
        calls = {node.name for item in folded for node in walk(item) if isinstance(node, Call)}
        raised = without_tiny_powers((*stages, root), folded) if "exp" in calls else None
        folded = raised or folded
        folded[-1] = with_reciprocals(folded[-1], may_be_tiny="exp" in calls and raised is None)
        formulas, added = without_immediates(folded)
        self._constants.added.update(added)
        known: dict[Buffer, te.Tensor] = {}
        made = list[te.Tensor]()
        for number, (tensor, formula) in enumerate(zip((*stages, root), formulas, strict=True)):
            value, known = _outside(formula, known)
            name = "y" if tensor is root else f"r{number}"
            made.append(te.Tensor(name, tensor.shape, tensor.dtype, "global", tensor.axes, value))
            known[tensor] = made[-1]
        *own, result = made
        pairs = [(buffer, item) for buffer, item in known.items() if item not in made]
        sources = tuple(buffer for buffer, _ in pairs)
        inputs = tuple(item for _, item in pairs)
        return Kernel(inputs, result, None, sources, stages=tuple(own))

    def attention(self, root: te.Tensor, item: Attended, stages: Stages) -> Kernel:
        """The kernel of an attention for `root`: its result, or what reads that one by one."""
        kernel = self._staged(root, stages.before, stages.mean, item.result)
        scores = kernel.stages[stages.before.index(item.scores)]
        return replace(kernel, scores=scores, is_guarded=item.is_guarded)

    def _staged(
        self,
        root: te.Tensor,
        stages: Sequence[te.Tensor],
        reduction: te.Tensor | None,
        inlined: te.Tensor | None = None,
    ) -> Kernel:
        """The kernel of a root, `stages` before it, and the `reduction` that it reads, perhaps over
        the formula of `inlined`."""
        known: dict[Buffer, te.Tensor] = {}
        made: dict[Buffer, te.Tensor] = {}
        for number, tensor in enumerate(stages if reduction is None else (*stages, reduction)):
            value, known = _outside(self._constants.folded(self._formulas[tensor]), known)
            name = "r" if tensor is reduction else f"r{number}"
            made[tensor] = known[tensor] = te.Tensor(
                name, tensor.shape, tensor.dtype, "global", tensor.axes, value
            )
        if root is reduction:
            mean = made[reduction]
            result = te.compute(mean.shape, lambda *i: mean[i], "y")
        else:
            formula = self._formulas[root]
            if inlined is not None and root is not inlined is not reduction:
                formula = self._written_into(formula, inlined)
            value, known = _outside(self._constants.folded(formula), known)
            result = te.Tensor("y", root.shape, root.dtype, "global", root.axes, value)
        pairs = [(buffer, tensor) for buffer, tensor in known.items() if buffer not in made]
        sources, inputs = (tuple(items) for items in zip(*pairs, strict=True))
        own = tuple(made[tensor] for tensor in stages)
        return Kernel(inputs, result, reduction and made[reduction], sources, stages=own)

    def _written_into(self, formula: Expr, source: te.Tensor) -> Expr:
        """A formula with that of a tensor which it reads in it."""

        def visit(node: Expr) -> Expr | None:
            if not isinstance(node, Load) or node.buffer is not source:
                return None
            values: dict[Var, Expr] = dict(zip(source.axes, node.indices, strict=True))
            return substitute(self._formulas[source], values)

        return rewrite(formula, visit)


def _outside(formula: Expr, known: dict[Buffer, te.Tensor]) -> tuple[Expr, dict[Buffer, te.Tensor]]:
    """The formula with placeholders named by their order for all that it reads."""
    found = dict(known)
    for load in loads(formula):
        if load.buffer not in found:
            number = len(found)
            found[load.buffer] = te.placeholder(load.buffer.shape, load.buffer.dtype, f"x{number}")

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            return Load(found[node.buffer], node.indices, node.pad_value)
        return None

    return rewrite(formula, visit), found
