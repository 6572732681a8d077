"""A line of the text of the loop IR, as tokens that a parser takes one by one."""

import re
from typing import NoReturn

from daedal.compiler.tir.errors import ParseError
from daedal.compiler.tir.notation import NAME, plain_name

__all__ = ["Line", "split_lines"]

_TOKEN = re.compile(
    rf"""
      (?P<space>\ +|\#.*)
    | (?P<name>{NAME})
    | (?P<float>\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+))
    | (?P<int>\d+)
    | (?P<symbol><<|>>|<=|>=|==|!=|//|[-+*/%<>&|~()\[\]{{}},:=.])
    """,
    re.VERBOSE | re.ASCII,
)
_MAX_DIGITS = 25
"""More than any dtype has; Python refuses to read very long numbers."""
_MAX_SHOWN = 200


class Line:
    """One line: its number from 1, its indentation in spaces, and a position among its tokens."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text.strip()
        self.indent = len(text) - len(text.lstrip(" "))
        if "\t" in text[: len(text) - len(text.lstrip())]:
            self.fail("lines are indented by spaces, not tabs")
        self._tokens = self._split()
        self._next = 0

    def fail(self, reason: str) -> NoReturn:
        """Raise ParseError for a mistake in this line."""
        text = self.text if len(self.text) <= _MAX_SHOWN else f"{self.text[:_MAX_SHOWN]}..."
        raise ParseError(f"line {self.number} of a function is wrong: {reason} ({text})")

    def peek(self, ahead: int = 0) -> str:
        """The next token, or "" at the end of the line."""
        return self._at(ahead)[1]

    def take(self, *tokens: str) -> bool:
        """Skip the next tokens if they are `tokens`."""
        found = all(self.peek(ahead) == token for ahead, token in enumerate(tokens))
        self._next += len(tokens) if found else 0
        return found

    def expect(self, token: str, after: str) -> None:
        """Skip `token`, which must come next."""
        if not self.take(token):
            self.fail(f"{after} needs {token!r}, not {self.found}")

    @property
    def at_name(self) -> bool:
        """Whether a name comes next."""
        return self._at()[0] == "name"

    @property
    def found(self) -> str:
        """The next token, as a message names it."""
        return repr(self.peek()) if self.peek() else "the end of the line"

    def finish(self, after: str) -> None:
        """Check that nothing follows."""
        if self.peek():
            self.fail(f"nothing may follow {after}, not {self.found}")

    def key(self, what: str) -> str:
        """A name as it stands in the text: what tells one variable from another."""
        if not self.at_name:
            self.fail(f"{what} must be a name, not {self.found}")
        self._next += 1
        return self._tokens[self._next - 1][1]

    def name(self, what: str) -> str:
        """A name without quotes and suffixes."""
        return self.plain(self.key(what))

    def plain(self, key: str) -> str:
        """What `Line.name` makes of what `Line.key` gives."""
        try:
            return plain_name(key)
        except ValueError:
            self.fail(f"a name in quotes must be a JSON string, not {key}")

    def integer(self, what: str) -> int:
        """An integer, perhaps negative."""
        found = self.found
        value = self.number_or_none()
        if not isinstance(value, int):
            self.fail(f"{what} must be an integer, not {found}")
        return value

    def extent(self, what: str) -> int:
        """A positive integer."""
        value = self.integer(what)
        if value < 1:
            self.fail(f"{what} must be positive, not {value}")
        return value

    def number_or_none(self) -> int | float | None:
        """A number with its sign, if one comes next."""
        sign = 1 if self.peek() == "-" else 0
        kind, text = self._at(sign)
        value: int | float
        if kind == "int":
            if len(text) > _MAX_DIGITS:
                self.fail(f"an integer must fit its dtype, not {text}")
            value = int(text)
        elif kind == "float" or text in ("inf", "nan"):
            value = float(text)
        else:
            return None
        self._next += sign + 1
        return -value if sign else value

    def _at(self, ahead: int = 0) -> tuple[str, str]:
        place = self._next + ahead
        return self._tokens[place] if place < len(self._tokens) else ("", "")

    def _split(self) -> list[tuple[str, str]]:
        tokens, at = [], 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                self.fail(f"there is no token that begins with {self.text[at]!r}; remove it")
            if match.lastgroup != "space":
                tokens.append((str(match.lastgroup), match[0]))
            at = match.end()
        return tokens


def split_lines(text: str) -> list[Line]:
    """The lines that say something, without empty ones and comments (``# ...``)."""
    lines = [Line(number, line) for number, line in enumerate(text.split("\n"), 1)]
    return [line for line in lines if line.peek()]
