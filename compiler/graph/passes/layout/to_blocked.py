"""Puts the integer operators' tensors into the layouts of the accelerator."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from daedal.common.errors import UnsupportedError, UserError
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Attrs, Graph, Node
from daedal.compiler.graph.grouped_layout import GroupedWeightLayout
from daedal.compiler.graph.layout import (
    MAP_RANK,
    ActivationLayout,
    DepthwiseLayout,
    Layout,
    PixelLayout,
    WeightLayout,
)
from daedal.compiler.graph.ops.attention import ATTENTION_WEIGHTS, WEIGHTED_MEAN
from daedal.compiler.graph.ops.channel_requantize import Q_CHANNEL_REQUANTIZE
from daedal.compiler.graph.ops.conv_transpose import sub_kernels_of
from daedal.compiler.graph.ops.integer import dtype_in, is_wide
from daedal.compiler.graph.ops.integer_elementwise import Q_SUM
from daedal.compiler.graph.ops.integer_rows import (
    Q_LAYER_NORM,
    Q_RMS_NORM,
    Q_SOFTMAX,
    ROW_OPERATORS,
    norm_steps_in_lanes,
)
from daedal.compiler.graph.ops.registry import get_op, ints, runs_on, whole
from daedal.compiler.graph.sub_kernel_layout import SubKernelLayout
from daedal.compiler.graph.table_layout import TableLayout
from daedal.compiler.graph.types import TensorType
from daedal.compiler.graph.unfit import UnfitLayers
from daedal.compiler.targets.names import ACCELERATOR

__all__ = ["to_blocked"]


def to_blocked(
    graph: Graph, *, block_in: int, block_out: int, batch: int = 1, depthwise_taps: int = 0
) -> Graph:
    """Block activations, weights and parameters; pack inputs and unpack outputs. Exact.

    A name means the same logical tensor as before. If a tensor exists in both layouts, the new one
    gets the suffix ``.blocked`` or ``.plain``.

    Parameters
    ----------
    graph : an integer graph without `q_dense` (`flatten_dense_to_conv`).
    block_in, block_out, batch : shape of the variant's multiplier array. Activations are blocked
        by max(block_in, block_out).
    depthwise_taps : maximum number of taps in a product of the depthwise modes; 0 if the variant
        has none, otherwise block_in == block_out. Convolutions with one channel per group use these
        modes. The groups of all others are joined until they fill blocks of channels.

    Before::

        y = q_conv2d(x, w, p) ...           # int8[1,20,8,8]
        z = dequantize(y, s, o)

    After::

        x.blocked = pack(x) batch=1 block=16
        y = q_conv2d(x.blocked, w.blocked, p.blocked) ...   # int8[1,20,8,8]:NCHW1n16c
        y.plain = unpack(y)
        z = dequantize(y.plain, s, o)

    A reshape between operators of the accelerator becomes a `reshape_view` if it only changes the
    length of rows, or has groups of whole blocks of channels as images, or the reverse.

    Raises
    ------
    UnfitLayers
        For all integer operators on tensors that are not maps (N, C, H, W), and for products that
        the array cannot compute.
    """
    assert not depthwise_taps or block_in == block_out, "depthwise modes need a square array"
    return _Blocking(graph, block_in, block_out, batch, depthwise_taps).run()


_WITH_CHANNELS = (
    *("q_conv2d", "q_conv_transpose2d"),
    *(Q_CHANNEL_REQUANTIZE.name, Q_LAYER_NORM.name, Q_RMS_NORM.name),
)
"""Operators with parameters per channel of the result."""

_PARAMETERS = {
    name: get_op(name).operands.index("params") for name in (Q_LAYER_NORM.name, Q_RMS_NORM.name)
}
"""Which operand they are, if not the last."""


class _Blocking:
    def __init__(
        self, graph: Graph, block_in: int, block_out: int, batch: int, depthwise_taps: int
    ) -> None:
        self._graph = graph
        self._builder = GraphBuilder(graph.name, graph)
        self._weights = WeightLayout(block_out, block_in)
        self._activations = ActivationLayout(batch, max(block_in, block_out))
        self._block_out = block_out
        self._depthwise_taps = depthwise_taps
        self._blocked: dict[str, str] = {}
        self._computed: set[str] = set()
        self._plain: dict[str, str] = {}
        self._unfit: dict[str, UserError] = {}

    def run(self) -> Graph:
        self._builder.copy_inputs()
        for node in self._graph.nodes:
            if runs_on(node.op, ACCELERATOR):
                self._try_to_block(node)
            elif self._keeps_pixels(node):
                self._block_reshape(node)
            else:
                self._copy_plain(node)
        if self._unfit:
            raise UnfitLayers(self._graph, self._unfit)
        return self._builder.finish([self._as_plain(name) for name in self._graph.outputs])

    def _copy_plain(self, node: Node) -> None:
        self._builder.copy_node(node, [self._as_plain(name) for name in node.inputs])

    def _try_to_block(self, node: Node) -> None:
        """Block a node, or note why that is impossible and go on with its plain form."""
        try:
            self._block_node(node)
        except UnsupportedError as error:
            self._unfit[node.output] = error
            self._copy_plain(node)

    def _block_node(self, node: Node) -> None:
        x = self._graph.types[node.inputs[0]]
        if x.rank != 4:
            raise UnsupportedError(
                f"tensors on the accelerator must be maps (N, C, H, W), not {x} ({node}); "
                "reshape it in the model",
                node.output,
            )
        if node.op in self.operand_rules:
            self._compute(node, node.op, self.operand_rules[node.op](self, node))
            return
        if get_op(node.op).is_view:
            self._compute(node, node.op, [self._as_blocked(name) for name in node.inputs])
            return
        *data, params = node.inputs
        if node.op == "q_conv2d":
            operands = [self._as_blocked(data[0]), self._block_weights(node)]
        elif node.op == "q_conv_transpose2d":
            operands = [self._as_blocked(data[0]), self._block_sub_kernels(node)]
        elif node.op == "q_matmul" and self._activations.batch > 1:
            self._compute_by_pixel(node)
            return
        elif node.op == "q_matmul":
            operands = self._block_matmul(node)
        elif node.op == "q_requantize_lookup":
            operands = [self._as_blocked(data[0]), self._block_table(data[1])]
        else:
            operands = [self._as_blocked(name) for name in data]
        operands.append(self._block_params(node, params))
        self._compute(node, node.op, operands)

    def _keeps_pixels(self, node: Node) -> bool:
        """Whether a reshape between operators of the accelerator keeps the order of the bytes."""
        if node.op != "reshape" or node.inputs[0] not in self._computed:
            return False
        before, after = (self._graph.types[name].shape for name in (node.inputs[0], node.output))
        users = self._graph.users[node.output]
        return (
            len(before) == len(after) == MAP_RANK
            and (before[:2] == after[:2] or self._regroups(before, after))
            and any(runs_on(user.op, ACCELERATOR) for user in users)
        )

    def _regroups(self, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
        """Whether a reshape of maps has groups of blocks of channels as images, or the reverse."""
        layout = self._activations
        return (
            layout.batch == 1
            and before[0] * before[1] == after[0] * after[1]
            and all(shape[1] % layout.block == 0 for shape in (before, after))
        )

    def _block_reshape(self, node: Node) -> None:
        source = self._blocked[node.inputs[0]]
        self._compute(node, "reshape_view", [source])
        self._builder.remember_same(source, self._blocked[node.output])

    def _compute(self, node: Node, op: str, operands: list[str]) -> None:
        """Add the operator on blocked operands; a graph output's plain form keeps the name."""
        name = node.output
        if name in self._graph.outputs:
            name = self._builder.fresh_name(f"{name}.blocked")
        self._blocked[node.output] = self._builder.add(
            op, operands, node.attrs, output=name, name=node.name
        )
        self._computed.add(node.output)

    def _block_matmul(self, node: Node) -> list[str]:
        """Both maps, and a weight row of factors; `align_matmul` has filled up the blocks."""
        if self._activations.batch > 1:
            raise UnsupportedError(
                f"attention needs an array without batch, not one of {self._activations.batch} "
                f"({node}); choose another variant, or quantize with --separate-attention",
                node.output,
            )
        a, b, factor, *_ = node.inputs
        return [self._as_blocked(a), self._as_blocked(b), self._block_factor(node, factor)]

    def _block_factor(self, node: Node, name: str) -> str:
        row = (self._block_out, self._weights.block_in)
        if row[0] > row[1]:
            raise UnsupportedError(
                "a product of two computed matrices needs block_in not below block_out, not "
                f"{row[1]} and {row[0]} ({node}); choose another variant, or compile a part of the "
                "model with --from and --to",
                node.output,
            )
        return self._define(name, np.broadcast_to(self._graph.constant(name), (1, *row)))

    def _compute_by_pixel(self, node: Node) -> None:
        """Add a matrix product for an array with a batch: its rows are pixels of one image, as
        those of different images have no weights in common. The host arranges the maps so."""
        a, b, factor, params = node.inputs
        operands = [self._by_pixel(a), self._by_pixel(b), self._block_factor(node, factor)]
        operands.append(self._block_params(node, params))
        base, shape = f"{node.output}.rows", self._graph.types[node.output].shape
        rows = self._builder.add_fresh(node.op, operands, node.attrs, base=base, name=node.name)
        plain = self._builder.add_fresh("unpack", [rows], base=f"{rows}.plain")
        self._builder.add("reshape", [plain], {"shape": shape}, output=node.output)

    def _by_pixel(self, name: str) -> str:
        images, channels, height, width = self._graph.types[name].shape
        attrs = {"batch": self._activations.batch, "block": self._activations.block}
        shape = (images, channels, height * width, 1)
        if self._graph.is_constant(name):
            layout = PixelLayout(**attrs)
            packed = layout.pack(self._graph.constant(name).reshape(shape))
            return self._define(name, packed, TensorType(shape, "int8", layout))
        column = self._as_plain(name)
        if width > 1:
            base = f"{name}.column"
            column = self._builder.add_fresh("reshape", [column], {"shape": shape}, base=base)
        return self._builder.add_fresh("pack_pixels", [column], attrs, base=f"{name}.pixels")

    def _block_weights_of_attention(self, node: Node) -> list[str]:
        """Operands of attention's weights; keys that fill up a block are masked."""
        _, _, _, table, params, *mask = node.inputs
        operands = [*self._block_matmul(node), self._block_table(table)]
        operands.append(self._block_params(node, params))
        channels = whole(node.attrs, "columns")
        padding = -channels % self._activations.block
        filler = whole(node.attrs, "filler")
        if padding and not filler:
            raise UnsupportedError(
                "attention with a mask that is computed needs whole blocks of "
                f"{self._activations.block} keys, not {channels} ({node}); pad the keys",
                node.output,
            )
        if mask and not self._graph.is_constant(mask[0]):
            operands.append(self._as_blocked(mask[0]))
        elif mask or padding:
            plain = np.zeros((1, channels, 1, 1), dtype=np.int8)
            values = self._graph.constant(mask[0]) if mask else plain
            margins = ((0, 0), (0, padding), (0, 0), (0, 0))
            filled = np.pad(values, margins, constant_values=filler)
            filled = self._from_first_block(filled, whole(node.attrs, "mask_factor"))
            shape = (len(filled), filled.shape[1] - padding, *filled.shape[2:])
            kind = TensorType(shape, str(filled.dtype), self._activations)
            name = f"{node.output}.mask"
            operands.append(self._define(name, self._activations.pack(filled), kind))
        return operands

    def _from_first_block(self, mask: Array, factor: int) -> Array:
        """A mask from its first channel block on that hides anything, as what is added."""
        block = self._activations.block
        (hiding,) = np.nonzero(mask.any(axis=(0, 2, 3)))
        first = int(hiding[0]) // block if len(hiding) else 0
        if not first:
            return mask
        times = factor if mask.dtype == np.int8 else 1
        return mask[:, first * block :].astype(np.int32) * np.int32(times)

    def _block_weighted_mean(self, node: Node) -> list[str]:
        _, _, _, *tables, steps, params = node.inputs
        operands = [*self._block_matmul(node), *(self._block_table(name) for name in tables)]
        return [*operands, *(self._block_params(node, name) for name in (steps, params))]

    def _block_rows(self, node: Node) -> list[str]:
        """Operands of a softmax or norm; padding channels are marked in an operand of its own."""
        required = len(get_op(node.op).operands) - 1
        x, *tables, steps, params = node.inputs[:required]
        operands = [self._as_blocked(x), *(self._block_table(name) for name in tables)]
        if node.op == Q_SOFTMAX.name:
            operands.append(self._block_params(node, steps))
        else:
            rows = norm_steps_in_lanes(self._graph.constant(steps), self._block_out)
            operands.append(self._define(steps, rows))
        operands.append(self._block_params(node, params))
        channels = self._graph.types[x].shape[1]
        padding = -channels % self._activations.block
        shape = (self._activations.batch, channels + padding, 1, 1)
        if node.op == Q_SOFTMAX.name:
            values = np.where(np.arange(channels + padding) < channels, 0, -128)
            marked = padding > 0
        else:
            values = np.ones(channels, dtype=np.int8)
            for signs in node.inputs[required:]:
                values = self._graph.constant(signs).reshape(-1)
            values = np.pad(values, (0, padding))
            marked = bool((values != 1).any())
        if marked:
            lanes = np.broadcast_to(values.astype(np.int8).reshape(1, -1, 1, 1), shape)
            type_ = TensorType(shape, "int8", self._activations)
            name = f"{node.output}.lanes"
            operands.append(self._define(name, self._activations.pack(lanes), type_))
        return operands

    def _as_blocked(self, name: str) -> str:
        if name not in self._blocked and self._graph.is_constant(name):
            plain = self._graph.types[name]
            dtype = dtype_in(self._activations, wide=is_wide(plain))
            packed = self._activations.pack(self._graph.constant(name)).astype(dtype)
            type_ = TensorType(plain.shape, dtype, self._activations)
            self._blocked[name] = self._define(name, packed, type_)
        elif name not in self._blocked:
            attrs = {"batch": self._activations.batch, "block": self._activations.block}
            base = f"{name}.blocked"
            self._blocked[name] = self._builder.add_fresh("pack", [name], attrs, base=base)
        return self._blocked[name]

    def _as_plain(self, name: str) -> str:
        if self._graph.is_constant(name):
            return name
        if name not in self._plain:
            self._plain[name] = name
            blocked = self._blocked.get(name)
            if blocked is not None and not self._is_plain(name):
                is_output = name in self._graph.outputs
                output = name if is_output else self._builder.fresh_name(f"{name}.plain")
                self._plain[name] = self._builder.add("unpack", [blocked], output=output)
        return self._plain[name]

    def _is_plain(self, name: str) -> bool:
        return self._builder.is_defined(name) and self._builder.types[name].is_plain

    def _block_weights(self, node: Node) -> str:
        name = node.inputs[1]
        values, type_ = self._graph.constant(name), self._graph.types[name]
        groups = whole(node.attrs, "groups")
        layout: Layout = self._weights
        if groups > 1:
            channels = self._graph.types[node.inputs[0]].shape[1]
            if self._depthwise_taps and type_.shape[:2] == (channels, 1):
                layout = self._depthwise_layout((type_.shape[2], type_.shape[3]), node.attrs)
            else:
                layout = GroupedWeightLayout(
                    self._weights.block_out,
                    self._weights.block_in,
                    groups,
                    (type_.shape[0], channels),
                )
        return self._define(name, layout.pack(values), type_.with_layout(layout))

    def _depthwise_layout(self, kernel: tuple[int, int], attrs: Attrs) -> DepthwiseLayout:
        """Several taps per product if they are adjacent: in a row, not dilated."""
        together = kernel[1] > 1 and ints(attrs, "dilations")[1] == 1
        taps = self._depthwise_taps if together else 1
        return DepthwiseLayout(kernel, self._activations.block, taps)

    def _block_table(self, name: str) -> str:
        layout = TableLayout()
        type_ = self._graph.types[name].with_layout(layout)
        return self._define(name, layout.pack(self._graph.constant(name)), type_)

    def _block_sub_kernels(self, node: Node) -> str:
        name = node.inputs[1]
        type_ = self._graph.types[name]
        o, i, kh, kw = type_.shape
        outputs = self._graph.types[node.output].shape[2:]
        parts = sub_kernels_of((kh, kw), outputs, node.attrs)
        layout = SubKernelLayout(
            self._weights.block_out, self._weights.block_in, (o, i, kh, kw), parts
        )
        packed = layout.pack(self._graph.constant(name))
        return self._define(name, packed, type_.with_layout(layout))

    def _block_params(self, node: Node, name: str) -> str:
        """(rows, 3) as (rows / block_out, block_out, 3); a row that is not for channels is repeated
        in all lanes."""
        rows, lanes = self._graph.constant(name), self._block_out
        if node.op == "q_matmul" and self._activations.batch == 1:
            # The channels that fill up the blocks are summed over, too; one operand has its zero
            # point there (`align_matmul`). By pixel, both have 0, which adds nothing.
            zeros = [whole(node.attrs, f"zero_point_{role}") for role in "ab"]
            depth = self._graph.types[node.inputs[0]].shape[1]
            filled = -depth % self._activations.block * zeros[0] * zeros[1]
            rows = rows + np.array([filled, 0, 0])
        if node.op in _WITH_CHANNELS and name == node.inputs[_PARAMETERS.get(node.op, -1)]:
            # The parts' rows follow each other; each part fills whole blocks.
            block, channels = self._activations.block, self._graph.types[node.output].shape[1]
            parts = rows.reshape(-1, channels, 3)
            padded = np.zeros((len(parts), -(-channels // block) * block, 3), dtype=np.int64)
            padded[:, :channels] = parts
            return self._define(name, padded.reshape(-1, lanes, 3))
        return self._define(name, np.repeat(rows[:, None, :], lanes, axis=1))

    def _define(self, name: str, array: Array, type_: TensorType | None = None) -> str:
        return self._builder.fresh_constant(f"{name}.blocked", array, type_)

    def _block_maps(self, node: Node) -> list[str]:
        """The operands of an operator without parameters."""
        return [self._as_blocked(name) for name in node.inputs]

    operand_rules: ClassVar[Mapping[str, Callable[["_Blocking", Node], list[str]]]] = {
        **dict.fromkeys(ROW_OPERATORS, _block_rows),
        ATTENTION_WEIGHTS.name: _block_weights_of_attention,
        WEIGHTED_MEAN.name: _block_weighted_mean,
        Q_SUM.name: _block_maps,
    }
    """Operators that have no parameters, or not as the last of their operands."""
