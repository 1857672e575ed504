"""What QueryAdapter does with one impression after another, in plain NumPy: the oracle of its stream."""

from __future__ import annotations

import numpy as np

SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
# The prior weights of the plain ranking.
FIRST = {"new": 0.9, "supported": 0.6, "known": 0.75}


def each(rows, x):
    """Return rows @ x, row by row, so that equal rows have equal bits: a product of a matrix may round them apart."""
    return np.array([row @ x for row in np.ascontiguousarray(rows)])


def adapter_stream(impressions, d, rates, support):
    """Return for each impression the served vector before it, and at the end M of new queries and the losses.

    An impression is (x, shown, reactions, id). OASIS with a margin m, the mean spread of the raw scores shown (for two
    results, the difference between the first raw scores of this and the last impression), and steps of at most
    m² / s³, weighted by 1 / sqrt(number of preferred results). New queries have other weights while the mean model is
    ahead of raw on known queries by more than `support`, by the lower end of the 95 % interval of 20 or more pages.
    """
    L, models = np.eye(d), []
    maps = [("raw", 0.0)] + [("mean", a) for a in SHARES] + [("last", a) for a in SHARES]
    priors = {kind: np.array([raw] + [(1 - raw) / 16] * 16) for kind, raw in FIRST.items()}
    losses = {kind: np.zeros(len(prior)) for kind, prior in priors.items()}
    counts = dict.fromkeys(rates, 0.0)
    before = None
    spreads, sizes, known, served, weighted = [], [], set(), [], dict.fromkeys(rates, 0.0)
    clicks_at, shown_at = np.zeros(50), np.zeros(50)  # by rank
    ahead = []  # of raw, on known queries
    agreements, memory_gains = [], []  # of each page with what is remembered; of what is remembered on known queries
    evidence = {}  # by query and item: clicks, and clicks expected at its ranks

    def weights(kind):
        prior = priors[kind]
        eta = rates[kind] * np.sqrt(8 * -np.log(prior.min()) / (counts[kind] + 1))
        w = prior * np.exp(-eta * (losses[kind] - losses[kind].min()))
        return w / w.sum()

    def name_of(kind):
        is_supported = len(ahead) >= 20 and np.mean(ahead) - 1.96 * np.std(ahead, ddof=1) / len(ahead) ** 0.5 > support
        return "supported" if kind == "new" and is_supported else kind

    def click_weight():
        certainty = (4.1 * 2.5**0.5 + np.sum(agreements)) / (2.5 + np.sum(np.square(agreements))) ** 0.5
        is_sure, n = 1.0, len(memory_gains)
        if n >= 20 and np.std(memory_gains) > 0:
            is_sure = np.clip(np.mean(memory_gains) / (2 * np.std(memory_gains, ddof=1) / n**0.5), 0, 1)
        return is_sure * 0.8 * np.clip((certainty - 3) / 5, 0, 1)

    def matrix(kind):
        A = np.mean(models, axis=0) if models else L
        learned = {"raw": np.eye(d), "mean": A, "last": L}
        experts = [np.eye(d) + a * (learned[name] - np.eye(d)) for name, a in maps]
        return sum(w * M for w, M in zip(weights(kind), experts, strict=True))

    def rank_rates(n):
        mean = (clicks_at.sum() + 1) / (shown_at.sum() + 10)
        return np.array([(clicks_at[r] + 5 * mean) / (shown_at[r] + 5) for r in range(n)])

    def remember(Z, reactions, key):
        clicks = np.maximum(reactions, 0) / (np.abs(reactions).max() or 1)
        agreements.append(0.0)
        for z, click, expected in zip(Z, clicks, rank_rates(len(Z)), strict=True):
            sums = evidence.setdefault((key, z.tobytes()), np.zeros(2))
            agreements[-1] += (sums[0] - sums[1]) * (click - expected)
            sums += [click, expected]
        mine = sorted((sums[0], sums[1], item) for (query, item), sums in evidence.items() if query == key)
        for _, _, item in mine[:-16]:
            del evidence[key, item]
        clicks_at[: len(Z)] += clicks
        shown_at[: len(Z)] += 1

    for x, Z, reactions, key in impressions:
        kind = name_of("known" if key in known else "new")
        served.append(x @ matrix(kind))
        spread = np.ptp(each(Z, x)) if len(Z) != 2 or before is None else abs(Z[0] @ x - before)
        before = Z[0] @ x
        size = np.sqrt((x @ x) * np.mean(np.sum(Z**2, axis=1)))
        if spread > 1e-12 * size:  # else equal up to rounding, as the first scores of the same query and item are
            spreads.append(spread)
            sizes.append(size)
        pairs = [(i, j) for i in range(len(Z)) for j in range(len(Z)) if reactions[i] > reactions[j]]
        if not pairs:
            remember(Z, reactions, key)
            continue
        A = np.mean(models, axis=0) if models else L
        learned = {"raw": np.eye(d), "mean": A, "last": L}
        m, s = (np.mean(spreads), np.mean(sizes)) if spreads else (1.0, 1.0)
        span = np.ptp(reactions)
        pair_weights = np.array([(reactions[i] - reactions[j]) / span for i, j in pairs])
        scores = np.array([each(Z, x) + a * (each(Z, x @ learned[name]) - each(Z, x)) for name, a in maps])

        page = rank_rates(len(Z))
        corrected = pair_weights * [min(1.0, np.median(page) / page[i]) for i, _ in pairs]
        share = corrected.sum() / pair_weights.sum()

        def judged(kind, scores, penalty, pairs=pairs, corrected=corrected, share=share):
            lost = np.empty(len(scores))
            for e, s_e in enumerate(scores):
                wrong = [(s_e[i] < s_e[j]) + 0.5 * (s_e[i] == s_e[j]) for i, j in pairs]
                lost[e] = np.sum(corrected * wrong) / corrected.sum()
            lost[1:] = np.minimum(lost[1:] + penalty, 1.0)
            weighted[kind] += share * weights(kind) @ lost
            losses[kind] += share * lost
            counts[kind] += share

        if kind == "known":
            sums = np.array([evidence.get((key, z.tobytes()), np.zeros(2)) for z in Z])
            added = max(click_weight(), 0.2) * m * np.maximum(sums[:, 0] - sums[:, 1] / 2, -0.15)
            plain = each(scores.T, weights(kind))
            wrong = [[(s[i] < s[j]) + 0.5 * (s[i] == s[j]) for i, j in pairs] for s in (plain, plain + added)]
            memory_gains.append(share * np.subtract(*wrong) @ corrected / corrected.sum())
            wrong = [[(s[i] < s[j]) + 0.5 * (s[i] == s[j]) for i, j in pairs] for s in (scores[0], scores[8])]
            ahead.append(np.subtract(*wrong) @ pair_weights / pair_weights.sum())
        judged(kind, scores, 0.06 if kind == "known" else 0.0)
        C = m**2 / s**3
        crowd = np.sqrt(len({i for i, _ in pairs}))
        for (i, j), weight in zip(pairs, pair_weights, strict=True):
            models.append(L.copy())
            q = Z[i] - Z[j]
            norm = (x @ x) * (q @ q)
            hinge = m - x @ L @ q
            if hinge > 0 and norm > 0:
                L = L + weight / crowd * min(C, hinge / norm) * np.outer(x, q)
        known.add(key)
        remember(Z, reactions, key)
    return served, matrix(name_of("new")), losses, weighted, counts, evidence, agreements, memory_gains
