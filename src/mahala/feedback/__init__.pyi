# The public names of this package, loaded on first use.
from mahala.feedback.click_models import ClickModel as ClickModel
from mahala.feedback.click_models import click_model as click_model
from mahala.feedback.impressions import Impressions as Impressions
from mahala.feedback.judgments import Judgments as Judgments
from mahala.feedback.qrels import read_qrels as read_qrels
from mahala.feedback.query_adapter import QueryAdapter as QueryAdapter
from mahala.feedback.ranking_quality import RankingQuality as RankingQuality
from mahala.feedback.ranking_quality import evaluate_ranking as evaluate_ranking
from mahala.feedback.simulation import Simulation as Simulation
from mahala.feedback.simulation import simulate_clicks as simulate_clicks
from mahala.feedback.trust.gains import CrossValidation as CrossValidation
from mahala.feedback.wrappers import adapt_queries as adapt_queries

__all__: list[str]
