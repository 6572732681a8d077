"""Names of the boards that come with Daedal: the files of a folder. Imports nothing slow."""

from importlib import resources

__all__ = ["FOLDER", "board_names"]

FOLDER = "known"
"""Beside this file: a TOML file for each board."""


def board_names() -> list[str]:
    """The names, in order."""
    folder = resources.files("daedal.hw.boards") / FOLDER
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )
