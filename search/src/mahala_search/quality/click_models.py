"""Click models: which of the items shown a simulated person clicks on."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from mahala.extend import NonNegative, Positive, Share, as_floats, check_value
from mahala_search.arrays import BoolArray, FloatArray


class Clicks(Protocol):
    """What clicks on items: a `ClickModel`, or any object with this method."""

    def click(self, grades: "ArrayLike", rng: np.random.Generator, best: float = 1.0) -> BoolArray:
        """Return whether each item is clicked, given the grades of the items from the top of the page down."""


@dataclass(frozen=True)
class ClickModel:
    """A person who goes through the items shown from the top, clicks on some, and after a click may stop.

    The item at rank r is examined with probability 1 / r^`eta`, an examined one is clicked with the probability
    `attraction`, and after a click the person stops with the probability `stop`.

    Parameters
    ----------
    attraction, stop : probabilities for grades from 0 to the best one, equally spaced; those of grades in between are
        interpolated. So the same model serves binary and graded judgments.
    eta : how fast the examination drops; with 0 every item is examined until the person stops

    Examples
    --------
    >>> model = ClickModel(attraction=(0.05, 0.5, 0.95), stop=(0.2, 0.5, 0.9))
    >>> model.click([0, 2, 0, 1], np.random.default_rng(3), best=2)
    array([False,  True, False, False])
    """

    attraction: tuple[float, ...]
    stop: tuple[float, ...] = (0.0,)
    eta: float = 0.0

    def __post_init__(self) -> None:
        for name in ("attraction", "stop"):
            values = tuple(getattr(self, name))
            if not values:
                raise ValueError(f"{name} must have a probability, got none")
            for value in values:
                check_value(value, name, Share)
            object.__setattr__(self, name, values)
        check_value(self.eta, "eta", NonNegative)

    def click(self, grades: "ArrayLike", rng: np.random.Generator, best: float = 1.0) -> BoolArray:
        """Return whether each item is clicked; `best` is the grade from which items count as fully relevant."""
        shares = _shares(grades, best)
        chances = _interpolated(shares, self.attraction) * np.arange(1.0, len(shares) + 1.0) ** -self.eta
        clicked: BoolArray = rng.random(len(shares)) < chances
        stopped = clicked & (rng.random(len(shares)) < _interpolated(shares, self.stop))
        if stopped.any():
            clicked[stopped.argmax() + 1 :] = False
        return clicked


class Adversary:
    """A person who always clicks on the worst item shown and on nothing else; of equally bad ones on the last."""

    def click(self, grades: "ArrayLike", rng: np.random.Generator, best: float = 1.0) -> BoolArray:
        """Return whether each item is clicked, given the grades of the items from the top of the page down."""
        shares = _shares(grades, best)
        clicked = np.zeros(len(shares), dtype=bool)
        clicked[len(shares) - 1 - shares[::-1].argmin()] = True
        return clicked


_MODELS: dict[str, Clicks] = {
    "perfect": ClickModel((0.0, 0.5, 1.0)),
    "navigational": ClickModel((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
    "informational": ClickModel((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
    "position": ClickModel((0.1, 1.0), eta=1.0),
    "random": ClickModel((0.5,)),
    "adversarial": Adversary(),
}


def click_model(name: str) -> Clicks:
    """Return a click model by its name.

    - "perfect", "navigational" and "informational" are those of Hofmann, Schuth, Whiteson and de Rijke (2013): clicks
      on relevant items only; few and reliable clicks, often only one; and many, less reliable ones.
    - "position" is position-based, with η = 1 and clicks on a tenth of the irrelevant items that are examined
      (Joachims, Swaminathan and Schnabel, 2017).
    - "random" clicks on each item with probability 1/2, whatever its grade.
    - "adversarial" clicks on the worst item shown, always.

    >>> click_model("perfect").click([0, 1, 0, 1], np.random.default_rng(0))
    array([False,  True, False,  True])
    """
    if name not in _MODELS:
        raise ValueError(f"the name of a click model must be one of {', '.join(_MODELS)}, got {name!r}")
    return _MODELS[name]


def _shares(grades: "ArrayLike", best: float) -> FloatArray:
    """Grades as shares of the best one."""
    check_value(best, "best", Positive)
    array = as_floats(grades, "grades")
    if array.ndim != 1 or array.size == 0 or not (np.isfinite(array) & (array >= 0.0)).all():
        raise ValueError(f"grades must be finite numbers of at least 0, one per item shown, got {array}")
    return np.minimum(array / best, 1.0)


def _interpolated(shares: FloatArray, values: tuple[float, ...]) -> FloatArray:
    return np.interp(shares, np.linspace(0.0, 1.0, len(values)), values)
