"""Write files that are complete or absent."""

import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# What the name of a temporary file holds between stem and suffix: the machine, the process and a random number.
_MARK = r"\.([0-9a-f]{8})-(\d+)-[0-9a-f]{16}\.tmp"
# The processes of another machine are unknown: its temporary files are taken for abandoned after this many seconds.
_ABANDONED = 86_400.0
# Temporary files that this process writes at the moment.
_writing: set[str] = set()


def check_readable(path: str | os.PathLike[str]) -> None:
    """Raise Python's own OSError if a file is missing or not readable, and ValueError if it is a pipe or a device.

    To open a pipe would wait for a writer, and a device may have no end.
    """
    kind = _kind(path)
    if kind not in ("a file", "a folder"):
        raise ValueError(f"{os.fspath(path)} must be a file, but it is {kind}: write what it has to a file first")
    with open(path, "rb"):
        pass


def replaceable(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path names, through links; raise an error unless it is a regular file or a new name.

    To replace a device or a pipe would take it away from everybody who uses it. A loop of links is an OSError.
    """
    with suppress(FileNotFoundError):
        kind = _kind(path)
        if kind != "a file":
            error = IsADirectoryError if kind == "a folder" else ValueError
            raise error(f"{os.fspath(path)} must be a file or a new name, but it is {kind}")
    return Path(os.path.realpath(path))


def _kind(path: str | os.PathLike[str]) -> str:
    """Return in words what there is under a name."""
    kinds = {
        stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"
    }  # fmt: skip
    return kinds.get(stat.S_IFMT(os.stat(path).st_mode), "a device")


def previous_of(path: str | os.PathLike[str]) -> Path:
    """Return the name under which `whole_file` keeps the file that it replaces."""
    target = Path(os.path.realpath(path))
    return target.with_name(f"{target.stem}.previous{target.suffix}")


@contextmanager
def whole_file(path: str | os.PathLike[str], previous: bool = False) -> Iterator[Path]:
    """Yield the path of a temporary file, with the suffix of `path`, that replaces `path` when the block ends.

    If the block raises, or the file cannot be flushed to the disk, `path` stays as it was and the temporary file is
    removed. If `path` is a symbolic link, the file it points to is replaced; what is not a regular file is refused
    (see `replaceable`). A file that is replaced keeps its mode and, where the system permits, its owner; with
    `previous`, it is kept as `previous_of(path)`. Temporary files of the same target that killed processes left behind
    are removed.
    """
    target = replaceable(path)
    remove_abandoned(target)
    temporary, link = _temporary(target), _temporary(target)
    _writing.update((temporary.name, link.name))
    try:
        with named(target):
            if target.exists():  # its readers may be few: nobody else reads the new file until it has the same mode
                os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            yield temporary
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            if target.exists():
                _keep_owner_and_mode(target, temporary)
                if previous:  # under both names for a moment, so that `path` always exists
                    _link(target, link)
                    os.replace(link, previous_of(target))
            os.replace(temporary, target)
        with suppress(OSError):  # the new name is made durable, where the system can
            descriptor = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    finally:
        temporary.unlink(missing_ok=True)
        link.unlink(missing_ok=True)
        _writing.difference_update((temporary.name, link.name))


@contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Give an OSError without the name of a file, such as that of a full disk, the name of the file that is written."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.strerror:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def remove_abandoned(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files of `path` whose processes were killed; those of living writers stay."""
    target = Path(os.path.realpath(path))
    name = re.compile(f"{re.escape(target.stem)}(?:{_MARK})+{re.escape(target.suffix)}")
    with suppress(OSError):  # another process has removed it, or the folder is not ours to tidy
        for entry in list(os.scandir(target.parent)):
            match = name.fullmatch(entry.name)
            if match and _dead(entry, match):
                os.unlink(entry)


def _temporary(target: Path) -> Path:
    mark = f"{_machine()}-{os.getpid()}-{secrets.token_hex(8)}.tmp"
    return target.with_name(f"{target.stem}.{mark}{target.suffix}")


def _machine() -> str:
    """Return a digest of what makes process numbers comparable: the host since it started, and a container's own."""
    parts = [platform.node()]
    with suppress(OSError):  # these are Linux'
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:8]


def _dead(entry: os.DirEntry[str], match: re.Match[str]) -> bool:
    """Whether the writer of a temporary file is gone."""
    machine, process = match[1], int(match[2])
    if machine != _machine() or os.name == "nt":  # os.kill would end a process of Windows
        return time.time() - entry.stat().st_mtime > _ABANDONED and entry.name not in _writing
    if process == os.getpid():
        return entry.name not in _writing
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return False


def _keep_owner_and_mode(old: Path, new: Path) -> None:
    """Give a file the owner, as far as the system permits, and the mode of another."""
    was, now = old.stat(), new.stat()
    if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
        for user in (was.st_uid, -1):  # only the superuser may give a file to another user
            with suppress(OSError):
                os.chown(new, user, was.st_gid)
                break
    kept_group = new.stat().st_gid == was.st_gid
    new.chmod(stat.S_IMODE(was.st_mode) & (0o7777 if kept_group else 0o7707))  # what its group may do, others may not


def _link(file: Path, name: Path) -> None:
    """Give a file a second name; where the system has no such links, copy it."""
    try:
        os.link(file, name)
    except OSError:
        shutil.copy2(file, name)
        with open(name, "rb+") as copy:
            os.fsync(copy.fileno())
