"""Versions of the code: what changes them, and what does not."""

import ast
import random
import re
from pathlib import Path

import pytest

from daedal.compiler import version
from daedal.compiler.version import compiler_version, cycles_version, digest_of_code

PACKAGE = Path(version.__file__).resolve().parent.parent

CODE = '''"""What the module does."""

LIMIT = 4  # rows
"""Most rows."""
NAME: str = "a # b"


class Sum(Base):
    """Adds.

    It has "quotes" in it.
    """

    def run(
        self, a: int
    ) -> int:
        """The sum."""
        # of both
        return a + LIMIT


TEXT = f(
    """a
# b
"""
)
'''

SAME = (
    ('"""What the module does."""\n\n', ""),
    ('"""What the module does."""', '"""What else?\n\nMuch."""'),
    ("  # rows", "  # many rows, see 'there"),
    ('"""Most rows."""\n', '"""The "most"."""\n'),
    ("\n\n\nclass", "\n\nclass"),
    ('    """Adds.\n\n    It has "quotes" in it.\n    """\n', '    """Sums."""\n'),
    ('"""The sum."""', '"""Both."""'),
    ("        # of both\n", "\n"),
)
OTHER = (
    ("LIMIT = 4", "LIMIT = 5"),
    ('"a # b"', '"a # c"'),
    ("# b\n", "# c\n"),
    ("# b\n", ""),
    ('"""a\n', '"""a\n\n'),
    ("a + LIMIT", "a - LIMIT"),
    ("        return a", "    return a"),
    ("(Base)", ""),
)


@pytest.mark.parametrize(("old", "new"), SAME)
def test_comments_and_docstrings_do_not_count(old: str, new: str) -> None:
    assert CODE.count(old) == 1
    assert digest_of_code(CODE.replace(old, new)) == digest_of_code(CODE)


@pytest.mark.parametrize(("old", "new"), OTHER)
def test_code_counts(old: str, new: str) -> None:
    assert CODE.count(old) == 1
    assert digest_of_code(CODE.replace(old, new)) != digest_of_code(CODE)


def test_strings_in_brackets_are_no_docstrings() -> None:
    for before in ("(", "f(a,", "{'a':", "(1 if a else", "('b'", "f(a='b',", "(a in", "(not"):
        texts = [f'x = {before}\n    """{text}"""\n)\n' for text in "ab"]
        assert len({digest_of_code(text) for text in texts}) == 2, before


def stripped(text: str) -> str:
    """The tree of a module without docstrings and the strings after assignments."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [  # type: ignore[attr-defined]
                item
                for item in body
                if not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))
            ]
    return ast.dump(tree)


def test_what_is_dropped_from_sources_means_nothing(seed: int) -> None:
    """A sample of the compiler's own files: the code that is hashed has the file's tree."""
    files = sorted((PACKAGE / "compiler").rglob("*.py"))
    for path in random.Random(seed).sample(files, 8):
        text = path.read_text()
        kept = version._LEXICAL.sub(
            lambda found: (
                "" if found[0][0] == "#" else "..." if version._is_docstring(found) else found[0]
            ),
            text,
        )
        assert stripped(kept) == stripped(text), path


IMPORT = re.compile(r"^from daedal\.([\w.]+) import", re.MULTILINE)


def test_cycles_depend_on_all_that_the_cycle_model_imports() -> None:
    sources = set(version._sources(version._CYCLES))
    models = sorted((PACKAGE / "sim" / "timing").glob("*.py"))
    assert sources >= set(models) and len(models) > 10
    for path in models:
        for module in IMPORT.findall(path.read_text()):
            place = PACKAGE / module.replace(".", "/")
            assert place.with_suffix(".py") in sources, (path.name, module)


def test_versions_differ_where_one_depends_on_more() -> None:
    assert set(version._sources(version._COMPILER)) < set(version._sources(version._CYCLES))
    assert compiler_version() != cycles_version()
    assert compiler_version().partition("+")[0] == cycles_version().partition("+")[0]
