"""Local randomizers, one file each, with their law, estimator, variance, interval and privacy claim.

mechanism = choose(Categories(4), epsilon=2)          # or KaryRandomizedResponse.calibrate(2, Categories(4))
report = mechanism.randomize(3, SystemRandomness())   # on the device
tally = mechanism.tally(reports)                      # at the aggregator
mechanism.estimate(tally), mechanism.interval(tally)
"""

from hubbub.mechanisms._grid_mean import GridMean
from hubbub.mechanisms._registry import fitting, mechanism, register, registered
from hubbub.mechanisms._select import REPORT_BYTES, Candidate, Choice, choose, explain, select
from hubbub.mechanisms.amplification_data import Amplification, Atom, Pair, Table
from hubbub.mechanisms.base import Face, Mechanism
from hubbub.mechanisms.domains import Bins, Bounds, Categories, Domain
from hubbub.mechanisms.duchi import DuchiMean
from hubbub.mechanisms.hadamard import HadamardResponse
from hubbub.mechanisms.hybrid import HybridMean
from hubbub.mechanisms.krr import KaryRandomizedResponse
from hubbub.mechanisms.ladder import Ladder
from hubbub.mechanisms.laplace import DiscreteLaplaceMean
from hubbub.mechanisms.linear_hash import LinearHash
from hubbub.mechanisms.matrix import MatrixResponse
from hubbub.mechanisms.olh import OptimizedLocalHashing
from hubbub.mechanisms.oue import OptimizedUnaryEncoding
from hubbub.mechanisms.piecewise import PiecewiseMean
from hubbub.mechanisms.rr import BinaryRandomizedResponse
from hubbub.mechanisms.subset import SubsetSelection
from hubbub.mechanisms.sue import SymmetricUnaryEncoding
from hubbub.mechanisms.table import TableMean
from hubbub.mechanisms.tallies_and_estimates import Estimate, Interval, Tally
from hubbub.mechanisms.tree import Tree

__all__ = [
    "REPORT_BYTES",
    "Amplification",
    "Atom",
    "BinaryRandomizedResponse",
    "Bins",
    "Bounds",
    "Candidate",
    "Categories",
    "Choice",
    "DiscreteLaplaceMean",
    "Domain",
    "DuchiMean",
    "Estimate",
    "Face",
    "GridMean",
    "HadamardResponse",
    "HybridMean",
    "Interval",
    "KaryRandomizedResponse",
    "Ladder",
    "LinearHash",
    "MatrixResponse",
    "Mechanism",
    "OptimizedLocalHashing",
    "OptimizedUnaryEncoding",
    "Pair",
    "PiecewiseMean",
    "SubsetSelection",
    "SymmetricUnaryEncoding",
    "Table",
    "TableMean",
    "Tally",
    "Tree",
    "choose",
    "explain",
    "fitting",
    "mechanism",
    "register",
    "registered",
    "select",
]
