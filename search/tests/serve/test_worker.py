"""Learning in a process of its own: it is started again if it dies, and ends with the process that started it."""

from __future__ import annotations

import os
import signal

from mahala_search.serve.service import Service
from mahala_search.serve.store.checkpoints import Checkpoints
from mahala_search.serve.store.collection_store import Store
from processes import Program

from .conftest import WIDTH
from .test_service import ITEMS, teach, wait_for

SERVES = """
import sys
from mahala_search.serve.service import Service
service = Service(sys.argv[1], learn=False, lease_seconds=3600.0)
service.start_learning(apart=True)
print(service.checkpoints.holder, flush=True)
sys.stdin.read()
"""


def test_it_learns_and_is_started_again(tmp_path):
    with Service(tmp_path / "mahala.db", learn=False, lease_seconds=0.5) as service:
        service.create("c", width=WIDTH)
        service.put_items("c", ITEMS)
        service.start_learning(apart=True)
        first = teach(service, n=3)
        wait_for(lambda: service.served("c").status()["learned"] == first, 120.0)
        wait_for(lambda: service.learns)
        process = service._learning._child
        os.kill(process.pid, signal.SIGKILL)
        second = teach(service, n=3)
        wait_for(lambda: service.served("c").status()["learned"] == second, 120.0)
        assert service.served("c").status()["learners"]["adapter"]["impressions"] == 6
        process = service._learning._child
    assert process.returncode == 0


def test_it_ends_when_the_process_that_serves_is_killed(tmp_path):
    path = tmp_path / "mahala.db"
    with Program(SERVES, path) as serves:
        holder = serves.stdout.readline().strip()
        store = Store(path)
        checkpoints = Checkpoints(store.database, holder=holder)
        wait_for(checkpoints.has_lease, 120.0)
        serves.kill()
    wait_for(lambda: not checkpoints.has_lease())  # given up, because it would hold for an hour
    store.close()
