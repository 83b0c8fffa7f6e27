# Coefficients about all rows, out of clipped ones: intervals are wider by what clipping may take. In Python
# dprelease.estimators.intervals.clipped, whose formulas have the same names here. One outcome at a time.

# A bias that clipping may have given an intercept, slopes and predictions for rows of points at most; 0 in public bounds.
taken <- function(release, y, x, slopes, points) {
  if (!length(release$terms$clipping)) return(numeric(1 + length(x) + nrow(points)))
  moments <- release$moments
  reaches <- reaches_of(release)
  names <- c(y, x)
  read <- moments$readings[match(names, moments$readings$name), ]
  kept <- vapply(names, function(name) if (is.null(reaches[[name]])) 1 else reaches[[name]]$kept, 0)
  means <- read$middle + read$half * moments$gram[1, read$place] / moments$rows
  moved <- mapply(function(name, mean) moved_by(reaches[[name]], mean), names, means)
  spread <- if (is.null(reaches[[y]])) Inf else reaches[[y]]$spread
  unit <- read$half[1] / read$half[-1]
  wider <- abs(unit) * lost(moments, read$place[1], read$place[-1], slopes / unit, kept[1], kept[-1], spread / abs(read$half[1]))
  apart <- abs(sweep(rbind(0, points), 2, means[-1]))
  there <- moved[1] + sum(abs(slopes) * moved[-1]) + as.vector(apart %*% wider)
  unname(c(there[1], wider, there[-1]))
}

# The root of the sum of squares of what covariances may have lost, carried to slopes; or Cauchy's inequality. In scaled units.
lost <- function(moments, y, x, slopes, outcome, features, spread) {
  mean <- moments$gram / moments$rows
  mean <- mean - outer(mean[1, ], mean[1, ])
  cut <- function(covariance, parts) abs(covariance) * (1 / pmax(parts, LEAST_KEPT) - 1)
  found <- eigen(mean[x, x, drop = FALSE], symmetric = TRUE)
  used <- abs(found$values) > 1e-15 * max(abs(found$values))
  vectors <- found$vectors[, used, drop = FALSE]
  inverse <- vectors %*% (t(vectors) / found$values[used])
  across <- cut(mean[y, x], outcome * features)^2
  among <- cut(mean[x, x, drop = FALSE], outer(features, features))^2
  path <- sweep(inverse, 2, slopes, "*")
  twice <- rowSums((path %*% (among - diag(diag(among), length(x)))) * path)
  carried <- sqrt(pmax(as.vector(inverse^2 %*% (across + as.vector(among %*% slopes^2))) + twice, 0))
  alone <- sqrt(ifelse(diag(inverse) > 0, diag(inverse), NA_real_))
  most <- alone * if (outcome < LEAST_KEPT) spread else sqrt(max(mean[y, y], 0)) / outcome
  ifelse(outcome * features < LEAST_KEPT, abs(slopes) + most, carried)
}

# Where noise alone is beyond a bias w at most, in standard errors, with so much probability (Armstrong and Kolesar 2018).
beyond_bias <- function(level, bias) {
  found <- max(stats::qnorm(level), 0) + 0 * bias
  for (turn in 1:60) {
    over <- stats::pnorm(found) - stats::pnorm(-found - 2 * bias) - level
    found <- found - over / (stats::dnorm(found) + stats::dnorm(found + 2 * bias))
  }
  pmax(found, 0)
}

# Ends of intervals that hold the truth with the probability of the level, whatever the bias up to what clipping may take.
clipped_ends <- function(each, level) {
  quantile <- beyond_bias(level, bias_of(each))
  ends_of(each$value, each$variance, each$lean, each$bend, quantile) + outer(each$wider, c(-1, 1))
}

bias_of <- function(each) pmin(each$wider / sqrt(each$variance), 10)

# How far estimates are from all values up to w on their side of 0, in the errors that they would have there, and the P of that.
clipped_ratio <- function(each) {
  side <- ifelse(each$value < 0, -1, 1)
  beyond <- pmin(side * against(each, 0), side * against(each, side * each$wider))
  list(
    z = side * pmax(beyond, 0), p = pmin(stats::pnorm(-beyond) + stats::pnorm(-beyond - 2 * bias_of(each)), 1)
  )
}

against <- function(each, null) {
  apart <- each$value - null
  ratio_of(apart, each$variance, each$lean, each$bend)
}

# How far clipping may have moved a mean: the root mean square of what both rounds leave open.
moved_by <- function(reach, mean) {
  if (is.null(reach)) return(0)
  apart <- reach$centre - mean
  noise <- reach$error^2
  before <- max(reach$shift^2, apart^2 - noise)
  told <- if (before > 0) before / (before + noise) else 0
  sqrt((told * apart)^2 + told * noise) + if (reach$hidden) reach$spread else 0
}

# Sentences on which rows coefficients are about; none in public bounds.
clipping_notes <- function(release) {
  if (!length(release$terms$clipping)) return(character())
  reaches <- reaches_of(release)
  hidden <- names(Filter(function(each) each$hidden, reaches))
  counted <- all(vapply(reaches, `[[`, NA, "counted"))
  kept <- vapply(reaches[setdiff(names(reaches), hidden)], `[[`, 0, "kept")
  c(
    "Coefficients describe all rows; intervals are wider by what clipping may take, which is estimated.",
    if (length(kept)) paste0("Clipping leaves of slopes on ", paste0(names(kept), sprintf(" %.0f %%", 100 * kept), collapse = ", on "), "."),
    "z and P test the estimate less that width. z is not the estimate over its error, and P is not twice the tail beyond z.",
    "The estimate misses slopes that change in the tail, and extreme values of so few patients that noise hides them.",
    if (length(hidden)) {
      paste0(
        "Noise hides the tail of ", paste(hidden, collapse = ", "), ": counts and public bounds alone bound what depends on it, by a ",
        "wide interval."
      )
    },
    if (!counted) "Tails are guessed from means and spreads, because this release has no counts of its own."
  )
}
