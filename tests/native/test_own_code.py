"""Which machine code was compiled here: digests in a folder that only the user may write."""

import os
from pathlib import Path

from daedal.native.caches.limits import Limit
from daedal.native.own_code import OwnCode

DIGESTS = [f"{number:064x}" for number in range(9)]


def test_digests_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "own"
    assert DIGESTS[0] not in OwnCode(folder)
    OwnCode(folder).add(DIGESTS[0])
    assert DIGESTS[0] in OwnCode(folder) and DIGESTS[1] not in OwnCode(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_write_counts_as_empty(tmp_path: Path) -> None:
    OwnCode(tmp_path / "own").add(DIGESTS[0])
    for mode in (0o770, 0o702, 0o720):
        (tmp_path / "own").chmod(mode)
        assert DIGESTS[0] not in OwnCode(tmp_path / "own")
    (tmp_path / "own").chmod(0o700)
    assert DIGESTS[0] in OwnCode(tmp_path / "own")


def test_the_oldest_are_forgotten(tmp_path: Path) -> None:
    own = OwnCode(tmp_path / "own", Limit(1 << 20, 4))
    for age, digest in enumerate(DIGESTS):
        own.add(digest)
        os.utime(tmp_path / "own" / digest, (age, age))
        assert len(list((tmp_path / "own").iterdir())) <= 4
    assert [digest for digest in DIGESTS if digest in own] == DIGESTS[-3:]


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("a file")
    OwnCode(tmp_path / "own").add(DIGESTS[0])
    assert DIGESTS[0] not in OwnCode(tmp_path / "own")
