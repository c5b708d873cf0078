"""The cache folder: where it is, whom it trusts, and what stands in for it."""

from __future__ import annotations

import logging
import os
import threading

import pytest

from minicompile.runtime import cache


@pytest.fixture(autouse=True)
def own_state(monkeypatch, tmp_path):
    """Forget which folders were checked or given up, and point to a folder of this test's own."""
    monkeypatch.setattr(cache, "_temporary", {})
    monkeypatch.setattr(cache, "_usable", set())
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, str(tmp_path / "asked"))


def test_what_is_put_is_got(tmp_path):
    assert cache.get("a.cubin") is None
    assert cache.put("a.cubin", b"one") == tmp_path / "asked" / "a.cubin"
    cache.put("a.cubin", b"two")
    assert cache.get("a.cubin") == b"two"
    info = cache.info()
    assert (info.path, info.entries, info.size, info.temporary) == (tmp_path / "asked", 1, 3, False)
    assert cache.clear() == 1 and cache.get("a.cubin") is None and cache.info().entries == 0
    (tmp_path / "asked").rmdir()
    assert cache.clear() == 0 and cache.info().size == 0


def test_where_the_folder_is(monkeypatch, tmp_path):
    monkeypatch.delenv(cache.ENVIRONMENT_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_dir() == tmp_path / "xdg" / "minicompile"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.cache_dir() == tmp_path / "home" / ".cache" / "minicompile"
    assert cache.cache_dir().is_dir()
    from minicompile.config import config

    with config.patch(cache_dir=str(tmp_path / "configured")):
        assert cache.cache_dir() == tmp_path / "configured"


def test_a_writer_sees_no_half_file(tmp_path):
    contents = [bytes([i]) * 200_000 for i in range(4)]
    wrong, done = [], threading.Event()

    def read():
        while not done.is_set():
            seen = cache.get("shared")
            if seen is not None and seen not in contents:
                wrong.append(seen)

    cache.cache_dir()
    reader = threading.Thread(target=read)
    reader.start()
    writers = [threading.Thread(target=lambda c=c: [cache.put("shared", c) for _ in range(20)]) for c in contents]
    [thread.start() for thread in writers]
    [thread.join(60) for thread in writers]
    done.set()
    reader.join(60)
    assert not wrong and cache.get("shared") in contents
    assert os.listdir(tmp_path / "asked") == ["shared"]


def unusable(problem, path, monkeypatch):
    if problem == "a file in its place":
        path.write_text("")
    elif problem == "writable by everybody":
        path.mkdir()
        path.chmod(0o777)
    elif problem == "another user's":
        path.mkdir()
        monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    else:  # read-only; root may write anywhere, so what the system answers is replaced
        path.mkdir()
        monkeypatch.setattr(os, "access", lambda *args: False)


@pytest.mark.parametrize("problem", ["a file in its place", "writable by everybody", "another user's", "read-only"])
def test_a_folder_that_cannot_be_used(problem, tmp_path, monkeypatch, caplog):
    unusable(problem, tmp_path / "asked", monkeypatch)
    with caplog.at_level(logging.WARNING, "minicompile.cache"):
        assert cache.put("k", b"v").parent == cache.cache_dir() != tmp_path / "asked"
        assert cache.get("k") == b"v"
    assert cache.info().temporary
    assert len(caplog.records) == 1 and "asked" in caplog.text


def test_a_folder_that_fills_up(tmp_path, monkeypatch, caplog):
    cache.put("early", b"1")
    write = cache.write_atomically

    def refuse(path, content):
        if path.parent == tmp_path / "asked":
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(cache, "write_atomically", refuse)
    with caplog.at_level(logging.WARNING, "minicompile.cache"):
        cache.put("late", b"2"), cache.put("later", b"3")
    assert (cache.get("late"), cache.get("later")) == (b"2", b"3")
    assert len(caplog.records) == 1 and "No space left" in caplog.text


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def refuse(*args):
        raise OSError("no renaming today")

    cache.cache_dir()
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no renaming"):
        cache.write_atomically(tmp_path / "asked" / "k", b"v")
    assert os.listdir(tmp_path / "asked") == []
