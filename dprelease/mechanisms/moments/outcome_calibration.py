"""Joint L2 sensitivity of a covariance and its association with outcomes, and the noise that every party adds to them.

Neighbouring relation: replace-one of all private cells of a patient, in all hospitals. x = (w, z): w the constant and all
public features, |w|^2 <= P2, the same on both sides; z the private features: p_n numbers in [-1, 1], p_b binaries, g one-hot
groups, so |x|^2 <= R^2 = P2 + p_n + p_b + g. Outcomes are (u, y), u public and |u|^2 <= T2, y private and |y|^2 <= S2: each
number, binary and group adds 1; T2 may be less, where the one party that has u states so. Released are

    w z^T and z z^T    noise s1, the squares of numbers s1/sqrt(v)
    w y^T, z y^T, z u^T    noise s2
    squares of the numbers in y    noise s2/sqrt(t)

Covariance. `moments.sensitivity` shows that its square moves by at most R^4 when v <= P2 + p_b + g + (p_n + 1)/2; the first of
its two cases, which holds whatever P2 is. The proof drops -c^2 there, c = <x, x'>.

Association. Its square moves by at most

    |x y^T - x'y'^T|^2 + T2 |z - z'|^2 <= S2 (|x|^2 + |x'|^2 + 2|c|) + T2 (|x|^2 + |x'|^2 - 2c)
                                       <= (S2 + T2) (|x|^2 + |x'|^2 + 2|c|).

Both. With A = R^4/s1^2 and Q = 2 R^2 (S2 + T2)/s2^2 the terms in c, -c^2/s1^2 + 2 (S2 + T2)|c|/s2^2, are at most Q^2/(4A);
the rest is convex in the squares of the numbers, and at a vertex with h of them at zero no larger than at none, as for the
covariance alone: A + Q. Hence mu^2 <= A + Q + Q^2/(4A), formula (1) of `calibration` with Delta_1 = R^2 and
Delta_2^2 = 4 R^2 (S2 + T2), where Q <= 2A; beyond, the sum A + 2Q. Without private features it is Delta_2^2/s2^2 alone, with
R^2 = P2 and without T2.

Squares of outcomes tell a learner how much of an outcome a fit explains; binary outcomes and levels need none. They cost nothing
as long as t <= R^2, or t <= 11/4 R^2 where every feature is public: the pair of rows that moves the association most has y' = -y,
whose squares are equal. Let one number of y be a and a', a^2 >= a'^2. Its part of the above, times s2^2, is

    |x|^2 a^2 + |x'|^2 a'^2 + 2|c| |a a'| + t (a^2 - a'^2)^2 <= 2 R^2 + 2|c|    once |x|^2 = |x'|^2 = R^2,

as it grows with a, and at a = 1 t (1 - a'^2)^2 is at most R^2 (1 - a'^2). It is linear in the squares of the features' numbers, so
those are at a vertex as before. With x = x' it is at most R^2 (2 - b)^2 (1 + t b^2/R^2), b = |a + a'|, which is at most its
value at b = 0, 4 R^2, if b (2 - b)^2 t/R^2 <= 4 - b: for t/R^2 up to (11 + 5 sqrt 5)/8.

Shares. As in `moments.calibration`: any m - t of the parties' shares have variance s^2 + 4.

Source: PRIMO (2023), Algorithms 1 and 2, with the sensitivities of docs/guarantees.md 11, 12, 16 and "Where the papers differ".
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.data.column import Variable
from dprelease.data.columns import public
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.mechanisms.moments.calibration import LARGEST_SPLIT, association, split
from dprelease.mechanisms.moments.entries import Layout, code
from dprelease.mechanisms.moments.sensitivity import Sensitivity


def outcome_sensitivity(layout: Layout, public_norm2: Fraction | None = None) -> Sensitivity:
    """The sensitivity of the released entries where outcomes are named; derived above.

    Args:
        layout: columns, and which of them are outcomes only.
        public_norm2: T2 as it is stated; None for what the bounds allow, which is also the most that counts.

    Raises:
        InvalidInput: no outcome is named, or every column is one.
    """
    of_outcome = layout.outcome[1:]
    features = [each for each, outcome in zip(layout.variables, of_outcome, strict=True) if not outcome]
    outcomes = [each for each, outcome in zip(layout.variables, of_outcome, strict=True) if outcome]
    if not features or not outcomes:
        raise InvalidInput("an association needs a feature and an outcome")
    private = [each for each in features if not each.public]
    norm2 = Fraction(1 + _norm2(features))
    outcome_norm2 = Fraction(_norm2([each for each in outcomes if not each.public]))
    if private:  # nothing else moves beside public outcomes
        most = Fraction(_norm2([each for each in outcomes if each.public]))
        outcome_norm2 += most if public_norm2 is None else min(public_norm2, most)
    numbers = sum(each.measured for each in private)
    squares = any(each.measured and not each.public for each in outcomes)
    return Sensitivity(
        squared=norm2**2 if private else Fraction(0),
        diagonal_weight=norm2 - numbers + Fraction(numbers + 1, 2),
        association=association(norm2, outcome_norm2),
        square_weight=norm2 * (1 if private else Fraction(11, 4)) * squares,
    )


def best_split(layout: Layout) -> Fraction:
    """q: how much of the budget the association gets, from public numbers; 1 where the covariance needs none."""
    if not outcome_sensitivity(layout).squared:
        return Fraction(1)
    outcomes = int(layout.outcome.sum())
    return min(LARGEST_SPLIT, split(len(layout.variables) - outcomes, outcomes))


def _norm2(variables: list[Variable]) -> int:
    """Largest squared norm of their values: 1 for every declared column."""
    return len({each.column for each in variables})


def check_public_norm(codes: npt.NDArray[np.int32], layout: Layout, norm2: Fraction, grid_bits: int) -> None:
    """Check that no patient's public outcomes are longer than was stated: their owner does, and whoever verifies a release.

    Args:
        codes: (n, d) codes of all public columns of the layout.
        layout: columns, and which of them are outcomes only.
        norm2: T2.
        grid_bits: b.

    Raises:
        IntegrityError: some are. The message has their norm, which is public.
    """
    outcomes = public_outcomes(codes, layout)
    longest = int(np.einsum("ij,ij->i", outcomes, outcomes, dtype=np.int64).max())
    if longest > norm2 * (1 << (2 * grid_bits)):
        raise IntegrityError(
            f"some patient's public outcomes have squared norm {longest / 4**grid_bits:.6g}, more than the {float(norm2):.6g} that "
            "the noise is for; state at least that"
        )


def public_outcomes(codes: npt.NDArray[np.int32], layout: Layout) -> npt.NDArray[np.int32]:
    """(n, a) variables of the public outcomes, on the grid.

    Args:
        codes: (n, d) codes of all public columns of the layout.
        layout: columns, and which of them are outcomes only.
    """
    return code(codes, public(layout.columns))[:, layout.outcome[layout.public][1:]]
