"""The package as it is installed: its metadata, what it needs to be built, and what it does without a C compiler."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import minicompile
from minicompile.frontend import hook
from minicompile.runtime import launch
from minicompile.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_installed_version_is_the_packages():
    assert metadata.version("minicompile") == __version__ == minicompile.__version__


def test_entry_points_lead_to_callables():
    points = {point.group: point for point in metadata.distribution("minicompile").entry_points}
    assert points["torch_dynamo_backends"].name == "minicompile" and callable(points["torch_dynamo_backends"].load())
    assert points["console_scripts"].name == "minicompile" and callable(points["console_scripts"].load())


def test_types_are_shipped():
    assert (Path(minicompile.__file__).parent / "py.typed").exists()


def test_constraints_pin_what_is_tested():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    extras = PROJECT["optional-dependencies"]
    needed = [re.split(r"[^\w-]", name)[0] for name in PROJECT["dependencies"] + extras["test"] + extras["bench"]]
    assert set(needed) <= set(pins)
    assert pins["torch"] == "2.13.0"


def test_both_extensions_are_built_here():
    """Where there is a C compiler, as on every machine that runs this suite from a checkout."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    assert hook.available(), hook.unavailable_reason()
    assert launch.native_launcher()


def test_without_a_compiler_the_build_goes_on(tmp_path):
    """Optional extensions: a compiler that always fails leaves a package without them."""
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(
        ROOT / "minicompile", tmp_path / "minicompile", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    build = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", "built", "--build-temp", "scratch"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "CC": "false", "CXX": "false"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert build.returncode == 0, build.stderr
    assert not list(tmp_path.rglob("*.so"))
    check = "from minicompile.frontend import hook; from minicompile.runtime import launch; " + (
        "print(hook.available(), launch.native_launcher(), hook.run('ctx', max, (1, 2)), hook.current())"
    )
    seen = subprocess.run([sys.executable, "-c", check], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert seen.stdout.split() == ["False", "False", "2", "None"], seen.stderr


def test_the_doors_without_the_extension(monkeypatch):
    """hook.py's stand-ins, in this process: contexts nest and are restored."""
    import importlib.util

    monkeypatch.setitem(sys.modules, "minicompile.frontend._eval_frame", None)
    monkeypatch.delattr(sys.modules["minicompile.frontend"], "_eval_frame", raising=False)
    spec = importlib.util.spec_from_file_location("hook_without_extension", hook.__file__)
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    assert not plain.available() and plain.unavailable_reason()

    def body(a, b=0):
        return a, b, plain.current(), plain.run("inner", plain.current, ()), plain.run_off(plain.current)

    assert plain.run("outer", body, (1,), {"b": 2}) == (1, 2, "outer", "inner", None)
    with pytest.raises(ZeroDivisionError):
        plain.run("outer", divmod, (1, 0))
    assert plain.current() is None
    plain.set_callback(print), plain.skip(body.__code__), plain.forget(body.__code__)


def test_every_doctor_check_says_something():
    from minicompile import doctor

    found = doctor.collect()
    assert list(found) == list(doctor.CHECKS)
    assert all(row.found and (row.ok or row.advice) for row in found.values())
    assert found["Python"].ok and found["torch"].ok and found["Python"].required


def test_a_doctor_check_that_fails_is_a_row(monkeypatch):
    from minicompile import doctor

    def broken():
        raise RuntimeError("unheard of")

    monkeypatch.setitem(doctor.CHECKS, "GPU", broken)
    row = doctor.collect()["GPU"]
    assert not row.ok and "unheard of" in row.found
