"""Files that a release wrote are read by this version, or it says in one sentence what to do.

tests/golden has a folder for each release: the digits network for variant `tiny`, and records of
its tuning. A new release adds a folder; none is rewritten.
"""

import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

import daedal
from daedal.artifact.artifact import FORMAT, Artifact
from daedal.common.errors import ArtifactError
from daedal.compiler.tune.database import Database
from daedal.tuning.tune import cycles_version

ROOT = Path(__file__).resolve().parent
RELEASES = sorted(path for path in (ROOT / "golden").iterdir() if path.name[0].isdigit())
LAYERS = 7
DIGITS = ROOT.parent / "examples" / "digits" / "digits_qdq.onnx"


def results(artifact: Artifact) -> dict[str, np.ndarray]:
    image = np.random.default_rng(5).uniform(0, 1, (1, 1, 8, 8)).astype(np.float32)
    return daedal.simulate(artifact, {"input": image}, device="functional").outputs


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_artifacts(release: Path) -> None:
    """Other forms, and programs of another instruction set, are compiled again."""
    path = release / "digits.daedal"
    with zipfile.ZipFile(path) as archive:
        same_form = f'"format": "{FORMAT}"'.encode() in archive.read("manifest.json")
    try:
        old = Artifact.load(path)
    except ArtifactError as error:
        assert not same_form or "instruction set" in str(error), error
        assert re.search(r"compile the model again$", str(error))
        return
    new = daedal.compile(DIGITS, "tiny")
    for name, values in results(new).items():
        np.testing.assert_array_equal(results(old)[name], values)


@pytest.mark.parametrize("kit", [cycles_version(), "a later version"], ids=["today", "later"])
@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_records(release: Path, kit: str, tmp_path: Path) -> None:
    """What was measured, or, where cycles may differ by now, what to measure first."""
    path = tmp_path / "tuned.db"
    shutil.copy(release / "tuned.db", path)
    with Database(path, kit=kit, adopts=True) as database:
        records = database.records()
    assert len({record.workload for record in records}) >= LAYERS
