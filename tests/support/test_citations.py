"""References of docstrings as BibTeX."""

from __future__ import annotations

import re

import pytest

import mahala
from mahala.learner import learner_kinds
from mahala.support.citations import Reference, references_of


@pytest.mark.parametrize("kind", learner_kinds(), ids=lambda kind: kind.__name__)
def test_every_learner_cites_its_paper(kind):
    [paper] = references_of(kind)
    assert str(paper) in " ".join(kind.__doc__.split())  # nothing of it was lost
    entry = kind.cite()
    assert re.fullmatch(r"@\w+\{[a-z]+\d{4}[a-z]+,\n(  \w+ = \{.+\},\n)+\}", entry)
    assert entry.isascii()
    assert entry.count("{") == entry.count("}")
    assert set(re.findall(r"^  (\w+) =", entry, re.MULTILINE)) >= {"author", "title", "year"}


ARTICLE = r"""
@article{perezsuay2013passive,
  author = {A. P{\'{e}}rez-Suay and F. J. Ferri and M. Arevalillo-Herr{\'{a}}ez},
  title = {Passive-aggressive online distance metric learning and extensions},
  journal = {Progress in Artificial Intelligence},
  volume = {2},
  year = {2013},
}
"""
PAPER_OF_A_CONFERENCE = """
@inproceedings{shen2008psdboost,
  author = {C. Shen and A. Welsh and L. Wang},
  title = {{PSDBoost}: matrix-generation linear programming for positive semidefinite matrices learning},
  booktitle = {Advances in Neural Information Processing Systems (NIPS)},
  volume = {21},
  year = {2008},
  pages = {1473--1480},
}
"""


def test_an_entry_has_the_fields_of_its_kind():
    assert mahala.PA().cite() == ARTICLE.strip()
    assert mahala.batch.PSDBoost.cite() == PAPER_OF_A_CONFERENCE.strip()


def test_characters_of_latex_are_escaped_and_capitals_kept():
    text = "A. van den Hengel, B. Li: The kNN & Fisher's LDA in 3D. Pattern Recognition & Letters 3, 2001, 1-2."
    entry = Reference.parse(text).bibtex()
    assert "@article{vandenhengel2001knn," in entry
    assert r"title = {The {kNN} \& {Fisher}'s {LDA} in {3D}}," in entry
    assert r"journal = {Pattern Recognition \& Letters}," in entry


class Two(mahala.RCA):
    """Do nothing new.

    References
    ----------
    A. One: First title. Journal of Ones 1, 2001,
    1-10.
    B. Two, C. Three: Second: title. NIPS, 2002.

    Examples
    --------
    """


class Unwritten(mahala.RCA):
    """Do nothing new."""


class Informal(mahala.RCA):
    """Do nothing new.

    References
    ----------
    Two people, in some journal.
    """


def test_a_learner_may_have_several_papers_or_none():
    assert [paper.key for paper in references_of(Two)] == ["one2001first", "two2002second"]
    assert Two.cite().count("\n\n@inproceedings{two2002second,") == 1
    with pytest.raises(ValueError, match="Unwritten has no paper to cite: its docstring has no section References"):
        Unwritten().cite()
    with pytest.raises(ValueError, match=r"a reference must have the form 'A\. Author.*got 'Two people"):
        Informal().cite()
