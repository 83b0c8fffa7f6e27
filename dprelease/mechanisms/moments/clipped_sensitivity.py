"""L2 sensitivity of the Gram matrix of clipped, weighted rows when one patient's row is replaced, in exact integers.

Neighbouring relation: replace-one of all private cells of a patient, in all hospitals. x = (w, z) as in `sensitivity`, with
weights: |w|^2 <= P2, a binary is +-w_b, one indicator of a group is w_g and the others 0, and party p's numbers have norm at most
r_p, each at most its weight. A party without a norm has r_p^2 = sum w_c^2. With A = P2 + sum w_b^2 + sum w_g^2, R^2 = sum r_p^2,
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
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.clipping import Clipping
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.sensitivity import Sensitivity

EXTRA = Fraction(1, 10)
"""By what part Delta^2 is allowed to grow for less noise in the squares."""

_SIXTEENTHS = 16


@dataclass(frozen=True)
class Rows:
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
    def of(cls, layout: Layout, clipping: Clipping) -> Rows:
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
    squared = Rows.of(layout, clipping).squared_sensitivity(weight)
    return Sensitivity(squared / (1 << (4 * grid_bits)), weight)
