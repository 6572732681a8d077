"""`fuse`: tensor expressions become kernels.

A tensor without a reduction is written into the formula of its reader where that computes nothing
twice: it has one reader, or only moves or converts elements. A reduction and the one tensor that
reads it element by element become one kernel, and so do tensors of rows, as those of a softmax
(`rows`), and on GPUs attention (`attentions`). Everything else is in memory between two kernels.
What is read with pads around it is stored inside these pads (`frame`), and operands of reductions
are copied where vectors need another layout (`operands`).
Source: the fusion rules of Chen et al., "TVM", OSDI 2018, section 3.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from daedal.compiler import te
from daedal.compiler.cpu.attentions import attention_stages, is_reordered
from daedal.compiler.cpu.combinations import Combination, combination_groups, is_combination
from daedal.compiler.cpu.constants import Constants
from daedal.compiler.cpu.frame import Frame, Framed, framed
from daedal.compiler.cpu.halves import with_halves
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.cpu.kernel_builder import KernelBuilder
from daedal.compiler.cpu.narrowing import without_narrow_casts
from daedal.compiler.cpu.operands import laid_out
from daedal.compiler.cpu.rows import row_groups
from daedal.compiler.cpu.turning import turned_reductions
from daedal.compiler.ops.attended import Attended
from daedal.compiler.te.lower import topological
from daedal.compiler.tir.dtype import numpy_dtype
from daedal.compiler.tir.expr import (
    Binary,
    Buffer,
    Call,
    Cast,
    Compare,
    Expr,
    IntImm,
    Load,
    Reduce,
    Select,
    Var,
)
from daedal.compiler.tir.visit import children, loads, rewrite, substitute, walk

__all__ = ["fuse", "is_move"]

MAX_NODES = 400
"""Nodes of a formula: a larger one is split into kernels."""
MOST_STEPS = 4
"""From a requantized sum back to the reduction."""
MAX_HEIGHT = 64
"""Nested operations of a formula, as what lowers it recurses."""


def fuse(
    needed: Sequence[te.Tensor],
    constants: Constants,
    *,
    copies: bool = True,
    attentions: Sequence[Attended] = (),
    takes: Callable[[Kernel], bool] = lambda _: True,
    narrows: Callable[[te.Tensor], bool] = lambda _: False,
    half: str = "",
) -> dict[te.Tensor, Kernel]:
    """The kernels that compute `needed`, by what they write, in any order.

    Parameters
    ----------
    needed : tensors that must be in memory, computed ones.
    constants : those of one element become immediates, and what formulas compute of constants alone
        is computed now.
    copies : whether maps with pads and operands in another layout are brought into memory, for the
        vectors of processors.
    attentions : that become a kernel each, where this `takes` it.
    narrows : whether operands of a sum of products of float32 are rounded to `half`, if there is
        one. Both products of an attention are alike.
    """
    return _Fusion(needed, constants, copies, attentions, takes, narrows, half).kernels


class _Fusion:
    def __init__(
        self,
        needed: Sequence[te.Tensor],
        constants: Constants,
        copies: bool,
        attentions: Sequence[Attended],
        takes: Callable[[Kernel], bool],
        narrows: Callable[[te.Tensor], bool],
        half: str,
    ) -> None:
        self._constants = constants
        self._copies = copies
        self._attentions = attentions
        self._takes = takes
        self._needed = set(needed)
        order = [tensor for tensor in topological(needed) if tensor.value is not None]
        self._values: dict[te.Tensor, Expr] = {}
        for tensor in order:
            assert tensor.value is not None
            self._values[tensor] = tensor.value
        self._stored = set[te.Tensor]()
        if half:
            self._narrow(narrows, half)
        if copies:
            self._turn(self._roots())
        frames = self._framed(self._roots()) if copies else {}
        roots = self._roots()
        self.kernels = self._joined(self._with_operands(roots) if copies else roots)
        for tensor, item in frames.items():
            kernel = self.kernels.pop(item.content)
            self.kernels[tensor] = replace(kernel, frame=item.frame)

    def _narrow(self, narrows: Callable[[te.Tensor], bool], half: str) -> None:
        """Round operands of products to 16 bits."""
        attended = {part for item in self._attentions for part in (item.products, item.result)}
        self._values, halves = with_halves(
            self._values,
            self._constants,
            lambda tensor: tensor in attended or narrows(tensor),
            half,
        )
        self._stored = set(halves.values())
        self._attentions = [
            replace(item, weights=halves.get(item.weights, item.weights))
            for item in self._attentions
        ]

    def _roots(self) -> list[te.Tensor]:
        """The tensors that are written into no formula; readers and formulas of all are set."""
        self._readers: dict[Buffer, list[te.Tensor]] = {tensor: [] for tensor in self._values}
        self._padded: set[Buffer] = set()
        for tensor, value in self._values.items():
            for load in loads(value):
                if load.buffer in self._readers and tensor not in self._readers[load.buffer]:
                    self._readers[load.buffer].append(tensor)
                if load.pad_value is not None:
                    self._padded.add(load.buffer)
        self._formulas: dict[Buffer, Expr] = {}
        inlined: set[Buffer] = set()
        for tensor in self._values:
            self._formulas[tensor] = self._formula(tensor, inlined)
            if self._is_inlined(tensor):
                inlined.add(tensor)
        return [tensor for tensor in self._values if tensor not in inlined]

    def _turn(self, roots: Sequence[te.Tensor]) -> None:
        """Compute reductions in the order of their reader's axes."""
        found = turned_reductions({*self._needed, *self._padded}, roots, self._formulas)
        if not found:
            return
        formulas = {item.reader: item.formula for item in found.values()}
        values: dict[te.Tensor, Expr] = {}
        for tensor, value in self._values.items():
            item = found.get(tensor)
            if item is not None:
                assert item.tensor.value is not None
                values[item.tensor] = item.tensor.value
            values[tensor] = formulas.get(tensor, value)
        read: set[Buffer] = set(self._needed)
        for tensor, value in reversed(values.items()):
            if tensor in read:
                read.update(load.buffer for load in loads(value))
        self._values = {tensor: value for tensor, value in values.items() if tensor in read}

    def _framed(self, roots: Sequence[te.Tensor]) -> dict[te.Tensor, Framed]:
        """Maps with pads among `roots`: from now on what they contain is computed, and stored in
        them.

        Where a map is in memory for nothing else, its other readers read the one with pads.
        """
        found = {root: item for root in roots if (item := framed(root)) is not None}
        if not found:
            return found
        inside: dict[Buffer, tuple[te.Tensor, Frame]] = {}
        for root, item in found.items():
            source = item.source
            padded = [
                reader
                for reader in self._readers.get(source, ())
                if any(load.pad_value is not None for load in _of(source, self._values[reader]))
            ]
            if item.copies and source not in self._needed | found.keys() and padded == [root]:
                inside[source] = root, item.frame
        values: dict[te.Tensor, Expr] = {}
        for tensor, value in self._values.items():
            if tensor in found:
                content = found[tensor].content
                assert content.value is not None
                values[content] = content.value
            else:
                values[tensor] = _reading_inside(value, inside)
        self._values = values
        self._needed = (self._needed - found.keys()) | {item.content for item in found.values()}
        return found

    def _with_operands(self, roots: Sequence[te.Tensor]) -> list[te.Tensor]:
        """`roots`, and before each what copies an operand of it for vectors."""
        found = list[te.Tensor]()
        copies: dict[tuple[Buffer, str], te.Tensor] = {}
        for root in roots:
            formula = self._formulas[root]
            if isinstance(formula, Reduce):
                formula, added = laid_out(formula, root.axes, self._constants.known, copies)
                self._formulas[root] = formula
                for tensor in added:
                    assert tensor.value is not None
                    self._formulas[tensor] = tensor.value
                found += added
            found.append(root)
        return found

    def _formula(self, tensor: te.Tensor, inlined: Collection[Buffer]) -> Expr:
        """The formula of `tensor` with those of inlined tensors in it."""

        def visit(node: Expr) -> Expr | None:
            if not isinstance(node, Load):
                return None
            if node.buffer not in inlined:
                return self._constants.immediate(node)
            source = node.buffer
            assert isinstance(source, te.Tensor)
            values: dict[Var, Expr] = dict(zip(source.axes, node.indices, strict=True))
            return substitute(self._formulas[source], values)

        return without_narrow_casts(rewrite(self._values[tensor], visit))

    def _is_inlined(self, tensor: te.Tensor) -> bool:
        formula = self._formulas[tensor]
        readers = self._readers[tensor]
        if _has_sums(formula) or tensor in self._needed or tensor in self._padded:
            return False
        if tensor in self._stored:  # so that products of matrices read nothing else
            return False
        if sum(1 for _ in walk(formula)) > MAX_NODES or _height(formula) > MAX_HEIGHT:
            return False
        if is_move(formula):
            return self._copies or not self._narrows_sum(tensor, formula)
        (reader,) = readers if len(readers) == 1 else (None,)
        if reader is None or _has_sums(self._values[reader]):
            return False
        if self._copies and self._is_second_sum(tensor, reader):
            return False
        return len(_of(tensor, self._values[reader])) == 1

    def _is_second_sum(self, tensor: te.Tensor, reader: te.Tensor) -> bool:
        """Whether `tensor` has sums in fewer bits, and `reader` reads those of a longer reduction,
        too: a kernel has one reduction, so the sums of the other would be in memory as they are."""
        own = self._sum_behind(tensor)
        if own is None or _bytes_each(own) <= _bytes_each(tensor):
            return False
        others = {load.buffer for load in loads(self._values[reader])} - {tensor}
        found = [
            other
            for item in others
            if isinstance(item, te.Tensor) and self._readers.get(item) == [reader]
            if (other := self._sum_behind(item)) is not None and other is not own
        ]
        numbers = {item: number for number, item in enumerate(self._values)}
        return any(
            (_terms(self._values[item]), numbers[item]) > (_terms(self._values[own]), numbers[own])
            for item in found
        )

    def _sum_behind(self, tensor: te.Tensor, steps: int = MOST_STEPS) -> te.Tensor | None:
        """The longest reduction that `tensor` reads element by element, over tensors that nothing
        else reads."""
        value = self._values.get(tensor)
        if value is None or _has_sums(value):
            return None if value is None else tensor
        sources = {load.buffer for load in loads(value)} if steps else set[Buffer]()
        found = [
            behind
            for item in sources
            if isinstance(item, te.Tensor) and item.shape == tensor.shape
            if item not in self._needed and self._readers.get(item) == [tensor]
            if (behind := self._sum_behind(item, steps - 1)) is not None
        ]
        return max(found, key=lambda item: _terms(self._values[item]), default=None)

    def _narrows_sum(self, tensor: te.Tensor, formula: Expr) -> bool:
        """Whether a tensor rounds a sum to fewer bits: on a GPU, it is stored so, as products of
        matrices read nothing else."""
        match formula:
            case Cast(dtype, Load(te.Tensor() as source)):
                narrower = numpy_dtype(dtype).itemsize < numpy_dtype(source.dtype).itemsize
                alone = self._readers.get(source) == [tensor]
                return narrower and alone and self._is_epilogue(tensor, source)
        return False

    def _joined(self, roots: Sequence[te.Tensor]) -> dict[te.Tensor, Kernel]:
        """Kernels of roots: each reduction with its epilogue where it has one."""
        builder = KernelBuilder(self._formulas, self._constants, self._copies)
        readers: dict[Buffer, list[te.Tensor]] = {root: [] for root in roots}
        sources: dict[te.Tensor, list[te.Tensor]] = {root: [] for root in roots}
        numbers = {root: number for number, root in enumerate(roots)}
        for root in roots:
            for buffer in dict.fromkeys(load.buffer for load in loads(self._formulas[root])):
                if isinstance(buffer, te.Tensor) and buffer in readers:
                    readers[buffer].append(root)
                    sources[root].append(buffer)
        groups = self._combinations(roots, readers) if self._copies else {}
        epilogues: dict[te.Tensor, te.Tensor] = {}
        for root in roots:
            found = [
                source
                for source in sorted(sources[root], key=numbers.__getitem__)
                if readers[source] == [root] and self._is_epilogue(root, source)
                if source in groups or isinstance(self._formulas[source], Reduce)
            ]
            if found:
                epilogues[root] = max(found, key=lambda item: _terms(self._formulas[item]))
        kernels, stages = self._attended(builder, readers, epilogues)
        for tensor, combination in groups.items():
            root = next((item for item in epilogues if epilogues[item] is tensor), tensor)
            own = (combination.stage,) if root is tensor else (combination.stage, tensor)
            kernels[root] = replace(builder.rows(root, own), tile=combination.tile)
            stages.update(own)
        left = [root for root in roots if root not in stages | kernels.keys()]
        rows = set[te.Tensor]()
        for root, group in self._groups(left, readers, epilogues).items():
            kernel = builder.rows(root, group)
            if self._copies or self._takes(kernel):
                kernels[root] = kernel
                rows.add(root)
                stages.update(group)
        absorbed = stages | {
            source for root, source in epilogues.items() if root not in stages | rows
        }
        for root in roots:
            if root not in kernels and root not in absorbed:
                kernels[root] = builder.kernel(root, epilogues.get(root))
        return kernels

    def _combinations(
        self, roots: Sequence[te.Tensor], readers: Mapping[Buffer, Sequence[te.Tensor]]
    ) -> dict[te.Tensor, Combination]:
        """Those among tensors that would be in memory."""
        formulas = {root: self._formulas[root] for root in roots}
        return combination_groups(formulas, readers, {*self._needed, *self._padded})

    def _reordered(
        self, mean: te.Tensor, readers: Mapping[Buffer, Sequence[te.Tensor]]
    ) -> te.Tensor:
        """What is computed of a tensor with its axes in another order, if nothing else reads it."""
        found = readers.get(mean, ())
        if len(found) != 1 or mean in self._needed:
            return mean
        return found[0] if is_reordered(found[0], self._formulas[found[0]], mean) else mean

    def _attended(
        self,
        builder: KernelBuilder,
        readers: Mapping[Buffer, Sequence[te.Tensor]],
        epilogues: Mapping[te.Tensor, te.Tensor],
    ) -> tuple[dict[te.Tensor, Kernel], set[te.Tensor]]:
        """The kernels of attention, and what they compute besides their results."""
        kernels: dict[te.Tensor, Kernel] = {}
        absorbed: set[te.Tensor] = set()
        apart = {*self._needed, *self._padded}
        roots = {source: root for root, source in epilogues.items()}
        for item in self._attentions:
            found = attention_stages(item, self._formulas, readers, epilogues, apart)
            if found is None:
                continue
            root = None if found.mean is not item.result else roots.get(item.result)
            root = root or self._reordered(item.result, readers)
            kernel = builder.attention(root, item, found)
            if self._takes(kernel):
                kernels[root] = kernel
                absorbed.update({*found.before, found.mean, item.result} - {root})
        return kernels, absorbed

    def _groups(
        self,
        roots: Sequence[te.Tensor],
        readers: Mapping[Buffer, Sequence[te.Tensor]],
        epilogues: Mapping[te.Tensor, te.Tensor],
    ) -> dict[te.Tensor, tuple[te.Tensor, ...]]:
        """The stages of kernels that compute rows: not with reductions of other kinds."""
        apart = {root for root, source in epilogues.items() if source.shape[-1] > 1}
        formulas = {root: self._formulas[root] for root in roots if root not in apart}
        return row_groups(formulas, readers, {*self._needed, *self._padded}, lanes=self._copies)

    def _is_epilogue(self, tensor: te.Tensor, source: te.Tensor) -> bool:
        """Whether `tensor` reads the reduction `source` element by element."""
        formula = self._formulas[tensor]
        if source in self._needed or not _has_sums(self._formulas[source]):
            return False
        if _has_sums(formula) or tensor.shape != source.shape:
            return False
        read = [load for load in loads(formula) if load.buffer is source]
        return all(
            load.pad_value is None
            and all(
                index is axis or (axis.extent == 1 and index == IntImm(0))
                for index, axis in zip(load.indices, tensor.axes, strict=True)
            )
            for load in read
        )


def _of(buffer: Buffer, formula: Expr) -> list[Load]:
    """How a formula reads a buffer."""
    return [load for load in loads(formula) if load.buffer is buffer]


def _reading_inside(formula: Expr, inside: Mapping[Buffer, tuple[te.Tensor, Frame]]) -> Expr:
    """The formula, which reads tensors where they lie in larger ones."""

    def visit(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or node.buffer not in inside:
            return None
        outer, frame = inside[node.buffer]
        return Load(outer, frame.inside(node.indices))

    return rewrite(formula, visit)


def _height(formula: Expr) -> int:
    """The longest path from the formula to a leaf."""
    return 1 + max(map(_height, children(formula)), default=0)


def is_move(formula: Expr) -> bool:
    """Whether a formula only reads one element at an affine place, and converts it."""
    while isinstance(formula, Cast):
        formula = formula.value
    if not isinstance(formula, Load) or formula.pad_value is not None:
        return False
    return all(
        not isinstance(node, Load | Call | Select | Compare)
        and not (isinstance(node, Binary) and node.op not in ("+", "-", "*"))
        for index in formula.indices
        for node in walk(index)
    )


def _bytes_each(tensor: te.Tensor) -> int:
    return numpy_dtype(tensor.dtype).itemsize


def _has_sums(formula: Expr) -> bool:
    """Whether a kernel computes the sums of a formula, and then what reads them one by one."""
    return isinstance(formula, Reduce) or is_combination(formula)


def _terms(formula: Expr) -> int:
    count = 1
    if not isinstance(formula, Reduce):
        return count
    for axis in formula.axes:
        count *= axis.extent
    return count
