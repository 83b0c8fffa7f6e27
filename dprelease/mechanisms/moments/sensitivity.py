"""L2 sensitivity of a Gram matrix when one patient's row is replaced: in public bounds, of clipped rows, and with named outcomes.

Neighbouring relation of all three: replace-one of all private cells of a patient, in all hospitals.

**Public bounds.** x = (w, z) with w the constant and all public columns, |w|^2 <= P2, the same on both sides and w w^T not
released with noise, and z private: p_n numbers in [-1, 1], p_b binaries +-1, g one-hot groups coded 0/1. With s = |z|^2
restricted to the numbers, u = their squares, and A = P2 + p_b + g, the part of |x|^2 that every row has or reaches,

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

**Clipped, weighted rows**, in exact integers. x = (w, z) as above, with weights: |w|^2 <= P2, a binary is +-w_b, one indicator
of a group is w_g and the others 0, and party p's numbers have norm at most r_p, each at most its weight. A party without a norm
has r_p^2 = sum w_c^2. With A = P2 + sum w_b^2 + sum w_g^2, R^2 = sum r_p^2,
s the squared norm of all numbers and u_c their squares, the squared distance of two rows' entries is, for weight v >= 1/2 on
the squares of numbers,

    D^2 = 1/2 (A + s)^2 + 1/2 (A + s')^2 - <x, x'>^2 + (v - 1/2) sum_c (u_c - u'_c)^2 - (sum of w_g^4, groups that differ)

as |x|^2 = A + s; both rows have one indicator of each group, so a group that differs moves two diagonals that are not released.

    D^2 <= (A + R^2)^2 + (2v - 1) sum_p min(h_p^2, r_p^2) r_p^2 - [P2 > gamma] ((P2 - gamma)^2 + sum_g w_g^4)          (1)

with h_p the largest weight of party p's numbers and gamma = sum w_b^2 + R^2.

* s, s' <= R^2 give the first term. Within party p, |u_c - u'_c| <= m = min(h_p^2, r_p^2), and sum |u_c - u'_c| <= s_p + s'_p <=
  2 r_p^2, so sum (u_c - u'_c)^2 <= 2 m r_p^2: the second.
* Parties without a norm may be left out of the sum while v <= 1/2 + (A + R^2/2)/w^2, w the largest weight of their numbers:
  x = R^2 - s has (A + R^2 - x)^2/2 <= (A + R^2)^2/2 - x (A + R^2/2), and (u - u')^2 <= w^2 times what the two lack of w^2.
  The sum over c of (v - 1/2)(u_c - u'_c)^2 is then paid for by the rows' own shortfall.
* P2 > gamma: <x, x'> >= P2 - gamma + (w_g^2 of groups that agree) > 0, and with a the sum over agreeing groups the change against
  none agreeing is sum w_g^4 - a^2 - 2 a (P2 - gamma) <= 0. Here every party with numbers counts in the sum.

v = 1/2 makes the first term exact. A larger v makes all noise larger by the second and squares less noisy.

**A covariance and its association with outcomes**, jointly. x = (w, z): w the constant and all public features, |w|^2 <= P2,
the same on both sides; z the private features: p_n numbers in [-1, 1], p_b binaries, g one-hot groups, so |x|^2 <= R^2 = P2 +
p_n + p_b + g. Outcomes are (u, y), u public and |u|^2 <= T2, y private and |y|^2 <= S2: each number, binary and group adds 1;
T2 may be less, where the one party that has u states so. Released are

    w z^T and z z^T    noise s1, the squares of numbers s1/sqrt(v)
    w y^T, z y^T, z u^T    noise s2
    squares of the numbers in y    noise s2/sqrt(t)

Covariance. The above shows that its square moves by at most R^4 when v <= P2 + p_b + g + (p_n + 1)/2; the first of
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

Source: PRIMO (2023), Algorithms 1 and 2, with the sensitivities of docs/guarantees.md 11, 12, 16 and "Where the papers differ".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from dprelease.data.column import Variable
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.clipping import Clipping
from dprelease.mechanisms.moments.entries import EntryKind, Layout

EXTRA = Fraction(1, 10)
"""By what part Delta^2 is allowed to grow for less noise in the squares."""

_SIXTEENTHS = 16


@dataclass(frozen=True)
class Sensitivity:
    """The sensitivity that noise is calibrated to, in scaled units (a bound of a numeric column is 1).

    Attributes:
        squared: Delta^2 under replace-one of one row; of the features' covariance alone where outcomes are named
            (`outcome_sensitivity`), and 0 where none of it is noisy.
        diagonal_weight: v; squares of numbers may take noise of variance smaller by v at this Delta.
        association: Delta_2^2 of the products with named outcomes; 0 without.
        square_weight: t, the same as v for the squares of outcomes; 0 where no outcome is a private number.
    """

    squared: Fraction
    diagonal_weight: Fraction
    association: Fraction = Fraction(0)
    square_weight: Fraction = Fraction(0)

    def on_grid(self, grid_bits: int, rows_per_subject: int) -> dict[EntryKind, Fraction]:
        """Squared sensitivity for the noise of each kind of entry, squared units of the Gram matrix's integers; 0 where none is.

        Args:
            grid_bits: b.
            rows_per_subject: q, rows of one patient, all of which change.
        """
        unit = rows_per_subject**2 << (4 * grid_bits)
        first, second = unit * self.squared, unit * self.association
        outcome_square = second / self.square_weight if self.square_weight else Fraction(0)
        return dict(zip(EntryKind, (first, first / self.diagonal_weight, second, outcome_square), strict=True))


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


@dataclass(frozen=True)
class RowBounds:
    """Bounds of a patient's coded row, in squares of the codes' unit.

    Attributes:
        public: P2, of the constant and the public columns together.
        binaries: w_b^2 of each binary.
        groups: w_g^2 of each group.
        clipped: (h_p^2, r_p^2) of each party with a norm.
        boxes: w_c^2 of each number of the others.
    """

    public: int
    binaries: tuple[int, ...]
    groups: tuple[int, ...]
    clipped: tuple[tuple[int, int], ...]
    boxes: tuple[int, ...]

    @classmethod
    def of(cls, layout: Layout, clipping: Clipping) -> RowBounds:
        """The bounds of a layout's private variables; its public ones count in `public` by their weights."""
        squares = [weight**2 for weight in clipping.weights]
        public = {each.column for each in layout.variables if each.public}
        private = [each for each in layout.variables if not each.public]
        groups = dict.fromkeys(each.column for each in private if each.level)
        place = {each.name: each.column for each in private if each.measured}
        within = {name for norm in clipping.norms for name in norm.columns}
        return cls(
            public=clipping.constant**2 + sum(squares[column] for column in public),
            binaries=tuple(squares[each.column] for each in private if not each.measured and not each.level),
            groups=tuple(squares[column] for column in groups),
            clipped=tuple(
                (max(squares[place[name]] for name in norm.columns), norm.squared) for norm in clipping.norms
            ),
            boxes=tuple(squares[column] for name, column in place.items() if name not in within),
        )

    @property
    def fixed(self) -> int:
        """A, the part of a row's squared norm that every row reaches."""
        return self.public + sum(self.binaries) + sum(self.groups)

    @property
    def numbers(self) -> int:
        """R^2."""
        return sum(radius for _, radius in self.clipped) + sum(self.boxes)

    @property
    def excess(self) -> int:
        """P2 - gamma."""
        return self.public - sum(self.binaries) - self.numbers

    @property
    def _squares(self) -> int:
        """The sum of (1) over the parties that count in it."""
        found = sum(min(largest, radius) * radius for largest, radius in self.clipped)
        return found + (max(self.boxes, default=0) * sum(self.boxes) if self.excess > 0 else 0)

    @property
    def largest_weight(self) -> Fraction | None:
        """The largest v that numbers without a norm allow; None where there is no limit."""
        if self.excess > 0 or not self.boxes:
            return None
        return Fraction(1, 2) + (self.fixed + Fraction(self.numbers, 2)) / max(self.boxes)

    def best_weight(self) -> Fraction:
        """v by the public rule: Delta^2 larger by `EXTRA`, rounded down to sixteenths; the limit where nothing is clipped."""
        limit = self.largest_weight
        if not self.numbers:
            return Fraction(1)
        if not self._squares and limit is not None:
            return limit
        wanted = Fraction(1, 2) + EXTRA * (self.fixed + self.numbers) ** 2 / (2 * self._squares)
        least = wanted if limit is None else min(wanted, limit)
        return max(Fraction(1, 2), Fraction(int(least * _SIXTEENTHS), _SIXTEENTHS))

    def squared_sensitivity(self, square_weight: Fraction) -> Fraction:
        """Delta^2 of (1), fourth powers of the codes' unit.

        Args:
            square_weight: v.

        Raises:
            InvalidInput: v is below 1/2, or above what numbers without a norm allow.
        """
        limit = self.largest_weight
        if square_weight < Fraction(1, 2) or (limit is not None and square_weight > limit):
            most = "" if limit is None else f" and at most {limit}"
            raise InvalidInput(f"squares of these numbers have a weight of at least 1/2{most}, not {square_weight}")
        found = (self.fixed + self.numbers) ** 2 + (2 * square_weight - 1) * self._squares
        if self.excess > 0:
            found -= self.excess**2 + sum(square**2 for square in self.groups)
        return Fraction(found)


def clipped_sensitivity(layout: Layout, clipping: Clipping, grid_bits: int) -> Sensitivity:
    """The sensitivity of the released entries of clipped rows; derived above.

    Args:
        layout: no column of it an outcome only.
        clipping: of the spec.
        grid_bits: b.

    Raises:
        InvalidInput: the weight of squares is not possible.
    """
    weight = Fraction(clipping.square_weight)
    squared = RowBounds.of(layout, clipping).squared_sensitivity(weight)
    return Sensitivity(squared / (1 << (4 * grid_bits)), weight)


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
        association=association_bound(norm2, outcome_norm2),
        square_weight=norm2 * (1 if private else Fraction(11, 4)) * squares,
    )


def _norm2(variables: list[Variable]) -> int:
    """Largest squared norm of their values: 1 for every declared column."""
    return len({each.column for each in variables})


def association_bound(radius2: Fraction, outcome2: Fraction) -> Fraction:
    """Delta_2^2 = 4 R^2 S^2 of X^T Y, the same for full, feature and label privacy.

    Args:
        radius2: R^2; with X public, max |x_i|^2 over its rows.
        outcome2: S^2; with Y public, max |y_i|^2 over its rows.
    """
    return 4 * radius2 * outcome2
