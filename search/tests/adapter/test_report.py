"""The report of an adapter: what it says, and that names are text."""

from __future__ import annotations

from html import escape

import numpy as np
import pytest

from mahala_search.adapter.report import _thinned, adaptation
from report.cases import fitted

EVIL = "<script>alert(1)</script> & 'more'"


def page(adapter, names):
    measured = {"Command": f"mahala adapt {EVIL}"}
    return adaptation(adapter, names, title=EVIL, commands=[f"mahala search {EVIL}"], measured=measured)


def test_it_says_what_was_measured():
    adapter = fitted([0.9, 0.3, 0.5, 0.6])
    text = page(adapter, ["unjudged", "a", "b", "c", "d"])
    assert "<h1>Shown to help</h1>" in text
    assert adapter.verdict_.sentence in text
    assert "<td>0.500</td><td class=n><b>0.575</b></td>" in text
    assert "+0.075 <small>95 % +0.050 to +0.150</small>" in text
    assert "Of 4 queries, 2 gain, 1 lose, 1 stay." in text
    lost, won = text.split("<h2>Queries that lose the most")[1].split("<h2>Queries that gain the most")
    assert "<td>b</td><td class=n>0.500</td><td class=n>0.300</td><td class=n>-0.200</td>" in lost
    assert lost.count("<td>") == 1
    assert won.index("<td>a</td>") < won.index("<td>d</td>")
    assert "unjudged" not in text
    assert "4-fold cross-validation" in text
    assert '"gains":{"values":[0.4,0.1,0.0,-0.2],"n":4,"measure":"nDCG@10"}' in text


@pytest.mark.filterwarnings("error")
def test_the_heading_of_other_outcomes():
    text = page(fitted([0.5, 0.5], None), ["a", "b", "c"])
    assert "<h1>Does not help</h1>" in text
    assert text.count("<p>None.</p>") == 2
    assert "<small" not in text.split("</style>")[1].split("<script>")[0]
    uncertain = page(fitted([0.6, 0.5], (0.05, -0.1, 0.2)), ["a", "b", "c"])
    assert "<h1>Probably helps</h1>" in uncertain


def test_names_are_text():
    text = page(fitted([0.9, 0.1]), ["", EVIL, EVIL])
    assert "<script>alert" not in text
    assert text.count(escape(EVIL)) == 6
    assert "default-src 'none'" in text


def test_many_gains_are_thinned_and_the_extremes_stay():
    thinned = _thinned(np.linspace(-0.2, 0.6, 5001))
    assert len(thinned) == 1000
    assert (thinned[0], thinned[-1]) == (0.6, -0.2)
    assert thinned == sorted(thinned, reverse=True)
