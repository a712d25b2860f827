"""How well labels are told: the metrics of GLUE, in percent, correlations too."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Classes = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


def class_scores(truth: Classes, told: Classes, n_classes: int) -> dict[str, float]:
    """Accuracy, F1 and Matthews correlation of classes told for N texts, as scikit-learn has them.

    With two classes F1 is that of the second, with more the mean over all. A score without
    anything to divide by is 0.
    """
    table = np.zeros((n_classes, n_classes))  # [true, told]
    np.add.at(table, (truth, told), 1.0)
    right, there, said = np.diag(table), table.sum(axis=1), table.sum(axis=0)
    f1 = np.divide(2 * right, there + said, out=np.zeros(n_classes), where=there + said > 0)
    n = table.sum()
    shared = right.sum() * n - there @ said
    spread = (n**2 - said @ said) * (n**2 - there @ there)
    return {
        "accuracy": 100.0 * float(right.sum() / n),
        "f1": 100.0 * float(f1[1] if n_classes == 2 else f1.mean()),
        "matthews": 100.0 * float(shared / math.sqrt(spread)) if spread > 0 else 0.0,
    }


def number_scores(truth: Numbers, told: Numbers) -> dict[str, float]:
    """Pearson's and Spearman's correlation of numbers told for N texts, as scipy has them.

    Not a number where all of one side are equal.
    """
    return {
        "pearson": 100.0 * _pearson(truth, told),
        "spearman": 100.0 * _pearson(_ranks(truth), _ranks(told)),
    }


def _pearson(one: Numbers, other: Numbers) -> float:
    if np.ptp(one) == 0 or np.ptp(other) == 0:  # what is left of them is rounding
        return math.nan
    one, other = one - one.mean(), other - other.mean()
    spread = math.sqrt((one @ one) * (other @ other))
    return float(one @ other) / spread if spread > 0 else math.nan


def _ranks(numbers: Numbers) -> Numbers:
    """The place of each in order; equal ones have the mean of their places."""
    _, which, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[which]
