"""Every learner that mahala exports, in the settings in which the contract must hold."""

from __future__ import annotations

import inspect

import mahala
from mahala.learner import Learner, PairLearner

LEARNERS = [
    kind
    for kind in (getattr(mahala, name) for name in sorted(mahala.__all__))
    if inspect.isclass(kind) and issubclass(kind, Learner)
]

_SETTINGS = {
    "PA": [
        *({"variant": v, "psd": psd, "C": 0.1} for v in ("hard", "I", "II", "LS") for psd in ("every", "end", 3)),
        {"init": "identity"},
        {"init": "random", "psd": "end"},
        {"tolerance": 0.02, "variant": "LS"},
        {"kernel": "rbf", "kernel_params": {"gamma": 0.3}},
        {"kernel": "poly", "psd": "end"},
        {"kernel": "cosine", "psd": 4},
    ],
    "POLA": [{}, {"gamma": 1.0}, {"kernel": "rbf"}],
    "LEGO": [{}, {"eta": 5.0, "similar_target": 2.0, "dissimilar_target": 20.0}, {"eta": 1e-3, "similar_target": 1.0}],
    "RDML": [{}, {"lam": 0.003}],
}


def instances():
    """A fresh instance for each setting; a learner without settings of its own is tried with its defaults."""
    for kind in LEARNERS:
        for setting in _SETTINGS.get(kind.__name__, [{}]):
            yield kind(random_state=0, **setting)


PAIR_LEARNERS = [learner for learner in instances() if isinstance(learner, PairLearner)]


def _on_rows(kind):
    """The learner as rows see it: without the methods that are about comparisons."""

    def hidden(self):
        raise AttributeError("hidden")

    own = {"predict": property(hidden), "decision_function": property(hidden), "__module__": __name__}
    return type(f"{kind.__name__}OnRows", (kind,), own)


ON_ROWS = [_on_rows(kind) for kind in LEARNERS]
globals().update({kind.__name__: kind for kind in ON_ROWS})  # so that they can be pickled
