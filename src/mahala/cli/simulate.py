"""`mahala simulate`: see what QueryAdapter learns from simulated clicks."""

from dataclasses import asdict
from typing import Annotated

import typer

from mahala.cli.models import configured
from mahala.cli.options import Items, Qrels, Queries, Settings
from mahala.cli.output import Json, show, terminal
from mahala.cli.tables import read_collection


def simulate(
    queries: Queries,
    items: Items,
    qrels: Qrels,
    clicks: Annotated[
        str, typer.Option(help="perfect, navigational, informational, position, random or adversarial.")
    ] = "navigational",
    impressions: Annotated[int, typer.Option(help="Number of impressions.", min=1)] = 3000,
    k: Annotated[int, typer.Option("-k", "--k", help="Number of items shown, and cut-off of the nDCG.", min=1)] = 10,
    test_share: Annotated[float, typer.Option(help="Share of the queries that are never asked.")] = 0.3,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(help="Seed of the queries asked and of the clicks.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Simulate people who click, and measure what QueryAdapter learns from them.

    Each impression asks a query, shows the first k items and draws clicks from the judgments. The result compares what
    was shown with what inner products would have shown, and does so at the end on queries that were never asked.

    Examples:

        mahala simulate --queries queries.npy --items items.npy --qrels qrels.tsv

        mahala simulate --queries q.npy --items i.npy --qrels qrels.tsv --clicks adversarial --set cap=0.5
    """
    from mahala.feedback.query_adapter import QueryAdapter
    from mahala.feedback.simulation import simulate_clicks
    from mahala.support.display import task_bar

    adapter = configured(QueryAdapter(), settings or [], seed)
    with task_bar("Simulating", terminal(stderr=True).is_terminal) as update:
        result = simulate_clicks(
            adapter, *read_collection(queries, items, qrels)[:3], clicks=clicks, n_impressions=impressions, k=k,
            test_share=test_share, random_state=seed, progress=lambda done, total, text: update(done, text, total),
        )  # fmt: skip
    ends, gains = result.curve()
    facts = {
        "impressions": len(result.query),
        "clicks": result.n_clicks.sum(),
        f"ndcg@{k}": {"raw": result.raw.mean(), "shown": result.shown.mean(), "gain": result.gain},
        "curve": {"impressions": ends, "gain": gains},
        "held_out": len(result.held_out),
        "unseen": {name: asdict(gain) for name, gain in result.unseen.gains.items()},
    }
    show(facts, as_json, str(result))
