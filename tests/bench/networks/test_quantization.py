"""Trained networks keep their answers in int8, in onnxruntime and on the machine."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.networks import quantization
from bench.networks.quantization import NETWORKS, Accuracy, measure_accuracy, snr_db

NUM_IMAGES = 40


def accuracy(**changes: int) -> Accuracy:
    base = Accuracy("n", "mse", 9, 400, 400, 300, 300, 300, 1.0, 30.0)
    return replace(base, **changes)


def test_one_image_or_half_a_point_may_be_lost() -> None:
    assert accuracy(int8_right=298, machine_right=298).holds
    assert not accuracy(int8_right=297).holds
    assert not accuracy(machine_right=297).holds
    assert accuracy(num_labelled=4, float_right=4, int8_right=3, machine_right=3).holds
    assert not accuracy(num_labelled=4, float_right=4, int8_right=2, machine_right=3).holds


def test_networks_that_are_not_run_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of what was asked for failed, and nothing of it ran: that is no success."""
    shared = {name: make for name, make in NETWORKS.items() if name != "digits"}
    monkeypatch.setattr(quantization, "NETWORKS", shared)
    folder = tmp_path / "none"
    monkeypatch.setattr("sys.argv", ["quantization.py", "--models", str(folder)])
    assert quantization.main() == 1
    shown = capsys.readouterr().out
    for name in shared:
        assert f"not run: {name} needs the folder {folder}\n" in shown


def test_signal_to_noise_is_in_decibels() -> None:
    assert snr_db(np.array([10.0]), np.array([11.0])) == pytest.approx(20)


def check(folder: Path, name: str) -> None:
    task = NETWORKS[name](folder, name)
    part = replace(task, images=task.images[:NUM_IMAGES], labels=task.labels[:NUM_IMAGES])
    found = measure_accuracy(part, "mse")
    assert found.holds, found
    assert found.agreement >= 0.95 and found.logit_snr_db > 25, found


def test_digits_keep_their_answers(tmp_path: Path) -> None:
    pytest.importorskip("sklearn.datasets", reason="needs scikit-learn's digits")
    check(tmp_path, "digits")


@pytest.mark.parametrize("name", ["resnet8", "vww_mobilenetv1", "resnet20_model_bn", "mnist"])
def test_trained_networks_keep_their_answers(shared: Path, name: str) -> None:
    check(shared / "models", name)
