"""The object cache: content decides, damage is repaired, concurrent builders do no harm."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from daedal.native.cache import ObjectCache
from daedal.native.caches.limits import Limit
from daedal.native.scope import sources_text
from tests.native import kernels
from tests.support.owners import give_away


def _never() -> bytes:
    raise AssertionError("this must come from the cache")


def test_the_second_time_nothing_is_built(tmp_path: Path) -> None:
    assert ObjectCache(tmp_path).get("a", lambda: b"code") == b"code"
    assert ObjectCache(tmp_path).get("a", _never) == b"code"
    assert ObjectCache(tmp_path).get("b", lambda: b"other") == b"other"


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 64])
def test_damaged_files_are_built_anew(tmp_path: Path, damage: bytes) -> None:
    cache = ObjectCache(tmp_path)
    cache.get("a", lambda: b"code")
    cache.path("a").write_bytes(damage)
    assert cache.get("a", lambda: b"code") == b"code"
    assert cache.get("a", _never) == b"code"


def test_one_flipped_bit_is_noticed(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    cache.get("a", lambda: bytes(1000))
    content = bytearray(cache.path("a").read_bytes())
    content[500] ^= 1
    cache.path("a").write_bytes(content)
    assert cache.get("a", lambda: bytes(1000)) == bytes(1000)


@pytest.mark.parametrize("where", ["folder", "file"])
def test_code_of_another_user_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    cache = ObjectCache(tmp_path / "cache")
    cache.get("a", lambda: b"theirs")
    give_away(cache.path("a") if where == "file" else tmp_path / "cache", monkeypatch)
    assert cache.get("a", lambda: b"ours") == b"ours"


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert ObjectCache(blocked / "below").get("a", lambda: b"code") == b"code"


def test_old_files_make_room(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, Limit(1 << 20, 3))
    for number in range(5):
        cache.get(str(number), lambda: b"code")
        os.utime(cache.path(str(number)), (number, number))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        cache.path(str(number)).name for number in (2, 3, 4)
    )


def test_the_users_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ObjectCache().path("a").parent == tmp_path / "daedal" / "native"


def _fill(folder: Path) -> None:
    for round_ in range(20):
        cache = ObjectCache(folder)
        assert cache.get("a", lambda: b"x" * 100_000) == b"x" * 100_000
        if round_ % 3 == 0:
            cache.path("a").unlink(missing_ok=True)


def test_code_that_does_without_features_is_kept_apart(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    for without in ((), ("avx512f",), ("avx",)):
        made = kernels.sums_of_pairs.specialized({}, without)
        made.compile(cache)
        out = np.zeros(3, dtype=np.int64)
        made(np.arange(4), out)
        assert out.tolist() == [1, 3, 5]
    assert len(list(tmp_path.iterdir())) == 3


def test_concurrent_builders(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_fill, args=(tmp_path,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert [path.suffix for path in tmp_path.iterdir()] in ([], [".o"])


def test_sources_name_what_a_kernel_consists_of(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sources_text(kernels.simulate, checked=False)
    assert before == sources_text(kernels.simulate, checked=False)
    assert before != sources_text(kernels.simulate, checked=True)
    # A constant of a kernel that is called counts, one that nothing uses does not.
    monkeypatch.setattr(kernels, "BASE", 8)
    assert sources_text(kernels.simulate, checked=False) == before
    monkeypatch.setattr(kernels, "SCALE", 0.25)
    assert sources_text(kernels.simulate, checked=False) != before


def test_constants_behind_several_dots_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sources_text(kernels.limited, checked=False)
    monkeypatch.setattr(kernels.Outer.Inner, "LIMIT", 4)
    assert sources_text(kernels.limited, checked=False) != before


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    script = (
        "import numpy as np\n"
        "import daedal.native.kernel as module\n"
        "from tests.native import kernels\n"
        "def build(text, cpu):\n"
        "    print('built')\n"
        "    return compile_text(text, cpu)\n"
        "compile_text, module.compile_text = module.compile_text, build\n"
        "out = np.zeros(3, dtype=np.int64)\n"
        "kernels.sums_of_pairs(np.arange(4), out)\n"
        "print(out.tolist())\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=Path(__file__).parents[2],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for _ in range(2)
    ]
    assert outputs == ["built\n[1, 3, 5]\n", "[1, 3, 5]\n"]
