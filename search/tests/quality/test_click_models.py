"""Click models: how often each rank is clicked, against the formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahala_search.quality.click_models import ClickModel, Clicks, click_model

# Hofmann, Schuth, Whiteson and de Rijke, "Reusing historical interaction data for faster online learning to rank for
# IR" (2013): probabilities of a click and of stopping after it, for grades 0, 1 and 2. Binary ones are the outer two.
PUBLISHED = {
    "perfect": ([0.0, 0.5, 1.0], [0.0, 0.0, 0.0]),
    "navigational": ([0.05, 0.5, 0.95], [0.2, 0.5, 0.9]),
    "informational": ([0.4, 0.7, 0.9], [0.1, 0.3, 0.5]),
}
N = 2500


def shares(model: Clicks, grades: Any, best: float) -> Any:
    rng = np.random.default_rng(0)
    return np.mean([model.click(grades, rng, best) for _ in range(N)], axis=0)


def assert_frequencies(observed: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert (np.abs(observed - expected) <= 5 * np.sqrt(expected * (1 - expected) / N)).all(), (observed, expected)


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize(("grades", "best"), [([1, 0, 2, 1, 0, 2], 2), ([0, 1, 1, 0], 1)])
def test_published_cascades(name: str, grades: list[int], best: int) -> None:
    levels = np.array(grades) * (2 // best)
    click, stop = (np.array(values)[levels] for values in PUBLISHED[name])
    reached = np.append(1.0, np.cumprod(1.0 - click * stop)[:-1])
    assert_frequencies(shares(click_model(name), grades, best), reached * click)


def test_probabilities_between_grades_are_interpolated() -> None:
    assert_frequencies(shares(ClickModel((0.2, 0.6)), [0, 1, 2, 4, 9], 4), [0.2, 0.3, 0.4, 0.6, 0.6])


def test_examination_drops_with_the_rank() -> None:
    grades = [1, 0, 1, 0]
    attraction = np.where(grades, 1.0, 0.1)
    assert_frequencies(shares(click_model("position"), grades, 1), attraction / np.arange(1, 5))
    assert_frequencies(shares(ClickModel((1.0,), eta=0.5), grades, 1), np.arange(1, 5) ** -0.5)


def test_random_clicks_do_not_see_grades() -> None:
    assert_frequencies(shares(click_model("random"), [0, 3, 1], 3), [0.5] * 3)


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=1, max_size=9))
def test_an_adversary_clicks_the_worst(grades: list[float]) -> None:
    clicked = click_model("adversarial").click(grades, np.random.default_rng(0))
    counted = [min(grade, 1.0) for grade in grades]  # grades above the best count like it
    assert np.flatnonzero(clicked).tolist() == [max(i for i, grade in enumerate(counted) if grade == min(counted))]


@pytest.mark.parametrize("name", [*PUBLISHED, "position", "random", "adversarial"])
def test_clicks_are_a_mask_that_the_seed_decides(name: str) -> None:
    first, second = (click_model(name).click(np.ones(30), np.random.default_rng(3)) for _ in range(2))
    assert first.dtype == bool
    assert first.shape == (30,)
    np.testing.assert_array_equal(first, second)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be one of perfect, .*, adversarial, got 'lazy'"):
        click_model("lazy")
    with pytest.raises(ValueError, match="attraction must be a number from 0 to 1, got"):
        ClickModel((0.5, 1.5))
    with pytest.raises(ValueError, match="stop must have a probability"):
        ClickModel((0.5,), ())
    with pytest.raises(ValueError, match="eta must be a number of at least 0, got -1"):
        ClickModel((0.5,), eta=-1)
    rng = np.random.default_rng(0)
    for model in (ClickModel((0.5,)), click_model("adversarial")):
        for grades in ([], [-1.0], [np.nan], [[1.0]]):
            with pytest.raises(ValueError, match="grades must be finite numbers of at least 0"):
                model.click(grades, rng)
        with pytest.raises(ValueError, match="best must be a positive number, got 0"):
            model.click([1.0], rng, best=0)
