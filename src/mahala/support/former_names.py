"""Names under which other libraries, above all metric-learn, have what mahala calls otherwise, and former commands.

Whoever asks for one of them gets an error that says where it is.
"""

# Attributes of a learner, where it has none of that name.
OF_LEARNERS = {
    "predict": "predict_comparisons(pairs or triplets) judges comparisons, and transform(X) maps rows",
    "decision_function": "margins(pairs or triplets) is positive where predict_comparisons is +1",
    "get_metric": "metric_.distance is the function of two points",
    "parallel_fit": "partial_fit(X, y) learns from the chunks of X in order",
    "pair_score": "-pair_distance(pairs) is larger for nearer pairs",
    "score_pairs": "pair_distance(pairs) has the distances",
    "pair_distance": "metric_.similarity(x, x2) compares rows, since what is learned is a similarity",
    "calibrate_threshold": "metric_.calibrate_threshold(pairs) returns a metric with another threshold",
    "set_threshold": "dataclasses.replace(metric_, threshold=b) returns a metric with another threshold, b squared",
    "preprocessor_": "Pairs(X, left, right) and Triplets(X, ...) hold row numbers into X, so that none is needed there",
}

# Attributes of the package; metric-learn has most of them with the ending "_Supervised", too.
OF_PACKAGE = {
    "adapt_queries": "docs/guides/indexes.md wraps an embedding model in three lines",
    "AnswerBoard": "compare returns a Leaderboard, of answers as of rows",
    "ClickModel": "benchmarks/clicks.py in a checkout of the repository simulates people who click",
    "click_model": "benchmarks/clicks.py in a checkout of the repository simulates people who click",
    "Constraints": "Pairs.from_labels and Triplets.from_labels draw comparisons",
    "Impressions": "QueryAdapter.learn_one learns from one impression after another",
    "ITML_Supervised": "ITML learns from labels, too",
    "LSML_Supervised": "mahala.batch.LSML learns from labels, too",
    "MMC_Supervised": "MMC learns from labels, too",
    "RCA_Supervised": "RCA learns from labels, too",
    "FriedmanResult": "papers/ranks.py in a checkout of the repository has it",
    "feedback": "`pip install mahala-search`, and it is mahala_search",
    "friedman_holm": "papers/ranks.py in a checkout of the repository has it",
    "load_learner": "load(path) reads metrics, learners and adapters",
    "PairedGain": "`pip install mahala-search`, and it is mahala_search.quality.paired.PairedGain",
    "QueryAdapter": "`pip install mahala-search`, and it is mahala_search.QueryAdapter",
    "RankingQuality": "`pip install mahala-search`, and it is mahala_search.RankingQuality",
    "read_qrels": "`pip install mahala-search`, and it is mahala_search.read_qrels",
    "SCML_Supervised": "mahala.batch.SCML learns from labels, too",
    "SDML_Supervised": "mahala.batch.SDML learns from labels, too",
    "serve": "`pip install mahala-search`, and its client is mahala_search.Client",
    "simulate_clicks": "benchmarks/clicks.py in a checkout of the repository simulates people who click",
    "Simulation": "benchmarks/clicks.py in a checkout of the repository simulates people who click",
}

# Commands.
OF_COMMANDS = {
    "adapt": "`pip install mahala-search` brings it",
    "evaluate": "`pip install mahala-search` brings it",
    "explain": "`mahala show MODEL DATA ROW` explains a prediction, with a second ROW the distance of the two",
    "inspect": "`mahala show MODEL` describes a model file",
    "serve": "`pip install mahala-search` brings it",
    "simulate": "`python benchmarks/clicks.py my.npz` in a checkout of the repository simulates people who click",
}


def hint(names: dict[str, str], name: str) -> str:
    """Return what to append to the message of an AttributeError."""
    advice = names.get(name) or names.get(name.removesuffix("_Supervised"))
    return f"; {advice}" if advice else ""
