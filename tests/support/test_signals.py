"""Ctrl-C is not lost in a fit."""

from __future__ import annotations

import signal

import pytest

import mahala
from mahala.support.lazily import sklearn_checks
from mahala.support.signals import no_interrupt_lost


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("learner", [mahala.AdaSORS(n_triplets=5), mahala.NCA(max_iter=1)], ids=repr)
def test_ctrl_c_in_a_finalizer_is_not_lost(learner, labelled, monkeypatch):
    """Python drops what a finalizer raises; one ran in the first fit of a process, within scikit-learn's check."""

    class Interrupting:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    check = sklearn_checks.validate_data
    monkeypatch.setattr(
        sklearn_checks, "validate_data", lambda *rows, **named: Interrupting() and check(*rows, **named)
    )
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        learner.fit(*labelled)
    assert not hasattr(learner, "metric_")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_that_does_not_raise_is_called_in_a_fit():
    calls = []
    before = signal.signal(signal.SIGINT, lambda *given: calls.append(given))
    try:
        with no_interrupt_lost():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(calls) == 2
