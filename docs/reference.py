"""Sphinx extension: the page of the command line, from the commands themselves, and links to
Markdown of other folders."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from daedal.cli import app as daedal_app
from daedal.commands.examples import EXAMPLES

__all__ = ["setup"]

PAGE = "reference/command-line"
_LINK = re.compile(r"\]\((\.\./[^)#]*\.md)(?:#[^)]*)?\)")


def setup(sphinx: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    sphinx.connect("source-read", _read)
    return {"parallel_read_safe": True}


def _read(sphinx: Any, page: str, source: list[str]) -> None:
    """What Sphinx shall read instead of a page's text."""
    folder = Path(sphinx.env.doc2path(page)).parent
    root = Path(sphinx.srcdir)

    def file_outside(link: re.Match[str]) -> str:
        """A page that the site does not have becomes a file, as the sources do that pages name."""
        inside = (folder / link[1]).resolve().is_relative_to(root)
        return link[0] if inside else f"](path:{link[1]})"

    source[0] = _LINK.sub(file_outside, source[0])
    if page == PAGE:
        source[0] += "\n".join(_commands())


def _commands() -> Iterator[str]:
    group = typer.main.get_command(daedal_app)
    sections: dict[str, list[Any]] = {}
    for command in group.commands.values():  # type: ignore[attr-defined]
        sections.setdefault(command.rich_help_panel, []).append(command)
    for title, commands in sections.items():
        yield f"\n## {title}\n"
        for command in commands:
            yield from _command(command)


def _command(command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=f"daedal {command.name}")
    yield f"### daedal {command.name}\n"
    yield f"```text\n{' '.join(command.get_usage(context).split())}\n```\n"
    yield _paragraphs(command.help or "")
    records = [
        (param, record)
        for param in command.get_params(context)
        if (record := param.get_help_record(context)) is not None
    ]
    for title, chosen in (
        ("argument", [pair for pair in records if pair[0].param_type_name == "argument"]),
        ("option", [pair for pair in records if pair[0].param_type_name == "option"]),
    ):
        if chosen:
            yield f"| {title} | |\n|---|---|"
            for _, (names, text) in chosen:
                yield f"| `{_cell(names)}` | {_cell(text)} |"
            yield ""
    yield "```sh\n" + "\n".join(EXAMPLES[command.name]) + "\n```\n"


def _paragraphs(text: str) -> str:
    """Help texts mark paragraphs that keep their lines with a form feed or \\b."""
    return text.replace("\b", "").strip() + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
