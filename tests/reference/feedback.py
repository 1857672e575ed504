"""What QueryAdapter does with one impression after another, in plain NumPy: the oracle of its stream."""

from __future__ import annotations

import numpy as np

SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)


def adapter_stream(impressions, d, rates):
    """Return for each impression the served vector before it, and at the end M of new queries and the losses.

    An impression is (x, shown, reactions, id). OASIS with a margin m, the mean spread of the raw scores shown (for two
    results, the difference between the first raw scores of this and the last impression), and steps of at most
    m² / s³, weighted by 1 / sqrt(number of preferred results).
    """
    L, models = np.eye(d), []
    experts = [("raw", 0.0)] + [("mean", a) for a in SHARES] + [("last", a) for a in SHARES]
    prior = np.array([0.5] + [0.5 / 16] * 16)
    losses = {kind: np.zeros(17) for kind in rates}
    counts = dict.fromkeys(rates, 0)
    before = None
    spreads, sizes, known, served, weighted = [], [], set(), [], dict.fromkeys(rates, 0.0)

    def weights(kind):
        eta = rates[kind] * np.sqrt(8 * np.log(32) / (counts[kind] + 1))
        w = prior * np.exp(-eta * (losses[kind] - losses[kind].min()))
        return w / w.sum()

    def matrix(kind):
        A = np.mean(models, axis=0) if models else L
        own = {"raw": np.eye(d), "mean": A, "last": L}
        return sum(
            w * (np.eye(d) + a * (own[name] - np.eye(d))) for w, (name, a) in zip(weights(kind), experts, strict=True)
        )

    for x, Z, reactions, key in impressions:
        kind = "known" if key in known else "new"
        served.append(x @ matrix(kind))
        spread = np.ptp(Z @ x) if len(Z) != 2 or before is None else abs(Z[0] @ x - before)
        before = Z[0] @ x
        if spread > 0:
            spreads.append(spread)
            sizes.append(np.sqrt((x @ x) * np.mean(np.sum(Z**2, axis=1))))
        pairs = [(i, j) for i in range(len(Z)) for j in range(len(Z)) if reactions[i] > reactions[j]]
        if not pairs:
            continue
        A = np.mean(models, axis=0) if models else L
        own = {"raw": np.eye(d), "mean": A, "last": L}
        span = np.ptp(reactions)
        pair_weights = np.array([(reactions[i] - reactions[j]) / span for i, j in pairs])
        each = np.empty(17)
        for e, (name, a) in enumerate(experts):
            s = Z @ x + a * (Z @ (x @ own[name]) - Z @ x)
            wrong = [(s[i] < s[j]) + 0.5 * (s[i] == s[j]) for i, j in pairs]
            each[e] = np.sum(pair_weights * wrong) / pair_weights.sum()
        weighted[kind] += weights(kind) @ each
        losses[kind] += each
        counts[kind] += 1
        m, s = (np.mean(spreads), np.mean(sizes)) if spreads else (1.0, 1.0)
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
    return served, matrix("new"), losses, weighted, counts
