"""Names of other libraries: an AttributeError says what they are called here."""

from __future__ import annotations

import pytest

import mahala
from mahala.support.former_names import OF_LEARNERS, OF_PACKAGE


@pytest.mark.parametrize("name", OF_PACKAGE)
def test_names_of_the_package(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; ") as error:
        getattr(mahala, name)
    assert OF_PACKAGE[name] in str(error.value)


@pytest.mark.parametrize("name", OF_LEARNERS)
def test_names_of_learners(name):
    kind = mahala.OASIS if name == "pair_distance" else mahala.PA
    assert not hasattr(kind(), name)
    with pytest.raises(AttributeError, match=f"{kind.__name__} has no attribute '{name}'; ") as error:
        getattr(kind(), name)
    assert OF_LEARNERS[name] in str(error.value)


def test_other_errors_of_attributes_stay_as_they_are():
    with pytest.raises(AttributeError, match="'PA' object has no attribute 'nonsense'"):
        _ = mahala.PA().nonsense
    with pytest.raises(AttributeError, match="not kept with record=False"):
        _ = mahala.PA(record=False).fit([[[0.0], [1.0]], [[0.0], [2.0]]], [1, -1]).history_
