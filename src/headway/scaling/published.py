"""The published laws, each with the place that its constants are from.

Kaplan 2020 is arXiv 2001.08361, Hoffmann 2022 (Chinchilla) 2203.15556, Besiroglu 2024 2404.10102,
Muennighoff 2023 2305.16264, Sardana 2023 2401.00448.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

from headway.base.errors import unknown
from headway.scaling.laws import (
    PF_DAY,
    TRAINING,
    Allocation,
    KaplanLaw,
    Law,
    ParametricLaw,
    PowerLaw,
    Range,
)
from headway.scaling.repeated import RepeatedLaw

# Kaplan, section 3. The compute is that of the smallest size on the fewest tokens, and of the
# largest for 2.5e5 steps of 2^19 tokens (section 2.2).
_KAPLAN = Range(params=(768, 1.5e9), tokens=(2.2e7, 2.3e10))
_KAPLAN_FLOP = (TRAINING * 768 * 2.2e7, TRAINING * 1.5e9 * 2.5e5 * 2**19)
# Hoffmann, abstract; the compute is that of the IsoFLOP profiles (section 3.2).
_CHINCHILLA = Range(params=(7e7, 1.6e10), tokens=(5e9, 5e11), flop=(6e18, 3e21))

KAPLAN_N = PowerLaw(
    name="kaplan-n",
    source="Kaplan 2020, equation 1.1 and table 5: enough data, trained to convergence",
    measured=Range(params=_KAPLAN.params),
    counted="parameters without embeddings",
    x="params",
    scale=8.8e13,
    alpha=0.076,
)
KAPLAN_D = PowerLaw(
    name="kaplan-d",
    source="Kaplan 2020, equation 1.2 and table 5: large enough, stopped early",
    measured=Range(tokens=_KAPLAN.tokens),
    counted="parameters without embeddings",
    x="tokens",
    scale=5.4e13,
    alpha=0.095,
)
KAPLAN_C = PowerLaw(
    name="kaplan-c",
    source="Kaplan 2020, equation 1.3 and table 5 (3.1e8 PF-days): best size, batch far below the "
    "critical one",
    measured=Range(flop=_KAPLAN_FLOP),
    counted="parameters without embeddings",
    x="flop",
    scale=3.1e8 * PF_DAY,
    alpha=0.050,
)
KAPLAN = KaplanLaw(
    name="kaplan",
    # Table 6 has N = 1.3e9·C_min^0.73 in PF-days. C_min is what a tiny batch would need; at the
    # critical batch a training takes twice as much (equation 5.5), which gives table 6's tokens.
    source="Kaplan 2020, equation 1.5 and table 2; the size for a compute from table 6, with "
    "C = 2·C_min",
    measured=replace(_KAPLAN, flop=_KAPLAN_FLOP),
    counted="parameters without embeddings",
    N_c=6.4e13,
    D_c=1.8e13,
    alpha_N=0.076,
    alpha_D=0.103,
    k=1.3e9 / (2 * PF_DAY) ** 0.73,
    a=0.73,
)
CHINCHILLA = ParametricLaw(
    name="chinchilla",
    source="Hoffmann 2022, approach 3, equation 10, as it is printed, rounded",
    measured=_CHINCHILLA,
    E=1.69,
    A=406.4,
    B=410.7,
    alpha=0.34,
    beta=0.28,
)
CHINCHILLA_EXACT = ParametricLaw(
    name="chinchilla-exact",
    source="Hoffmann 2022, approach 3, from the TeX source of the paper (by way of Besiroglu 2024)",
    measured=_CHINCHILLA,
    E=math.exp(0.5267228),
    A=math.exp(6.0073404),
    B=math.exp(6.0179186),
    alpha=0.33917084,
    beta=0.2849083,
)
BESIROGLU = ParametricLaw(
    name="besiroglu",
    source="Besiroglu 2024, section 3: Hoffmann's approach 3 fitted again, to the runs of figure 4",
    # The 240 runs of their data that the fit uses.
    measured=Range(params=(5.7e7, 1.62e10), tokens=(8.2e8, 3.18e11), flop=(1.4e18, 1.3e22)),
    E=1.8172,
    A=482.01,
    B=2085.43,
    alpha=0.3478,
    beta=0.3658,
)
SARDANA = ParametricLaw(
    name="sardana",
    source="Sardana 2023, section 2: Hoffmann's approach 3 to three digits, for the optimum with "
    "serving",
    measured=_CHINCHILLA,
    E=1.69,
    A=406.4,
    B=410.7,
    alpha=0.336,
    beta=0.283,
)
MUENNIGHOFF = RepeatedLaw(
    name="muennighoff",
    source="Muennighoff 2023, section 3.1, fitted on C4; the digits are those of its repository",
    measured=Range(params=(7e6, 9e9), tokens=(1e8, 9e11)),
    E=math.exp(0.6254804),
    A=math.exp(6.255414),
    B=math.exp(7.3049974),
    alpha=0.3526596,
    beta=0.3526596,
    R_D=15.387756,
    R_N=5.309743,
)


@dataclass(frozen=True)
class Row:
    """A size of Hoffmann's tables 3 and A3: the tokens that approaches 1, 2 and 3 give it."""

    params: float
    tokens: tuple[float, float, float]


# Table 3 (approach 1) and table A3 (approaches 2 and 3). The FLOPs printed there are 6·N·D of
# these within 5 %, but for 1.26e24 of approach 3 at 175e9, where 1.26e25 must be meant.
CHINCHILLA_TABLE = (
    Row(4e8, (8.0e9, 7.7e9, 9.2e9)),
    Row(1e9, (20.2e9, 20.0e9, 27.1e9)),
    Row(10e9, (205.1e9, 219.5e9, 410.1e9)),
    Row(67e9, (1.5e12, 1.7e12, 4.1e12)),
    Row(175e9, (3.7e12, 4.3e12, 12.0e12)),
    Row(280e9, (5.9e12, 7.1e12, 20.1e12)),
    Row(520e9, (11.0e12, 13.4e12, 43.5e12)),
    Row(1e12, (21.2e12, 26.5e12, 94.1e12)),
    Row(10e12, (216.2e12, 292.0e12, 1425.5e12)),
)


def _from_table(approach: int) -> Allocation:
    """An approach of which only exponents are printed: the line through its column, in logs."""
    points = [
        (math.log(TRAINING * row.params * row.tokens[approach - 1]), math.log(row.params))
        for row in CHINCHILLA_TABLE
    ]
    a, log_k = statistics.linear_regression(*zip(*points, strict=True))
    means = "lowest loss over training curves" if approach == 1 else "IsoFLOP profiles"
    table = "3" if approach == 1 else "A3"
    return Allocation(
        name=f"chinchilla-{approach}",
        source=f"Hoffmann 2022, approach {approach} ({means}): the line through table {table}",
        measured=_CHINCHILLA,
        k=math.exp(log_k),
        a=a,
    )


CHINCHILLA_1, CHINCHILLA_2 = _from_table(1), _from_table(2)

LAWS: dict[str, Law] = {
    law.name: law
    for law in (
        KAPLAN_N,
        KAPLAN_D,
        KAPLAN_C,
        KAPLAN,
        CHINCHILLA_1,
        CHINCHILLA_2,
        CHINCHILLA,
        CHINCHILLA_EXACT,
        BESIROGLU,
        SARDANA,
        MUENNIGHOFF,
    )
}


def find_law(name: str) -> Law:
    """A published law by its name. Raises UserError naming the nearest if there is none."""
    if name not in LAWS:
        raise unknown("law", name, LAWS)
    return LAWS[name]
