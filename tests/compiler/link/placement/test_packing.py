"""Packing: nothing overlaps, nothing goes below the bound, and networks come close to it."""

from hypothesis import given
from hypothesis import strategies as st

from daedal.compiler.link.placement.packing import (
    ALIGNMENT_BYTES,
    Bundle,
    Piece,
    largest_live_bytes,
    pack,
)


def tensor(size: int, first: int, last: int) -> Bundle:
    return (Piece(0, size, first, last),)


@st.composite
def bundles(draw: st.DrawFn) -> Bundle:
    """Tensors one behind the other, with gaps, each with times of its own."""
    pieces, end = [], 0
    for _ in range(draw(st.integers(1, 4))):
        begin = end + draw(st.integers(0, 1)) * draw(st.integers(0, 200))
        size, first = draw(st.integers(1, 300)), draw(st.integers(0, 8))
        pieces.append(Piece(begin, size, first, first + draw(st.integers(0, 6))))
        end = begin + size
    return tuple(pieces)


def bytes_live(items: list[Bundle], offsets: list[int], step: int) -> list[int]:
    """Every byte that holds something in a step, as often as something claims it."""
    return [
        offset + byte
        for bundle, offset in zip(items, offsets, strict=True)
        for piece in bundle
        if piece.first <= step <= piece.last
        for byte in range(piece.offset_bytes, piece.offset_bytes + piece.size_bytes)
    ]


@given(st.lists(bundles(), max_size=8))
def test_no_byte_holds_two_things(items: list[Bundle]) -> None:
    offsets = pack(items)
    live = [bytes_live(items, offsets, step) for step in range(16)]
    assert all(len(claims) == len(set(claims)) for claims in live)
    assert largest_live_bytes(items) == max(len(claims) for claims in live)
    assert all(offset >= 0 and offset % ALIGNMENT_BYTES == 0 for offset in offsets)


@given(st.lists(bundles(), max_size=8))
def test_the_same_bundles_get_the_same_offsets(items: list[Bundle]) -> None:
    assert pack(items) == pack(list(items))


def test_the_order_of_definition_is_not_the_order_of_placing() -> None:
    """First fit in order of definition takes 320: the large tensor finds only holes."""
    items = [tensor(64, 0, 1), tensor(64, 0, 4), tensor(128, 1, 3), tensor(192, 4, 5)]
    assert pack(items) == [128, 192, 0, 0]


def test_a_growing_tensor_leaves_its_end_to_others_until_it_needs_it() -> None:
    grown = (Piece(0, 64, 1, 3), Piece(64, 64, 2, 3), Piece(128, 64, 3, 3))
    early = tensor(128, 0, 1)
    assert largest_live_bytes([grown, early]) == 192
    assert pack([grown, early]) == [0, 64]


def test_the_tensor_that_ends_highest_is_moved_ahead() -> None:
    """No order that is tried at first fits these into what is live at once, 512; repairs do."""
    times = [(256, 5, 9), (128, 1, 3), (192, 3, 4), (64, 1, 1), (192, 2, 6)]
    items = [tensor(*item) for item in times]
    assert largest_live_bytes(items) == 512
    ends = [offset + size for offset, (size, _, _) in zip(pack(items), times, strict=True)]
    assert max(ends) == 512


def chain(sizes: list[int]) -> list[Bundle]:
    return [tensor(size, step, step + 1) for step, size in enumerate(sizes)]


def blocks(sizes: list[int], inner: list[float]) -> list[Bundle]:
    """Each tensor lives until a block of layers, of sizes relative to it, is added to it."""
    items, step = [], 0
    for size in sizes:
        items.append(tensor(size, step, step + len(inner) + 1))
        for share in inner:
            step += 1
            items.append(tensor(int(size * share), step, step + 1))
        step += 1
    return items


def fans(sizes: list[int], shares: list[list[float]]) -> list[Bundle]:
    """Chains of layers side by side, whose ends lie one behind the other in the next tensor."""
    items, step, source = [], 0, [Piece(0, sizes[0], 0, 0)]
    for size in sizes:
        target: list[Piece] = []
        end = 0
        for branch in shares:
            for share in branch[:-1]:
                step += 1
                items.append(tensor(int(size * share), step, step + 1))
            step += 1
            target.append(Piece(end, int(size * branch[-1]), step, step))
            end += target[-1].size_bytes
        items.append(tuple(Piece(p.offset_bytes, p.size_bytes, p.first, step) for p in source))
        source = target
    items.append(tuple(source))
    return items


def growing(growth: int, counts: list[int], pixels: int) -> list[Bundle]:
    """Blocks of tensors that grow layer by layer, each layer with a wide one on the way."""
    items, step, width = [], 0, 2 * growth
    for count in counts:
        begin, parts = 0, [(step, width)]
        for _ in range(count):
            items.append(tensor(4 * growth * pixels, step + 1, step + 2))
            step += 2
            parts.append((step, growth))
        pieces = []
        for first, share in parts:
            pieces.append(Piece(begin, share * pixels, first, step + 1))
            begin += share * pixels
        items.append(tuple(pieces))
        width, pixels, step = (width + count * growth) // 2, pixels // 4, step + 1
    return items


def test_shapes_of_networks_come_within_a_tenth_of_the_bound() -> None:
    halves = [1 << 20, 1 << 20, 1 << 19, 1 << 19, 1 << 18, 1 << 17, 5000, 1000]
    inception = [[0.25], [0.125, 0.375], [0.0625, 0.25], [1, 0.125]]
    networks = {
        "chain": chain(halves),
        "residual": blocks(halves, [0.25, 0.25]),
        "inverted": blocks(halves, [6, 6]),
        "fire": fans(halves, [[0.125, 0.5], [0.5]]),
        "inception": fans(halves, inception),
        "dense": growing(32, [6, 12, 24, 16], 56 * 56),
    }
    for name, items in networks.items():
        offsets = pack(items)
        peak = max(
            offset + piece.offset_bytes + piece.size_bytes
            for offset, bundle in zip(offsets, items, strict=True)
            for piece in bundle
        )
        assert peak <= 1.1 * largest_live_bytes(items), name
