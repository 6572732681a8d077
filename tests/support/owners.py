"""Files of another user, for tests."""

import os
from pathlib import Path

import pytest

__all__ = ["give_away"]

_NOBODY = 65534


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `path` look like another user's.

    Only root can give files away; for anybody else, this process becomes another user.
    """
    if os.geteuid() == 0:
        os.chown(path, _NOBODY, -1, follow_symlinks=False)
    else:
        user = os.geteuid() + 1
        monkeypatch.setattr("os.geteuid", lambda: user)
