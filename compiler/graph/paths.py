"""Finds the nodes between named tensors, by walking back from what they compute."""

from collections.abc import Callable, Collection, Iterable, Mapping

from daedal.common.errors import ModelError

__all__ = ["needed_nodes"]


def needed_nodes(
    producers: Mapping[str, int],
    reads: Callable[[int], Iterable[str]],
    starts: Collection[str],
    ends: Iterable[str],
    given: Collection[str],
) -> set[int]:
    """Numbers of the nodes on the paths back from `ends` to `starts` and the constants `given`.

    Parameters
    ----------
    producers : the number of the node that computes each tensor.
    reads : what a node reads, by its number.

    Raises
    ------
    ModelError
        For an end that needs what no node computes: an input beyond `starts`.
    """
    numbers = set[int]()
    stack = [(end, end) for end in ends]
    while stack:
        name, end = stack.pop()
        if name in starts or name in given:
            continue
        number = producers.get(name)
        if number is None:
            raise ModelError(
                "a part of a model must need only the tensors that it starts from "
                f"({', '.join(map(repr, sorted(starts)))}), but {end!r} also needs the model's "
                f"input {name!r}; name other tensors with --from and --to"
            )
        if number not in numbers:
            numbers.add(number)
            stack.extend((item, end) for item in reads(number))
    return numbers
