"""Compiling ahead: what is compiled afterwards is nothing."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own, where nothing has been compiled or loaded by other tests.
PROGRAM = """
import sys
import numpy as np
import mahala
from mahala.compiled.jit import Kernel
from sklearn.datasets import load_wine
from mahala.support.limits import COMPILING

told = []
drawn = np.random.get_state()[2]
n = mahala.warm_up(lambda done, name, total: told.append((done, name, total)))
assert n == COMPILING.n_compiled
assert [done for done, _, _ in told] == list(range(told[0][2] + 1)), told
assert {"PA", "NCA", "evaluations"} <= {name for _, name, _ in told}
never = {
    f"{name}.{key}"
    for name, module in list(sys.modules.items())
    if name.startswith("mahala.") and ".compiled." not in name and name != "mahala.extend"
    for key, value in vars(module).items()
    if isinstance(value, Kernel) and not value.dispatcher.overloads
}
assert not never, never

assert np.random.get_state()[2] == drawn

before = COMPILING.n_compiled
X, y = load_wine(return_X_y=True)
mahala.compare(X, y, folds=2, repeats=1)
X = X / X.std(axis=0)
for learner in (mahala.PA(), mahala.LEGO(), mahala.OASIS(), mahala.SORS(), mahala.ITML()):
    learner.fit(X, y).score(X, y)
for learner in (mahala.NCA(max_iter=3), mahala.LMNN(max_iter=3), mahala.GML(max_iter=3)):
    learner.fit(X.astype(np.float32), y)
assert COMPILING.n_compiled == before
"""


def test_nothing_is_left_to_compile_or_drawn():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
