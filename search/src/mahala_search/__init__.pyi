# The public names of this package, loaded on first use.
from mahala_search.sidecar.client import Client as Client
from mahala_search.quality.judgments import Judgments as Judgments
from mahala_search.quality.qrels import read_qrels as read_qrels
from mahala_search.adapter.query_adapter import QueryAdapter as QueryAdapter
from mahala_search.quality.ranking_quality import RankingQuality as RankingQuality
from mahala_search.quality.ranking_quality import evaluate_ranking as evaluate_ranking
from mahala_search.quality.gains import CrossValidation as CrossValidation

__all__: list[str]
