# Population least squares from a noisy Gram matrix, with errors of sampling and of noise: docs/methods.md, and in Python
# dprelease.estimators.intervals.of_moments, whose formulas have the same names here. One outcome at a time.

SINGULAR <- 1e-12
LIMIT <- 0.5 # noise ratio from which on nothing is said about coefficients

noise_of <- function(moments, z) {
  between <- (moments$noise_sd[z, z, drop = FALSE] / moments$rows)^2
  repeated <- ifelse(moments$level[z], (moments$noise_sd[1, z] / moments$rows)^2, 0)
  diag(between)[moments$level[z]] <- 0
  list(between = between, repeated = repeated)
}

# E[N K N] for a symmetric K; the constant comes first.
second_moment <- function(noise, inner) {
  own <- diag(inner)
  diagonal <- as.vector(noise$between %*% own) + noise$repeated * own + 2 * noise$repeated * inner[1, ]
  found <- noise$between * inner
  found[1, ] <- found[1, ] + noise$repeated * own
  found[, 1] <- found[, 1] + noise$repeated * own
  diag(found) <- diagonal
  found
}

# E[N h h^T N] p for every column h of lifts and p of paths.
turned <- function(noise, lifts, paths) {
  squares <- lifts^2
  repeated <- noise$repeated * squares
  found <- lifts * (noise$between %*% (lifts * paths)) - diag(noise$between) * squares * paths
  found <- found + (noise$between %*% squares + repeated + 2 * noise$repeated * sweep(lifts, 2, lifts[1, ], "*")) * paths
  found <- found + sweep(repeated, 2, paths[1, ], "*")
  found[1, ] <- found[1, ] + colSums(repeated * paths)
  found
}

# Eigenvalues and vectors, the least first.
spectrum <- function(matrix) {
  found <- eigen(matrix, symmetric = TRUE)
  list(values = rev(found$values), vectors = found$vectors[, rev(seq_along(found$values)), drop = FALSE])
}

# The inverse of the features' moments and of the constant's, what noise does to it, and the feature that noise hides most.
solvable <- function(moments, x) {
  z <- c(1, x)
  matrix <- moments$gram[z, z, drop = FALSE] / moments$rows
  noise <- noise_of(moments, z)
  scale <- sqrt(pmax(diag(matrix), 0))
  hidden <- function(at) list(ratio = Inf, worst = at)
  if (any(scale == 0)) return(hidden(which.min(scale[-1])))
  found <- spectrum(matrix / outer(scale, scale))
  if (found$values[1] <= SINGULAR) return(hidden(which.max(abs(found$vectors[-1, 1]))))
  white <- sweep(found$vectors, 2, sqrt(found$values), "/")
  turn <- second_moment(noise, tcrossprod(white / scale))
  ways <- spectrum(crossprod(white, (turn / outer(scale, scale)) %*% white))
  last <- length(z)
  list(
    ratio = sqrt(max(ways$values[last], 0)), worst = which.max(abs((white %*% ways$vectors)[-1, last])),
    matrix = matrix, noise = noise, inverse = tcrossprod(white / scale), bias = turn
  )
}

# Features to leave out for the coefficients of the others to be known.
dropped_features <- function(count, look) {
  kept <- seq_len(count)
  left <- integer()
  while (length(kept) && (found <- look(kept))$ratio >= LIMIT) {
    left <- c(left, kept[found$worst])
    kept <- kept[-found$worst]
  }
  left
}

middle_of <- function(values) sort(values)[(length(values) + 1) %/% 2]

# exp(x^2) erfc(x), also where erfc vanishes.
erfcx <- function(x) {
  far <- x
  for (step in 60:1) far <- x + step / 2 / far
  ifelse(x < 10, 2 * exp(x^2) * stats::pnorm(-x * sqrt(2)), 1 / sqrt(pi) / far)
}

# Mean of a normal law restricted to [0, 1].
truncated_mean <- function(mean, sd) {
  offset <- abs(mean - 0.5)
  side <- sign(mean - 0.5)
  if (sd == 0) return(0.5 + side * min(offset, 0.5))
  if (0.5 < 1e-4 * sd) return(0.5)
  decay <- offset / sd^2
  near <- sqrt(pi / 2) * erfcx((offset - 0.5) / sd / sqrt(2))
  far <- sqrt(pi / 2) * erfcx((offset + 0.5) / sd / sqrt(2))
  pull <- if (is.finite(near)) -sd * expm1(-decay) / (near - exp(-decay) * far) else 0
  0.5 + side * min(max(offset - pull, 0), 0.5)
}

# The variance of a patient's outcome about the least squares, and its standard error.
residual_variance <- function(moments, found, z, y, model, fit) {
  rows <- moments$rows
  noise <- found$noise
  across <- moments$gram[z, y] / rows
  outside <- (moments$noise_sd[z, y] / rows)^2
  square <- moments$gram[y, y] / rows + sum(model * (found$matrix %*% model - 2 * across))
  square <- square + sum(fit * (second_moment(noise, found$inverse) %*% fit)) + sum(diag(found$inverse) * outside)
  squared <- fit^2
  once <- 2 * noise$between - diag(diag(noise$between), length(z))
  variance <- sum(squared * (once %*% squared)) + sum(noise$repeated * squared^2) + 4 * sum(squared * outside) +
    (moments$noise_sd[y, y] / rows)^2 + 4 * fit[1] * sum(noise$repeated * fit^3) - 4 * moments$level[y] * fit[1] * outside[1]
  sd <- sqrt(max(variance, 0))
  c(truncated_mean(square, sd), sd) * rows / max(rows - length(z), 1)
}

# What all sums of weights have in common along their paths: a number, and pairs of a vector and its amounts.
shared_errors <- function(noise, fit, outside, lifts) {
  filled <- noise$between
  for (at in seq_along(fit)) if (length(fit) > 1) filled[at, at] <- middle_of(noise$between[-at, at])
  found <- spectrum(filled)
  last <- length(fit)
  first <- sqrt(max(found$values[last], 0)) * abs(found$vectors[, last])
  diagonal <- as.vector(noise$between %*% fit^2) + outside - (first * fit)^2
  common <- middle_of(diagonal)
  worst <- which.max(abs(diagonal - common))
  alone <- replace(numeric(last), worst, (diagonal - common)[worst])
  list(
    spread = common,
    shared = list(
      list(vector = first * fit, amounts = as.vector(crossprod(first * lifts, fit))),
      list(vector = alone, amounts = lifts[worst, ])
    )
  )
}

# Estimates in scaled units, one for each column of points: there, of the slopes behind the first one. The first point is the
# origin of all units; behind the slopes stand the other points, of which variances alone are wanted.
learned <- function(moments, x, y, points, repeats) {
  z <- c(1, x)
  rows <- moments$rows
  found <- solvable(moments, x)
  if (!found$ratio < LIMIT) {
    return(list(ratio = found$ratio, dropped = dropped_features(length(x), function(kept) solvable(moments, x[kept]))))
  }
  noise <- found$noise
  across <- moments$gram[z, y] / rows
  outside <- (moments$noise_sd[z, y] / rows)^2
  model <- as.vector(found$inverse %*% across)
  weights <- diag(length(z))
  points <- rbind(rep(1, ncol(points)), points)
  # The first row of weights is the constant at the middle of all ranges, which is nobody's intercept.
  sums <- cbind(points[, 1], weights, points[, -1, drop = FALSE])
  lifts <- found$inverse %*% sums
  curvatures <- colSums(sums * lifts)
  paths <- sweep(lifts, 2, curvatures, "/")
  pull <- found$bias %*% lifts - turned(noise, lifts, paths)
  stretch <- 1 + colSums(pull * paths)
  values <- as.vector(crossprod(sums, model)) - as.vector(crossprod(pull, model)) / stretch
  fit <- values[1 + seq_along(z)]

  residual <- residual_variance(moments, found, z, y, model, fit)
  common <- shared_errors(noise, fit, outside, lifts)
  path <- common$spread * found$inverse %*% lifts
  for (part in common$shared) path <- path + outer(as.vector(found$inverse %*% part$vector), part$amounts)
  moved <- colSums(sums * path)
  path <- sweep(path, 2, ifelse(moved > 0, moved, Inf), "/")
  image <- turned(noise, lifts, path)
  spread <- second_moment(noise, tcrossprod(fit)) + diag(outside, length(z))
  sampling <- repeats * residual[1] / rows
  wanted <- -2
  coefficients <- c(1, 2 + seq_along(x))
  lifted <- lifts[, coefficients, drop = FALSE]
  covariance <- crossprod(lifted, spread %*% lifted) + sampling * crossprod(sums[, coefficients, drop = FALSE], lifted)
  list(
    ratio = found$ratio, dropped = integer(), degrees = 1e10, residual = residual, value = values[coefficients],
    covariance = covariance / outer(stretch[coefficients], stretch[coefficients]),
    variance = ((colSums(lifts * (spread %*% lifts)) + sampling * curvatures) / stretch^2)[wanted],
    lean = (2 * colSums(image * fit) / stretch^2)[wanted], bend = (pmax(colSums(image * path), 0) / stretch^2)[wanted]
  )
}

# Ends of intervals: all values that a test does not reject, whose variance is that which they would have if they were true (Fieller).
ends_of <- function(value, variance, lean, bend, quantile) {
  squared <- quantile^2
  left <- 1 - squared * bend
  half <- squared * lean / 2
  rest <- squared * variance
  root <- sqrt(pmax(half^2 + left * rest, 0))
  free <- left <= 0 & !(abs(ratio_of(value, variance, lean, bend)) > quantile)
  vapply(c(lower = -1, upper = 1), function(sign) {
    along <- root - sign * half
    ifelse(free | (along <= 0 & rest > 0), sign * Inf, value + sign * ifelse(rest > 0, rest / along, rest))
  }, numeric(length(value)))
}

# Estimates in the standard errors that they would have without an effect.
ratio_of <- function(value, variance, lean, bend) value / sqrt(pmax(variance - value * lean + value^2 * bend, 0))
