"""Routed designs are kept: a seed is routed once, and what was done survives a stop."""

import gzip
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from daedal.common.errors import ToolError
from daedal.hw.synth import routes
from daedal.hw.synth.paths import TimingPath
from daedal.hw.synth.place import PlaceRequest, Routed
from daedal.hw.synth.routes import RouteCache
from daedal.hw.synth.tools import Tool

PATH = TimingPath(
    start="a.x", end="b.y", start_clock="clk", end_clock="clk", modules=("a", "", "b.c"),
    signals=("a.x[0]", "b.z"), levels=3, logic_ns=1.25, routing_ns=4.5,
)  # fmt: skip


def routed_of(request: PlaceRequest) -> Routed:
    return Routed(
        request=request,
        fmax_mhz={"clk": 100.0 + request.seed},
        paths=(PATH,),
        utilization={"TRELLIS_FF": (request.seed, 83_640)},
        config="text" if request.pins else None,
    )


class Router:
    """Stands in for nextpnr: answers seeds in reverse order, and fails at one."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.fails_at = 0
        self.gives_up = 0

    def __call__(
        self,
        netlist: str,
        requests: Sequence[PlaceRequest],
        *,
        num_processes: int,
        progress: Callable[[int, str], None],
    ) -> Iterator[tuple[int, Routed]]:
        self.asked.append([request.seed for request in requests])
        for number in reversed(range(len(requests))):
            progress(number, "packing")
            if requests[number].seed == self.fails_at:
                raise ToolError("no")
            if requests[number].seed == self.gives_up:
                continue
            yield number, routed_of(requests[number])


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch) -> Router:
    router = Router()
    monkeypatch.setattr(routes, "place_and_route_all", router)
    return router


def seeds(*numbers: int) -> list[PlaceRequest]:
    return [PlaceRequest(seed=number) for number in numbers]


def test_a_seed_is_routed_once(tmp_path: Path, router: Router) -> None:
    requests = seeds(3, 1)
    for _ in range(2):
        answers = RouteCache(tmp_path / "routes").route("netlist", requests)
        assert answers == [routed_of(request) for request in requests]
    RouteCache(tmp_path / "routes").route("netlist", seeds(1, 2, 3))
    assert router.asked == [[3, 1], [2]]


def test_a_stopped_run_goes_on(tmp_path: Path, router: Router) -> None:
    router.fails_at = 2
    with pytest.raises(ToolError, match="no"):
        RouteCache(tmp_path).route("netlist", seeds(1, 2, 3, 4))
    router.fails_at = 0
    answers = RouteCache(tmp_path).route("netlist", seeds(1, 2, 3, 4))
    assert [answer.request.seed for answer in answers] == [1, 2, 3, 4]
    assert router.asked == [[1, 2, 3, 4], [1, 2]]


def test_a_result_that_is_fast_enough_ends_the_others(tmp_path: Path, router: Router) -> None:
    cache = RouteCache(tmp_path)
    # Seed n reaches 100 + n MHz; the last of those asked for comes first.
    for wanted, enough_mhz, done in [
        ((1, 4), 104.0, [4]),  # seed 1 is stopped
        ((1, 4), 104.0, [4]),  # nothing more is asked
        ((1, 4), 104.5, [1, 4]),
        ((2, 1, 3), 103.5, [2, 1, 3]),
    ]:
        answers = cache.route("netlist", seeds(*wanted), enough_mhz=enough_mhz)
        assert [answer.request.seed for answer in answers] == done
    assert router.asked == [[1, 4], [1], [2, 3]]


def test_what_was_given_up_is_asked_for_again_alone(tmp_path: Path, router: Router) -> None:
    cache = RouteCache(tmp_path)
    told: list[str] = []
    router.gives_up = 2
    for _ in range(2):
        answers = cache.route("netlist", seeds(1, 2, 3), progress=told.append)
        assert [answer.request.seed for answer in answers] == [1, 3]
    assert told[-1] == "seed 1 done, 101.0 MHz; seed 2 given up; seed 3 done, 103.0 MHz"
    router.gives_up = 0
    assert len(cache.route("netlist", seeds(2))) == 1
    assert len(cache.route("netlist", seeds(1, 2, 3))) == 3
    assert router.asked == [[1, 2, 3], [2]]


def test_every_part_of_the_question_counts(
    tmp_path: Path, router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = RouteCache(tmp_path)
    changed = [
        PlaceRequest(),
        PlaceRequest(package="CABGA756"),
        PlaceRequest(speed_grade=8),
        PlaceRequest(pins="LOCATE"),
        PlaceRequest(target_mhz=99.0),
        PlaceRequest(timing_driven=True),
    ]
    for request in changed:
        assert cache.route("netlist", [request]) == [routed_of(request)]
    cache.route("another", seeds(1))
    assert len(router.asked) == len(changed) + 1
    monkeypatch.setattr(routes, "NEXTPNR", Tool("nextpnr", "amaranth", ""))
    cache.route("netlist", seeds(1))
    assert len(router.asked) == len(changed) + 2


def test_all_that_run_are_told(tmp_path: Path, router: Router) -> None:
    told: list[str] = []
    RouteCache(tmp_path).route("netlist", seeds(1, 2), progress=told.append)
    assert told == [
        "seed 2 packing",
        "seed 2 done, 102.0 MHz",
        "seed 1 packing; seed 2 done, 102.0 MHz",
        "seed 1 done, 101.0 MHz; seed 2 done, 102.0 MHz",
    ]


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "other JSON"])
def test_damaged_answers_are_routed_again(tmp_path: Path, router: Router, damage: str) -> None:
    requests = seeds(1, 2)
    first = RouteCache(tmp_path).route("{}", requests)
    path = min(tmp_path.glob("*.json.gz"))
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes(
        {
            "empty": b"",
            "cut": data[:middle],
            "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
            "other JSON": gzip.compress(b"[3]"),
        }[damage]
    )
    for _ in range(2):
        assert RouteCache(tmp_path).route("{}", requests) == first
    assert [len(seeds) for seeds in router.asked] == [2, 1]
