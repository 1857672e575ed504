from __future__ import annotations

import pytest

from mahala.support import config
from mahala.support.config import config_context, get_config, set_config


def test_settings_hold_for_the_process_and_within_a_block(monkeypatch):
    monkeypatch.setattr(config, "_settings", dict(config._settings))
    set_config(n_threads=3)
    with config_context(n_threads=5, tf32=True), config_context(engine="cuda:1"):
        assert get_config() == {"engine": "cuda:1", "n_threads": 5, "tf32": True}
    assert get_config() == {"engine": None, "n_threads": 3, "tf32": False}
    with pytest.raises(KeyError), config_context(n_threads=1):
        raise KeyError
    assert get_config()["n_threads"] == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_threads": 0}, "n_threads must be an integer of at least 1 or None, got 0"),
        ({"engine": "gpu"}, "engine must be 'cpu', 'cuda', 'cuda:1' and so on, 'torch-cpu', or a Client of"),
        ({"tf32": 1}, "tf32 must be True or False, got 1"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        set_config(**settings)
    with pytest.raises(ValueError, match=message), config_context(**settings):
        pass


def test_unknown_settings_are_named():
    with pytest.raises(TypeError, match="there is no setting 'threads'; the settings are engine, n_threads, tf32"):
        set_config(threads=2)
