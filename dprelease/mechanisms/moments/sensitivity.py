"""L2 sensitivity of a Gram matrix when one patient's row is replaced, in exact rationals.

Neighbouring relation: replace-one of all private cells of a patient, in all hospitals. x = (w, z) with w the constant and
all public columns, |w|^2 <= P2, the same on both sides and w w^T not released with noise, and z private: p_n numbers in
[-1, 1], p_b binaries +-1, g one-hot groups coded 0/1. With s = |z|^2 restricted to the numbers, u = their squares, and
A = P2 + p_b + g, the part of |x|^2 that every row has or reaches,

    D^2 = 1/2 (A + s)^2 + 1/2 (A + s')^2 - <x, x'>^2 + (v - 1/2) sum_c (u_c - u'_c)^2 - (groups in which x, x' differ)

is the squared distance of the released entries of x x^T and x' x'^T when every entry above the diagonal has weight 1, the
square of a number weight v >= 1, and entries within a group are derived. The last term counts the derived diagonals that
1/2 |x x^T - x' x'^T|^2 contains and the release does not. D^2 grows with |w|^2, by |z - z'|^2, so a row's |w|^2 is taken as P2.

* P2 <= gamma = p_n + p_b. Dropping the two negative terms leaves a function that is convex in (u, u') on a box; at a vertex
  with j coordinates (1, 0), k coordinates (0, 1) and, which is best, all others (1, 1), it is
  (A + p_n)^2 + sum over h in {j, k} of h (h/2 + v - 1/2 - A - p_n). As h <= p_n no bracket is positive when
  v <= A + (p_n + 1)/2. Hence Delta = A + p_n, at which the squares of numbers may take noise of variance smaller by v:
  for unit boxes alone v = (p + 3)/2.
* P2 > gamma: <x, x'> >= P2 - gamma + (groups that agree) > 0, and with v = 1 the distance is largest at |x|^2 = A + p_n on both
  sides with every group different (a groups that agree would add a - a^2 - 2 a (P2 - gamma) <= 0):
  Delta^2 = (P2 + beta)^2 - (P2 - gamma)^2 - g, where beta = p_n + p_b + g.

In words: docs/guarantees.md 11 and 15.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from dprelease.data.column import Variable
from dprelease.errors import InvalidInput


@dataclass(frozen=True)
class Sensitivity:
    """The sensitivity that noise is calibrated to, in scaled units (a bound of a numeric column is 1).

    Attributes:
        squared: Delta^2 under replace-one of one row.
        diagonal_weight: v; squares of numbers may take noise of variance smaller by v at this Delta.
    """

    squared: Fraction
    diagonal_weight: Fraction

    def on_grid(self, grid_bits: int, rows_per_subject: int) -> Fraction:
        """(q Delta_int)^2 in squared units of the Gram matrix's integers: one patient changes up to q rows."""
        return self.squared * (rows_per_subject**2 << (4 * grid_bits))


def sensitivity(variables: tuple[Variable, ...], public_norm2: Fraction | None = None) -> Sensitivity:
    """The sensitivity of the released entries; derived above.

    Args:
        variables: all parties' coded columns.
        public_norm2: P2, the largest squared norm of the constant (1) and the public columns of a row; unless given, what
            their bounds allow: 1 more for each public number, binary and group.

    Raises:
        InvalidInput: no private variable, or P2 is below that of the constant alone.
    """
    numbers, binaries, groups = _kinds(variable for variable in variables if not variable.public)
    if public_norm2 is None:
        public_norm2 = Fraction(1 + sum(_kinds(variable for variable in variables if variable.public)))
    if not numbers + binaries + groups or public_norm2 < 1:
        raise InvalidInput("joint moments need a private column, and the constant column's squared norm is 1")
    beta, gamma = numbers + binaries + groups, numbers + binaries
    if public_norm2 <= gamma:
        weight = public_norm2 + groups + binaries + Fraction(numbers + 1, 2)
        return Sensitivity((public_norm2 + beta) ** 2, weight)
    return Sensitivity((public_norm2 + beta) ** 2 - (public_norm2 - gamma) ** 2 - groups, Fraction(1))


def _kinds(variables: Iterable[Variable]) -> tuple[int, int, int]:
    """How many numbers, binaries and groups there are."""
    found = tuple(variables)
    groups = {variable.column for variable in found if variable.level}
    numbers = sum(variable.measured for variable in found)
    return numbers, sum(not variable.level for variable in found) - numbers, len(groups)
