"""The demo: its items, the encoder that makes their vectors, and what five clicks of one person do."""

from __future__ import annotations

import numpy as np
import pytest

from mahala_search.serve.learning.learners import DEFAULT, new_learner
from mahala_search.serve.page.demo import EXAMPLES, WIDTH, demo_items


@pytest.fixture(scope="module")
def demo():
    encoder, items = demo_items()
    return encoder, items, np.array([item["vector"] for item in items])


def best(demo, text, adapter=None, k=10):
    encoder, items, X = demo
    query = encoder(text) if adapter is None else adapter.embed(encoder(text), text)
    return [items[row]["id"] for row in np.argsort(-X @ query, kind="stable")[:k]]


def test_dishes_are_found_by_what_they_are(demo):
    _, items, X = demo
    assert len({item["id"] for item in items}) == len(items) == 953
    for item in items:
        assert item["payload"].keys() >= {"title", "text", "cuisine", "kind"}
        assert item["payload"].get("diet") in (None, "vegan", "vegetarian", "fish", "meat")
        assert item["payload"]["text"].endswith(".")
    assert X.shape == (len(items), WIDTH)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0)
    for text, titles in (
        ("spicy noodle soup", {"Laksa", "Beef noodle soup", "Thukpa"}),
        ("raw fish", {"Sushi", "Sashimi", "Ceviche"}),
        ("apple desserts", {"Apple crumble", "Apfelstrudel"}),
        ("Japanese noodles", {"Udon", "Shoyu ramen", "Zaru soba"}),
        ("hangover", {"Haejangguk", "Encebollado", "Ciorbă de burtă"}),
        ("eggplant dip", {"Baba ghanoush", "Zaalouk"}),
    ):
        assert titles <= set(best(demo, text)), text


def test_vectors_are_the_same_each_time(demo):
    encoder, _, X = demo
    again, same = demo_items()
    np.testing.assert_allclose([item["vector"] for item in same], X, atol=1e-6)
    np.testing.assert_allclose(again("vegan curry"), encoder("vegan curry"), atol=1e-6)


def test_nonsense_fits_nothing(demo):
    encoder = demo[0]
    for text in ("zzzz 123", "how do I fix this", "quarterly tax return", "the and of", "?"):
        assert not encoder(text).any(), text
    assert all(encoder(text).any() for text in EXAMPLES)


def teach(demo, text, choose):
    """Return the adapter after five clicks of one person, who chooses from the ten titles that are shown."""
    encoder, items, X = demo
    rows = {item["id"]: row for row, item in enumerate(items)}
    adapter, shown = new_learner(DEFAULT["adapter"]), best(demo, text)
    for _ in range(5):
        choice = choose(shown)
        clicked = [float(title == choice) for title in shown]
        adapter.learn_one(encoder(text), X[[rows[title] for title in shown]], clicked, query_id=text, user="visit:1")
        shown = best(demo, text, adapter)
    return adapter


@pytest.mark.parametrize("text", EXAMPLES[:3])
def test_five_clicks_bring_a_dish_to_the_top_and_leave_other_queries_alone(demo, text):
    wanted = best(demo, text)[-1]
    adapter = teach(demo, text, lambda shown: wanted)
    assert wanted in best(demo, text, adapter, 3)
    for other in ("chocolate cake", "raw fish", "christmas", "grilled meat with friends"):
        assert len(set(best(demo, other, adapter)) & set(best(demo, other))) >= 9, other


def test_five_clicks_teach_a_taste(demo):
    green = {item["id"] for item in demo[1] if item["payload"].get("diet") in ("vegan", "vegetarian")}
    opened = set()

    def choose(shown):  # the last dish without meat and fish, first of those that were not opened before
        choice = max(
            (title for title in shown if title in green), key=lambda one: (one not in opened, shown.index(one))
        )
        opened.add(choice)
        return choice

    adapter = teach(demo, "street snack", choose)
    after = set(best(demo, "street snack", adapter)) & green
    assert len(after) >= 2 + len(set(best(demo, "street snack")) & green)
    # Dishes that nobody opened rise, too.
    unopened = [title for title in best(demo, "street snack", k=50) if title in green - opened]
    learned = best(demo, "street snack", adapter, 953)
    places = {title: place for place, title in enumerate(best(demo, "street snack", k=953))}
    assert np.mean([places[title] - learned.index(title) for title in unopened]) > 1.0
