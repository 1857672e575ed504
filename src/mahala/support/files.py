"""Write files that are complete or absent, and keep two processes from writing the same one."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a temporary file, with the suffix of `path`, that replaces `path` when the block ends.

    If the block raises, or the file cannot be flushed to the disk, `path` stays as it was and the temporary file is
    removed. If `path` is a symbolic link, the file it points to is replaced. A file that is replaced keeps its mode.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f"{target.stem}.{secrets.token_hex(8)}.tmp{target.suffix}")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
        _flush_folder(target.parent)
    except OSError as error:
        if error.filename is None and error.strerror:  # such as a full disk
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def only_writer(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise BlockingIOError if another process holds the file for writing; hold it until the block ends.

    The lock is on a file beside it, with the suffix .lock. The system releases it when its process ends, however that
    happens, so that a lock is never stale. Where the system has no such locks, as on Windows, nothing is checked.
    """
    place = f"{os.path.realpath(path)}.lock"
    try:
        import fcntl
    except ImportError:
        fcntl = None  # type: ignore[assignment]
    if fcntl is None or not os.path.isdir(os.path.dirname(place)):
        yield  # without its folder the file cannot be written anyway
        return
    while True:
        file = open(place, "a+", encoding="ascii")  # noqa: SIM115  (it is closed below)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read(20).strip() or "unknown"
            file.close()
            raise BlockingIOError(f"{path} is in use by another process ({holder}), which learns into it") from None
        except OSError:  # a network disk without locks
            break
        try:
            if os.path.samestat(os.stat(place), os.fstat(file.fileno())):
                break
        except FileNotFoundError:
            pass
        file.close()  # its holder removed it in the meantime
    with file:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            Path(place).unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    """Make a new name in a folder durable, where the system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
