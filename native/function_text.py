"""Writes one function of LLVM IR text: registers and blocks, without unreachable code."""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["FunctionText"]

_Lines = list["str | _Lines"]


class FunctionText:
    """Lines of a function body, in order.

    Code after a jump, and blocks that nothing jumps to, are dropped as they are written, so callers
    need not track reachability.
    """

    def __init__(self) -> None:
        self._entry: list[str] = []
        self._lines: _Lines = []
        self._registers = 0
        self._labels = 0
        self._targets: set[str] = set()
        self.block = "entry"
        self.reachable = True

    def allocate(self, kind: str) -> str:
        """A stack slot for the whole call, zero at first; LLVM makes registers of them."""
        register = self._register()
        self._entry.append(f"{register} = alloca {kind}")
        self._entry.append(f"store {kind} zeroinitializer, ptr {register}")
        return register

    def stack(self, kind: str) -> str:
        """A stack slot for the whole call, undefined at first."""
        register = self._register()
        self._entry.append(f"{register} = alloca {kind}, align 64")
        return register

    def reserve(self) -> int:
        """A place for one line that is known later; `fill` writes it."""
        self._lines.append("")
        return len(self._lines) - 1

    def fill(self, place: int, text: str) -> None:
        """Write the line that `reserve` left out."""
        self._lines[place] = "  " + text

    def place(self) -> _Lines:
        """A place for lines that are written later, `at` it."""
        lines: _Lines = []
        self._lines.append(lines)
        return lines

    @contextmanager
    def at(self, place: _Lines) -> Iterator[None]:
        """Write there: values alone, no blocks."""
        before, self._lines = self._lines, place
        yield
        self._lines = before

    def line(self, text: str) -> None:
        """One instruction without a result."""
        if self.reachable:
            self._lines.append("  " + text)

    def value(self, text: str) -> str:
        """One instruction; the register that holds its result."""
        register = self._register()
        self.line(f"{register} = {text}")
        return register

    def label(self) -> str:
        """A new block's name."""
        self._labels += 1
        return f"b{self._labels}"

    def start(self, label: str) -> None:
        """Begin a block: falls into it from above."""
        self.jump(label)
        self.block, self.reachable = label, label in self._targets
        if self.reachable:
            self._lines.append(f"{label}:")

    def jump(self, label: str) -> None:
        """Go to a block."""
        self._end(f"br label %{label}", label)

    def branch(self, condition: str, yes: str, no: str, notes: str = "") -> None:
        """Go to `yes` where the i1 is set, else to `no`; a literal condition takes one way.

        `notes` are LLVM's metadata of the branch."""
        if condition in ("true", "false"):
            self.jump(yes if condition == "true" else no)
        else:
            self._end(f"br i1 {condition}, label %{yes}, label %{no}{notes}", yes, no)

    def leave(self, text: str) -> None:
        """Return."""
        self._end(text)

    def body(self) -> str:
        """All of it."""
        return "\n".join(["entry:", *("  " + line for line in self._entry), *_flat(self._lines)])

    def _register(self) -> str:
        self._registers += 1
        return f"%v{self._registers}"

    def _end(self, text: str, *targets: str) -> None:
        if self.reachable:
            self._lines.append("  " + text)
            self._targets.update(targets)
        self.reachable = False


def _flat(lines: _Lines) -> Iterator[str]:
    for item in lines:
        if isinstance(item, str):
            yield item
        else:
            yield from _flat(item)
