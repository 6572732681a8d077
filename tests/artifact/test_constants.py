"""Constants are stored once and packed where code is loaded."""

from dataclasses import replace

import numpy as np
import pytest

from daedal.artifact.constants import Conversion, HostConstant, Packing, Products, Values


def test_axes_are_filled_up_split_and_permuted() -> None:
    """Weights (O, I, K) as blocks of 4 outputs with pairs of inputs in them."""
    weights = np.arange(3 * 5 * 2, dtype=np.int8).reshape(3, 5, 2) + 1
    packing = Packing((4, 6, 2), (4, 2, 0), (0, 4, 2, 1, 3))
    packing.check(weights.shape)
    found = packing.applied(weights)
    assert found.shape == packing.shape() == (1, 2, 3, 4, 2)
    for index, value in np.ndenumerate(found):
        _, k, group, out, number = index
        place = out, group * 2 + number, k
        inside = all(a < b for a, b in zip(place, weights.shape, strict=True))
        assert value == (weights[place] if inside else 0)


def test_the_last_block_begins_earlier_where_blocks_do_not_divide_an_axis() -> None:
    values = np.arange(14, dtype=np.float32).reshape(2, 7)
    found = Packing((2, 7), (0, 3), (1, 0, 2)).applied(values)
    np.testing.assert_array_equal(found[:, 1], [[7, 8, 9], [10, 11, 12], [11, 12, 13]])


@pytest.mark.parametrize(
    "packing",
    [
        Packing((2, 7, 1), (0, 3, 0), (1, 0, 2, 3)),
        Packing((2, 7), (0,), (1, 0)),
        Packing((2, 6), (0, 3), (1, 0, 2)),
        Packing((2, 7), (0, 8), (1, 0, 2)),
        Packing((2, 7), (0, -1), (1, 0, 2)),
        Packing((2, 7), (0, 3), (1, 0)),
        Packing((2, 7), (0, 3), (1, 1, 2)),
    ],
)
def test_packings_that_do_not_fit_are_refused(packing: Packing) -> None:
    with pytest.raises(ValueError, match="must"):
        packing.check((2, 7))


def test_a_constant_is_packed_into_memory() -> None:
    values = Values.of(np.arange(6, dtype=np.int16).reshape(2, 3))
    turn = Packing((2, 3), (0, 0), (1, 0))
    constant = HostConstant(64, values, (turn, Packing((3, 2), (3, 0), (0, 2, 1))))
    assert constant.shape == (1, 2, 3) and constant.end == 76
    memory = np.full(128, 255, np.uint8)
    constant.put(memory)
    np.testing.assert_array_equal(memory[64:76].view(np.int16), [0, 1, 2, 3, 4, 5])
    assert (memory[:64] == 255).all() and (memory[76:] == 255).all()


def test_everything_counts_for_the_digest() -> None:
    values = Values.of(np.arange(6, dtype=np.int16).reshape(2, 3))
    others = [
        replace(values, dtype="uint16"),
        replace(values, shape=(3, 2)),
        replace(values, data=bytes(12)),
    ]
    assert len({item.digest for item in (values, *others)}) == 4
    assert Values.of(values.array).digest == values.digest


@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_matrices_are_multiplied_from_both_sides(dtype: str) -> None:
    rng = np.random.default_rng(1)
    stored = rng.integers(-128, 128, (2, 5, 3, 3)).astype(np.int8)
    matrix = np.array([[1, 0, 0], [1, 1, 1], [1, -2, 4], [0, 0, 1]])
    wanted = matrix @ stored.astype(np.int64) @ matrix.T
    change = Products(tuple(map(tuple, matrix.tolist())), dtype)
    change.check(stored.shape)
    constant = HostConstant(0, Values.of(stored), (change,))
    assert constant.shape == wanted.shape == (2, 5, 4, 4) and constant.dtype == dtype
    memory = np.zeros(constant.end, np.uint8)
    constant.put(memory)
    np.testing.assert_array_equal(memory.view(dtype).reshape(wanted.shape), wanted)
    with pytest.raises(ValueError, match="a matrix must fit the last two axes"):
        change.check((2, 5, 3, 2))


def test_what_a_matrix_leaves_out_is_not_read() -> None:
    """An infinite weight is in the results of its own row and column alone: 0 times it is NaN."""
    values = np.array([[np.inf, 0], [0, 1]], np.float32)
    found = Products(((1.0, 0.0), (0.0, 1.0)), "float32").applied(values)
    np.testing.assert_array_equal(found, values)


def test_values_are_converted() -> None:
    values = Values.of(np.array([[-128, 5], [7, 127]], np.int8))
    turn = Packing((2, 2), (0, 0), (1, 0))
    constant = HostConstant(0, values, (turn, Conversion("float32")))
    assert (constant.shape, constant.dtype, constant.end) == ((2, 2), "float32", 16)
    memory = np.zeros(16, np.uint8)
    constant.put(memory)
    np.testing.assert_array_equal(memory.view(np.float32), [-128, 7, 5, 127])
