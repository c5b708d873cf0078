"""The disk cache: a flat folder of content-addressed files, kept between processes.

In: a key (a file name such as "3f…9a.so", whose stem is a hash of all that went into the content) and bytes. Out: the
same bytes, later, perhaps in another process. A file is written under a temporary name and renamed, so a reader sees a
whole file or none, two writers of one key both succeed, and a library that some process has mapped is never changed
under it.

The folder is the user's own (mode 0700): what is loaded from it runs as code, so a folder that somebody else owns or
that everybody may write to is refused. A folder that cannot be used, or that turns out to be full, is replaced by a
temporary one for the rest of the process, with one warning: a cache must never be the reason that a compilation fails.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT_VARIABLE = "MINICOMPILE_CACHE_DIR"

log = logging.getLogger("minicompile.cache")

_temporary: dict[Path, Path] = {}  # a folder that could not be used → what stands in for it in this process
_usable: set[Path] = set()  # folders that were checked


@dataclass(frozen=True)
class CacheInfo:
    """What the cache holds: `size` in bytes; `temporary` when the folder goes away with this process."""

    path: Path
    entries: int
    size: int
    temporary: bool

    def __str__(self) -> str:
        kept = ", gone when this process ends" if self.temporary else ""
        return f"{self.path}: {self.entries} files, {self.size / 1e6:.1f} MB{kept}"


def requested_dir() -> Path:
    """The folder that the user asked for: config.cache_dir, $MINICOMPILE_CACHE_DIR, or the user's cache folder."""
    from minicompile.config import config

    asked = config.cache_dir or os.environ.get(ENVIRONMENT_VARIABLE)
    if asked:
        return Path(asked).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not os.path.isabs(base):  # no home folder, as for a user that only a container knows
        return Path(tempfile.gettempdir()) / f"minicompile-{os.geteuid()}"
    return Path(base) / "minicompile"


def cache_dir() -> Path:
    """The folder in use; it exists. A temporary one where the requested folder cannot be used."""
    requested = requested_dir()
    if requested in _temporary:
        return _temporary[requested]
    if requested not in _usable:
        try:
            _prepare(requested)
        except OSError as problem:
            return use_temporary(problem)
        _usable.add(requested)
    return requested


def use_temporary(problem: OSError | str) -> Path:
    """Give up the requested folder for this process, warning once, and return the temporary one."""
    requested = requested_dir()
    if requested not in _temporary:
        folder = Path(tempfile.mkdtemp(prefix="minicompile-"))
        atexit.register(_remove_own, folder, os.getpid())
        _temporary[requested] = folder
        log.warning("The cache folder %s cannot be used (%s); using %s for this process.", requested, problem, folder)
    return _temporary[requested]


def get(key: str) -> bytes | None:
    """The bytes stored under `key`, or None."""
    try:
        return (cache_dir() / key).read_bytes()
    except OSError:
        return None


def put(key: str, content: bytes) -> Path:
    """Store `content` under `key` and return the file; OSError only if not even the temporary folder takes it."""
    try:
        return write_atomically(cache_dir() / key, content)
    except OSError as problem:
        return write_atomically(use_temporary(problem) / key, content)


def write_atomically(path: Path, content: bytes) -> Path:
    """Write a file that other processes see whole or not at all. The folder is made again if it was removed."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = scratch_path(path)
    try:
        scratch.write_bytes(content)
        os.replace(scratch, path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
    return path


def scratch_path(path: Path) -> Path:
    """A name beside `path` that no other process or thread uses, to be renamed to `path`."""
    return path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")


def info() -> CacheInfo:
    """Count what the folder in use holds."""
    folder = cache_dir()
    sizes = list(_entries(folder).values())
    return CacheInfo(folder, len(sizes), sum(sizes), folder != requested_dir())


def clear() -> int:
    """Remove every entry and return how many there were. Libraries that are loaded go on working."""
    removed = 0
    for entry in _entries(cache_dir()):
        entry.unlink(missing_ok=True)
        removed += 1
    return removed


def _entries(folder: Path) -> dict[Path, int]:
    """Files and their sizes. Other processes may remove any of them, or the folder, meanwhile."""
    entries = {}
    with contextlib.suppress(FileNotFoundError):
        for path in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                if stat.S_ISREG(status.st_mode):
                    entries[path] = status.st_size
    return entries


def _prepare(folder: Path) -> None:
    """Make the folder; raise OSError when it is not a private folder that this user can write to."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise PermissionError("it belongs to another user")
    if status.st_mode & stat.S_IWOTH:
        raise PermissionError("everybody may write to it")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError("it is read-only")


def _remove_own(folder: Path, pid: int) -> None:
    """Remove a temporary folder at exit, but not from a forked child, whose parent still uses it."""
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)
