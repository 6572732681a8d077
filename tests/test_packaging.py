"""The package list, the checkers' links, and what an import costs (docs/adr/0001)."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

import daedal

ROOT = Path(__file__).resolve().parent.parent
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
FOLDERS: dict[str, str] = SETUPTOOLS["package-dir"]

# What lies at the root and is no package.
NOT_PACKAGES = {"bench", "build", "dist", "docs", "examples", "tests", "typings"}

# Prints the modules that importing all of daedal.isa has loaded.
LOAD_ISA = """
import importlib, json, pkgutil, sys
before = set(sys.modules)
import daedal.isa
for module in pkgutil.walk_packages(daedal.isa.__path__, "daedal.isa."):
    importlib.import_module(module.name)
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def packages_on_disk() -> set[str]:
    """Dotted names of the root folders, and the folders in them, that hold an `__init__.py`."""
    names = set()
    for top in ROOT.iterdir():
        if top.name.startswith(".") or top.name in NOT_PACKAGES:
            continue
        for init in top.rglob("__init__.py"):
            name = ".".join(init.parent.relative_to(ROOT).parts)
            names.add(name if name.split(".")[0] == "daedal" else f"daedal.{name}")
    return names


def test_package_list_is_complete() -> None:
    assert set(SETUPTOOLS["packages"]) == packages_on_disk()


def test_every_module_lies_in_a_package() -> None:
    # A folder without __init__.py works from a checkout and is missing from the wheel.
    tops = ["daedal", *FOLDERS.values()]
    strays = {
        str(path.parent.relative_to(ROOT))
        for top in tops
        for path in (ROOT / top).rglob("*.py")
        if not (path.parent / "__init__.py").exists()
    }
    assert strays == set()


def test_package_list_is_sorted() -> None:
    assert SETUPTOOLS["packages"] == sorted(SETUPTOOLS["packages"])


def test_checkers_see_every_package() -> None:
    linked = {link.name: link.resolve(strict=True) for link in (ROOT / "typings/daedal").iterdir()}
    expected = {name.removeprefix("daedal."): ROOT / path for name, path in FOLDERS.items()}
    expected |= {p.name: p for p in (ROOT / "daedal").iterdir() if p.name != "__pycache__"}
    assert linked == expected, "typings/daedal holds a relative link to each, and nothing else"


def test_links_are_relative() -> None:
    links = list((ROOT / "typings/daedal").iterdir())
    assert links
    assert [link.name for link in links if link.readlink().is_absolute()] == []


def test_isa_needs_only_numpy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOAD_ISA], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded: list[str] = json.loads(done.stdout)
    outside = {name.split(".")[0] for name in loaded} - sys.stdlib_module_names
    assert outside <= {"daedal", "numpy"}
    ours = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("daedal")}
    assert ours <= {"daedal", "daedal.common", "daedal.isa", "daedal.variants"}


@pytest.mark.parametrize("name", daedal.__all__)
def test_public_names_resolve(name: str) -> None:
    assert name in dir(daedal)
    assert callable(getattr(daedal, name))


def test_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'daedal' has no attribute 'nothing'"):
        daedal.nothing  # noqa: B018  (the access is what is tested)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sources, and the wheel made from their sdist."""
    # Built from a copy: setuptools leaves build/ and *.egg-info beside what it builds.
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    source.mkdir()
    for name in ("daedal", *FOLDERS.values()):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    assert len(list(folder.glob("*.tar.gz"))) == 1
    (wheel,) = folder.glob("*.whl")
    return source, wheel


@pytest.mark.slow
def test_wheel_carries_everything(built: tuple[Path, Path]) -> None:
    source, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        "/".join(["daedal", *path.relative_to(source).parts]).replace("daedal/daedal/", "daedal/")
        for folder in ("daedal", *FOLDERS.values())
        for path in (source / folder).rglob("*")
        if path.is_file() and not any(part.endswith(".egg-info") for part in path.parts)
    }
    assert inside == expected


@pytest.mark.slow
def test_a_network_runs_in_an_empty_environment(built: tuple[Path, Path], tmp_path: Path) -> None:
    """The wheel and what it depends on, without any extra and outside the clone."""
    _, wheel = built
    model = tmp_path / "digits.onnx"
    shutil.copy(ROOT / "examples" / "digits" / "digits_qdq.onnx", model)
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / "bin"

    def run(*command: str) -> str:
        # A home of its own: no cache of this machine's helps.
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
        done = subprocess.run(
            [str(binaries / command[0]), *command[1:]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("pip", "install", "--quiet", "--only-binary", ":all:", str(wheel))
    image = np.zeros((1, 1, 8, 8), np.float32)
    np.savez(tmp_path / "image.npz", input=image)
    home = run("python", "-c", "import daedal; print(daedal.__file__)").strip()
    assert Path(home).is_relative_to(tmp_path / "venv")
    run("daedal", "compile", model.name, "-v", "tiny", "-o", "digits.daedal")
    run("daedal", "run", "digits.daedal", "-i", "image.npz", "--check", model.name)
    assert "conv0_linear" in run("daedal", "profile", "digits.daedal")
