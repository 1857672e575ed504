# The public names of this package, loaded on first use.
from mahala.batch.anmm import ANMM as ANMM
from mahala.batch.boost_metric import BoostMetric as BoostMetric
from mahala.batch.covariance import Covariance as Covariance
from mahala.batch.dmlmj import DMLMJ as DMLMJ
from mahala.batch.gml import GML as GML
from mahala.batch.gmml import GMML as GMML
from mahala.batch.itml import ITML as ITML
from mahala.batch.kissme import KISSME as KISSME
from mahala.batch.lda import LDA as LDA
from mahala.batch.lfda import LFDA as LFDA
from mahala.batch.lmnn import LMNN as LMNN
from mahala.batch.lsml import LSML as LSML
from mahala.batch.mcml import MCML as MCML
from mahala.batch.mdm import MDM as MDM
from mahala.batch.mlkr import MLKR as MLKR
from mahala.batch.mmc import MMC as MMC
from mahala.batch.nca import NCA as NCA
from mahala.batch.ncmml import NCMML as NCMML
from mahala.batch.pca import PCA as PCA
from mahala.batch.psd_boost import PSDBoost as PSDBoost
from mahala.batch.rca import RCA as RCA
from mahala.batch.relief import Relief as Relief
from mahala.batch.run import Iteration as Iteration
from mahala.batch.scml import SCML as SCML
from mahala.batch.sdml import SDML as SDML
from mahala.batch.simba import Simba as Simba
from mahala.batch.xqda import XQDA as XQDA

__all__: list[str]
