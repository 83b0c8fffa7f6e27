# Coefficients about all rows, out of clipped ones: intervals are wider by what clipping may take. In Python
# dprelease.estimators.intervals.clipped, whose formulas have the same names here. One outcome at a time.

# How far the intervals of an intercept and of slopes reach further on either side; none in public bounds.
taken <- function(release, y, x, slopes) {
  if (!length(release$terms$clipping)) return(numeric(1 + length(x)))
  moments <- release$moments
  reaches <- reaches_of(release)
  names <- c(y, x)
  read <- moments$readings[match(names, moments$readings$name), ]
  kept <- vapply(names, function(name) if (is.null(reaches[[name]])) 1 else reaches[[name]]$kept, 0)
  means <- read$middle + read$half * moments$gram[1, read$place] / moments$rows
  moved <- mapply(function(name, mean) moved_by(reaches[[name]], mean), names, means)
  spread <- if (is.null(reaches[[y]])) Inf else reaches[[y]]$spread
  unit <- abs(read$half)
  most <- steepest(moments, read$place[1], read$place[-1], kept[1], spread / unit[1]) * unit[1] / unit[-1]
  wider <- lost(slopes, kept[1], kept[-1], most)
  unname(c(moved[1] + sum(abs(slopes) * moved[-1]) + sum(wider * abs(means[-1])), wider))
}

lost <- function(slopes, outcome, features, most) {
  parts <- outcome * features
  size <- abs(slopes)
  ifelse(parts < LEAST_KEPT, size + most, size * (1 / pmax(parts, LEAST_KEPT) - 1))
}

# The largest sizes of slopes that Cauchy's inequality allows, in scaled units.
steepest <- function(moments, y, x, kept, spread) {
  mean <- moments$gram / moments$rows
  mean <- mean - outer(mean[1, ], mean[1, ])
  outcome <- if (kept < LEAST_KEPT) spread else sqrt(max(mean[y, y], 0)) / kept
  found <- eigen(mean[x, x, drop = FALSE], symmetric = TRUE)
  used <- abs(found$values) > 1e-15 * max(abs(found$values))
  vectors <- found$vectors[, used, drop = FALSE]
  alone <- rowSums(sweep(vectors^2, 2, found$values[used], "/"))
  outcome * sqrt(ifelse(alone > 0, alone, NA_real_))
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
    "z and P test the estimate less that width, so z is not the estimate over its error.",
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
