"""`usage_sentence`: refusals of the command line's library, in the form of all others.

Input: an exception of Typer's parser, whose class and wording depend on Typer's version. Output: a
sentence with the rule, what breaks it, and what to do.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import typer

__all__ = ["UsageError", "did_you_mean", "remember_arguments", "usage_sentence"]

UsageError: type[Any] = typer.BadParameter.__bases__[0]
"""What the parser raises. Typer has its own copy of Click or Click itself, by its version, and does
not export this class from either."""

_ARGUMENTS = "daedal.arguments"
_RULES = (
    re.compile(r"(?:Value error, )?Input should be (?P<rule>.*?)(?:, unable to .*)?"),
    re.compile(r"(?:Value error, )?.*? is not (?P<rule>(?:one of|in the range|a valid) .*?)\.?"),
)
"""Both libraries' wordings of what a value should be."""


def remember_arguments(ctx: Any, arguments: Sequence[str]) -> None:
    """Keep what a command was given, for `usage_sentence`: errors do not have the value."""
    ctx.meta[_ARGUMENTS] = tuple(arguments)


def usage_sentence(error: Any) -> str:
    """The rule, the offender and the remedy of a `UsageError`."""
    command = error.ctx.command_path if error.ctx is not None else "daedal"
    message = str(error.format_message())
    match type(error).__name__:
        case "MissingParameter":
            given = f"{_name(error.param)} must be given to `{command}`, and is missing"
            return f"{given}; add it{_meaning(error.param)}, as in `{command} --help`"
        case "NoSuchOption":
            return (
                f"an option must be one of `{command} --help`, not {error.option_name!r}"
                f"{did_you_mean(error.option_name, _options(error.ctx))}"
            )
        case "BadOptionUsage":
            if "requires" in message:
                wrong = "must have a value, and has none; add one"
            else:
                wrong = "is a flag and must have no value, but has one; leave the value out"
            return f"{error.option_name} {wrong}, as in `{command} --help`"
        case "BadParameter" if error.param is not None:
            return (
                f"{_name(error.param)} must be {_rule(str(error.message))}, not {_value(error)!r}; "
                f"see `{command} --help`"
            )
    extra = re.search(r"unexpected extra argument(?:s|\(s\))? \((.*)\)", message)
    if extra:
        return (
            f"arguments must be those of `{command} --help`, not {extra[1]!r}, too; leave that out"
        )
    return f"arguments must be as in `{command} --help`; {message[:1].lower()}{message[1:]}"


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """``; did you mean --records?``, or nothing where no word is similar."""
    close = get_close_matches(word, list(words), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _name(param: Any) -> str:
    """``--records`` or ``MODEL``."""
    if param.param_type_name == "option":
        return str(max(param.opts, key=len))
    return str(param.name).upper()


def _meaning(param: Any) -> str:
    text = str(getattr(param, "help", None) or "").strip().removesuffix(".")
    return f" ({text})" if text else ""


def _options(ctx: Any) -> list[str]:
    if ctx is None:
        return []
    return [name for param in ctx.command.get_params(ctx) for name in param.opts]


def _rule(message: str) -> str:
    for pattern in _RULES:
        found = pattern.fullmatch(message)
        if found:
            return found["rule"]
    return f"valid ({message.removesuffix('.')})"


def _value(error: Any) -> object:
    """What the user gave: the arguments are parsed again, without converting them."""
    arguments = error.ctx.meta.get(_ARGUMENTS, ())
    values, _, _ = error.ctx.command.make_parser(error.ctx).parse_args(list(arguments))
    return values.get(error.param.name)
