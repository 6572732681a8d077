"""One at a time: the second waits, and says so."""

import threading
from pathlib import Path

from daedal.hw.synth.locks import alone


def test_the_second_waits_for_the_first(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    told: list[str] = []
    seen: list[bool] = []
    waiting = threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        waiting.set()

    def second() -> None:
        with alone(path, tell):
            seen.append(path.is_file())

    thread = threading.Thread(target=second)
    with alone(path, tell):
        assert told == []
        thread.start()
        assert waiting.wait(30)
        path.write_text("")
    thread.join(30)
    assert seen == [True]
    assert told == ["another process is at it, waiting for its answer"]
