# The public names of this package, loaded on first use.
from mahala.online.aroma import AROMA as AROMA
from mahala.online.history import History as History
from mahala.online.lego import LEGO as LEGO
from mahala.online.oasis import OASIS as OASIS
from mahala.online.ogd import OGD as OGD
from mahala.online.passive_aggressive import PA as PA
from mahala.online.pola import POLA as POLA
from mahala.online.rdml import RDML as RDML
from mahala.online.sors import SORS as SORS
from mahala.online.sors import AdaSORS as AdaSORS

__all__: list[str]
