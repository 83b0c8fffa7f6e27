"""How much the statistical tests see, in three numbers; `test_noise.py` checks that they do what is said here."""

P_THRESHOLD = 1e-12
"""A correct mechanism fails one test with this probability. Nothing is ever run again, so it has to be this small: thirty
tests, run a hundred times a day for a century, fail by chance with a probability of 1e-4."""

DETECTABLE = 0.1
"""Relative error of a noise scale, in either direction, that the tests reject: it is missed with less than P_THRESHOLD."""

SAMPLE = 20_000
"""Draws for each test of the noise source. The sum of N squared standard normals has mean N and variance 2N. To accept the
right scale and reject s = 1 +- e, both but for z standard errors, N |1 - s^2| >= z sqrt(2N) (1 + s^2) is needed: with z = 7.2
(P_THRESHOLD, two-sided) and e = DETECTABLE, N = 11 600. Counts of integers at small scales, with their tails pooled, lose
some of that."""

AUDIT_RUNS = 20_000
"""Releases of each of two neighbours for one seeded audit. Half of them choose the attack, half (N) measure it with
standard error sqrt(2/N + mu^2/(4N)), which at mu = 2 is 0.9 % of mu: an error of DETECTABLE is eleven standard errors away."""

SECURE_RUNS = 8_000
"""The same for the production source, which takes a fresh key for each of their small draws: 1.4 % of mu."""

MOMENTS_RUNS = 1_000
"""Releases of joint moments for the tests of their noise: their 12 squares each make 12 000 draws of the rarest kind, above the
11 600 that `SAMPLE` asks for."""

ROWS_RUNS = 700
"""Blocks of six numbers or more of each of two neighbours for one seeded audit at mu near 8, where the attacker knows both tables:
the standard error sqrt(2/mu^2 + 1/12) / sqrt(N) is 1.3 % of mu, so that an error of DETECTABLE is seven of them away. An audit that
allows three misses it with a probability of 1e-5, in either direction."""

SECURE_ROWS_RUNS = 3_000
"""The same for the production source: 1.4 % of mu as with `SECURE_RUNS` at mu = 2."""

JOINT_RUNS = 2_000
"""Joint computations on each of two neighbours for one audit at mu near 8, where the standard error is sqrt(2/mu^2 + 1/4)
/ sqrt(N) = 1.7 % of mu: 5 % is three of them."""

CONTROL_RUNS = 800
"""The same where 2.7 % will do: errors of 13 % and more are four standard errors away."""

KNOWN_RUNS = 80
"""Releases of some 20 numbers of each of two neighbours at mu near 8, where the attacker knows both tables: the standard error
sqrt(2/mu^2 + 1/40) / sqrt(N) is 2.7 % of mu, and an error of 13 % is more than four of them away."""

TWICE_RUNS = 400
"""As `CONTROL_RUNS` where mu^2 is twice what one release or one curious hospital is worth: at mu near 11 the standard error is
3.6 %, and the mu of one alone is eight standard errors away."""
