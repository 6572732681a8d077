"""Types of buffers, kinds of loops and annotations, read from their text; used by `parser`."""

from daedal.compiler.tir.dtype import BUFFER_DTYPES
from daedal.compiler.tir.expr import Buffer
from daedal.compiler.tir.stmt import LOOP_KINDS, Value
from daedal.compiler.tir.tokens import Line

__all__ = ["parse_buffer", "parse_kind", "parse_notes"]


def parse_buffer(line: Line, key: str) -> Buffer:
    """The type of a buffer, ``int8[4, 16] in acc``."""
    name = line.plain(key)
    dtype = line.key(f"the dtype of {name!r}")
    if dtype not in BUFFER_DTYPES:
        line.fail(f"the dtype of {name!r} must be one of {', '.join(BUFFER_DTYPES)}, not {dtype!r}")
    line.expect("[", f"the shape of {name!r}")
    shape = [line.extent(f"a dimension of {name!r}")]
    while line.take(","):
        shape.append(line.extent(f"a dimension of {name!r}"))
    line.expect("]", f"the shape of {name!r}")
    return Buffer(name, tuple(shape), dtype, line.name("a scope") if line.take("in") else "global")


def parse_kind(line: Line) -> str:
    """The kind of a loop, ``vectorize`` or ``thread.x``; serial where none is written."""
    if not line.at_name:
        return "serial"
    kind = line.name("the kind of a loop")
    if line.take("."):
        kind += f".{line.name('an axis')}"
    if kind not in LOOP_KINDS:
        line.fail(
            f"the kind of a loop must be one of {', '.join(sorted(LOOP_KINDS))}, not {kind!r}"
        )
    return kind


def parse_notes(line: Line) -> dict[str, Value]:
    """Annotations, ``{copy: True, note: "two words"}``; none where there is no brace."""
    notes: dict[str, Value] = {}
    if not line.take("{"):
        return notes
    while not notes or line.take(","):
        name = line.name("an annotation")
        line.expect(":", f"annotation {name!r}")
        if line.peek() in ("True", "False"):
            notes[name] = line.name("a value") == "True"
        else:
            notes[name] = line.name("a value") if line.at_name else line.integer("a value")
    line.expect("}", "a list of annotations")
    return notes
