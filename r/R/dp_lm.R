# Linear regression on a verified release: estimates that noise does not shrink, with intervals. The same numbers as `learner fit`.

EQUAL_SPREAD <- paste(
  "Errors, intervals and P assume equal residual spread; the release cannot check this. A long tail of the outcome makes unequal",
  "spread likely."
)
ALIKE <- "A patient may have several rows: errors of sampling are as large as if all rows of a patient were alike."
INTERCEPT <- "(Intercept)"

dp_lm <- function(formula, release) {
  stopifnot(inherits(release, "dp_release"), inherits(formula, "formula"))
  if (is.null(release$moments) && is.null(release$noisy)) refuse(NO_FIT)
  if (length(formula) != 3) refuse("write the formula as outcome ~ feature + feature")
  y <- expand(release, words_of(formula[[2]]), reference = FALSE)
  if (length(y) != 1) refuse("a fit has one outcome; name one of ", paste0("`", y, "`", collapse = ", "))
  readings <- readings_of(release)
  own <- readings$column[readings$name == y]
  named <- words_of(formula[[3]])
  if ("." %in% named) named <- c(setdiff(named, "."), setdiff(names(release$columns)[-own], outcomes_of(release)))
  x <- expand(release, named, reference = TRUE)
  found <- readings[match(x, readings$name), ]
  if (!length(x)) refuse("no feature is left to fit on; name at least one column beside the outcome")
  if (any(found$column == own)) refuse("the outcome's own column cannot be a feature")
  only <- x[names(release$columns)[found$column] %in% outcomes_of(release)]
  if (length(only)) refuse(paste(only, collapse = ", "), " cannot be a feature: products of two outcomes of this release are not released")
  if (anyDuplicated(found$place)) refuse("two features are the two levels of one column, which repeat each other; leave one out")
  fit <- inferred(release, y, x)
  structure(c(fit, list(call = match.call(), outcome = y, features = x, release = release)), class = "dp_lm")
}

readings_of <- function(release) if (is_rows(release)) release$noisy$readings else release$moments$readings

# Names in a sum of names.
words_of <- function(part) {
  if (is.name(part)) return(as.character(part))
  if (identical(part, 1)) return(character())
  head <- if (is.call(part)) as.character(part[[1]])[1] else ""
  if (!head %in% c("+", "(")) refuse("a formula has names of columns joined by +; ", deparse(part)[1], " is none")
  unique(unlist(lapply(as.list(part)[-1], words_of)))
}

# Released columns for names of columns, without the first value of a category that is a feature. One declared level is that level.
expand <- function(release, names, reference) {
  unique(unlist(lapply(names, function(name) {
    column <- release$columns[[name]]
    if (!is.null(column)) {
      told <- if (length(setdiff(column$values, "other")) == 1) column$released[1] else column$released
      return(if (reference && column$kind == "category" && length(told) > 1) told[-1] else told)
    }
    known <- readings_of(release)$name
    if (!name %in% known) refuse("not in this release: ", name, "; it has ", paste(known, collapse = ", "))
    name
  })))
}

inferred <- function(release, y, x) {
  found <- of_features(release, y, x)
  if (found$identified) return(found)
  for (merged in sparse_levels(release, x)) {
    kept <- setdiff(x, names(merged))
    if (!length(merged) || !length(kept)) next
    others <- of_features(release, y, kept)
    if (!others$identified) next
    at <- match(c(INTERCEPT, x), c(INTERCEPT, kept))
    terms <- c(INTERCEPT, x)
    others$estimates <- structure(others$estimates[at, ], row.names = terms)
    others$vcov <- structure(others$vcov[at, at], dimnames = list(terms, terms))
    others$merged <- merged
    return(others)
  }
  found
}

# Estimates in original units, and errors of predictions for rows of points; missing where noise hides the features.
of_features <- function(release, y, x, points = matrix(0, 0, length(x))) {
  readings <- readings_of(release)
  target <- readings[match(y, readings$name), ]
  feature <- readings[match(x, readings$name), ]
  asked <- (t(rbind(0, points)) - feature$middle) / feature$half
  found <- if (is_rows(release)) {
    learned_rows(release$noisy, feature$place, target$place, asked, release$rows_per_subject)
  } else {
    learned(release$moments, feature$place, target$place, asked, release$rows_per_subject)
  }
  unit <- target$half / c(1, feature$half)
  terms <- c(INTERCEPT, x)
  identified <- !length(found$dropped) && found$ratio < LIMIT
  if (!identified) {
    unknown <- rep(NA_real_, length(terms) + nrow(points))
    found[c("variance", "lean", "bend")] <- list(unknown, unknown, unknown)
    found$value <- unknown[seq_along(terms)]
    found$covariance <- matrix(NA_real_, length(terms), length(terms))
    found$residual <- c(NA_real_, NA_real_)
    found$degrees <- 1e10
  }
  covariance <- found$covariance * outer(unit, unit)
  value <- unit * found$value + c(target$middle, rep(0, length(x)))
  unit <- c(unit, rep(target$half, nrow(points)))
  every <- data.frame(
    value = c(value, as.vector(points %*% value[-1]) + value[1]), variance = unit^2 * found$variance, lean = unit * found$lean,
    bend = found$bend, wider = taken(release, y, x, value[-1], points)
  )
  list(
    estimates = structure(every[seq_along(terms), ], row.names = terms), at = every[-seq_along(terms), ],
    vcov = structure(covariance, dimnames = list(terms, terms)), residual = found$residual * target$half^2,
    sigma = sqrt(found$residual[1]) * abs(target$half), degrees = found$degrees, identified = identified, noise_ratio = found$ratio, unidentified = x[found$dropped], merged = list()
  )
}

# Levels that hardly anybody has, counted with the reference level of their category, one more in each step.
sparse_levels <- function(release, x) {
  readings <- readings_of(release)
  groups <- list()
  shares <- list()
  share_of <- function(names) {
    read <- readings[match(names, readings$name), ]
    found <- if (is_rows(release)) row_means(release$noisy, read$place) else list(
      mean = release$moments$gram[1, read$place] / release$rows, sd = release$moments$noise_sd[1, read$place] / release$rows
    )
    c(sum(read$middle + read$half * found$mean), sqrt(sum((read$half * found$sd)^2)))
  }
  for (at in unique(readings$column[match(x, readings$name)])) {
    released <- readings$name[readings$column == at]
    reference <- setdiff(released, x)
    if (!length(reference)) next
    own <- intersect(released, x)
    groups <- c(groups, list(list(reference = reference, key = paste(reference, collapse = "\n"), own = own)))
    shares[[paste(reference, collapse = "\n")]] <- share_of(reference)
    for (level in own) shares[[level]] <- share_of(level)
  }
  if (!length(groups)) return(list())
  seen <- unlist(lapply(shares, function(one) if (one[1] + 2 * one[2] <= 0.1) one[1] / max(one[2], 1e-12)))
  ordered <- if (length(seen)) names(seen)[order(seen)]
  lapply(seq(sum(seen <= 3), length(ordered)), function(count) {
    rare <- ordered[seq_len(count)]
    merged <- list()
    for (group in groups) {
      size <- vapply(group$own, function(level) shares[[level]][1], 0)
      replaced <- if (group$key %in% rare) group$own[which.max(size)]
      for (level in group$own) if (level %in% c(rare, replaced)) merged[[level]] <- group$reference
    }
    merged
  })
}

coef.dp_lm <- function(object, ...) structure(object$estimates$value, names = rownames(object$estimates))

vcov.dp_lm <- function(object, ...) object$vcov

nobs.dp_lm <- function(object, ...) object$release$rows

sigma.dp_lm <- function(object, ...) object$sigma

formula.dp_lm <- function(x, ...) stats::formula(x$call)

# Ends of intervals of some estimates of a fit. A normal law has 1e10 degrees of freedom, as in Python.
fitted_ends <- function(object, each, level) {
  if (!is.numeric(level) || length(level) != 1 || is.na(level) || level <= 0 || level >= 1) {
    refuse("the level of an interval lies between 0 and 1; 0.95 is usual")
  }
  clipped <- length(object$release$terms$clipping) > 0
  quantile <- stats::qt((1 + level) / 2, object$degrees)
  if (clipped) clipped_ends(each, level) else ends_of(each$value, each$variance, each$lean, each$bend, quantile)
}

confint.dp_lm <- function(object, parm, level = 0.95, ...) {
  each <- object$estimates
  found <- matrix(
    fitted_ends(object, each, level), ncol = 2,
    dimnames = list(rownames(each), paste(format(100 * (1 + c(-1, 1) * level) / 2, trim = TRUE, digits = 3), "%"))
  )
  if (missing(parm)) found else found[parm, , drop = FALSE]
}

summary.dp_lm <- function(object, ...) {
  each <- object$estimates
  z <- ratio_of(each$value, each$variance, each$lean, each$bend)
  test <- if (length(object$release$terms$clipping)) clipped_ratio(each) else list(z = z, p = 2 * stats::pt(-abs(z), object$degrees))
  law <- if (object$degrees < 1e10) "t" else "z"
  coefficients <- cbind(each$value, sqrt(each$variance), test$z, test$p, confint(object))
  rownames(coefficients) <- rownames(each)
  colnames(coefficients)[1:4] <- c("Estimate", "Std. Error", paste(law, "value"), sprintf("Pr(>|%s|)", law))
  structure(list(call = object$call, coefficients = coefficients, sigma = object$sigma, fit = object), class = "summary.dp_lm")
}

notes_of <- function(fit) {
  listed <- function(names) paste(names, collapse = ", ")
  hidden <- if (length(fit$unidentified) == length(fit$features)) {
    paste(
      "No coefficient is identified: the privacy noise is too large compared with the variation in the features.",
      "More patients, a larger epsilon or narrower public bounds would help."
    )
  } else {
    paste0(
      "Individual coefficients are not identified: the privacy noise is too large compared with the variation in ",
      listed(fit$unidentified), ". The others can be estimated without these features, and are then not adjusted for them."
    )
  }
  together <- vapply(names(fit$merged), function(name) paste(name, "with", paste(fit$merged[[name]], collapse = " and ")), "")
  c(
    if (!fit$identified) hidden,
    if (length(together)) paste0("Counted together, as one of the two has too few patients for the noise: ", listed(together), "."),
    if (fit$release$rows_per_subject > 1) ALIKE,
    if (fit$identified) EQUAL_SPREAD,
    clipping_notes(fit$release)
  )
}

print.dp_lm <- function(x, ...) {
  cat("Linear regression on a private release\n\nCall: ", paste(deparse(x$call), collapse = " "), "\n\n", sep = "")
  print(coef(x), ...)
  invisible(x)
}

print.summary.dp_lm <- function(x, ...) {
  fit <- x$fit
  cat(
    "Linear regression on a private release\n\nCall: ", paste(deparse(x$call), collapse = " "), "\nRelease: ", fit$release$digest,
    "\nPatients: ", format(fit$release$rows, big.mark = ","), "\n\n",
    sep = ""
  )
  shown <- as.data.frame(signif(x$coefficients, 4))
  p <- x$coefficients[, "Pr(>|z|)"] # as learner fit prints them, rounded once
  shown[["Pr(>|z|)"]] <- ifelse(is.na(p) | p > 1e-3, sprintf("%.3f", p), "<0.001")
  print(shown, ...)
  cat("\nStandard deviation of the residuals: ", format(x$sigma, digits = 4), "\n", sep = "")
  for (line in c(notes_of(fit), fit$release$guarantee)) cat("\n", paste(strwrap(line), collapse = "\n"), "\n", sep = "")
  invisible(x)
}

predict.dp_lm <- function(object, newdata, se.fit = FALSE, interval = c("none", "confidence", "prediction"), level = 0.95, ...) {
  if (!is.data.frame(newdata)) refuse("newdata must be a data frame with a column for each feature")
  interval <- match.arg(interval)
  release <- object$release
  readings <- readings_of(release)
  cells <- vapply(object$features, function(name) {
    column <- release$columns[[readings$column[match(name, readings$name)]]]
    if (name %in% names(newdata)) return(as.numeric(if (is.factor(newdata[[name]])) as.character(newdata[[name]]) else newdata[[name]]))
    if (is.null(newdata[[column$name]])) refuse("newdata has no column ", column$name)
    given <- as.character(newdata[[column$name]])
    strange <- !given %in% column$values
    if (any(strange & !is.na(given)) && !"other" %in% column$values) refuse("newdata has unknown values in ", column$name)
    given[strange & !is.na(given)] <- "other"
    as.numeric(ifelse(is.na(given), NA, sprintf("%s=%s", column$name, given) == name))
  }, numeric(nrow(newdata)))
  cells <- matrix(cells, nrow = nrow(newdata), ncol = length(object$features))
  if (!all(is.finite(cells))) refuse("newdata has missing or infinite cells; fill them or leave the rows out")
  if (any(abs(cells) > 1e50)) refuse("newdata has cells beyond 1e+50, which leave no number for an interval")
  # A level that is counted with its reference has no coefficient of its own.
  own <- !object$features %in% names(object$merged)
  points <- cells[, own, drop = FALSE]
  cells <- cbind(rep(1, nrow(points)), points)
  kept <- c(TRUE, own)
  predicted <- as.vector(cells %*% coef(object)[kept])
  if (interval != "none") {
    found <- of_features(release, object$outcome, object$features[own], points)
    sides <- matrix(fitted_ends(object, found$at, level), ncol = 2)
    if (interval == "prediction") sides <- spread_ends(predicted, sides, object, level)
    predicted <- cbind(fit = predicted, lwr = sides[, 1], upr = sides[, 2])
  }
  target <- readings[match(object$outcome, readings$name), ]
  column <- release$columns[[target$column]]
  ends <- column$ends
  if (column$kind == "number") ends <- c(max(ends[1], target$middle - target$half), min(ends[2], target$middle + target$half))
  predicted[] <- pmin(pmax(predicted, ends[1] - diff(ends)), ends[2] + diff(ends))
  if (!se.fit) return(predicted)
  variance <- rowSums((cells %*% vcov(object)[kept, kept]) * cells)
  list(fit = predicted, se.fit = sqrt(pmax(variance, 0)), residual.scale = object$sigma)
}

# Ends for one patient: those of the mean, moved out by the spread of residuals, whose own error counts as with Student's law.
spread_ends <- function(value, sides, object, level) {
  squared <- stats::qt((1 + level) / 2, object$degrees)^2
  variance <- object$residual[1]
  more <- if (!is.na(variance) && variance > 0) (squared + 1) / 4 * object$residual[2]^2 / variance else 0
  away <- sqrt((sides - value)^2 + squared * (variance + more))
  value + away * rep(c(-1, 1), each = length(value))
}

plot.dp_lm <- function(x, level = 0.95, ...) {
  slopes <- coef(x)[-1]
  ends <- confint(x, level = level)[-1, , drop = FALSE]
  places <- rev(seq_along(slopes))
  seen <- c(0, slopes, ends)
  column <- x$release$columns[[x$outcome]]
  plot(
    slopes, places,
    xlim = range(seen[is.finite(seen)]), ylim = c(0.5, length(places) + 0.5), yaxt = "n", pch = 19, ylab = "",
    xlab = trimws(paste("difference in", x$outcome, column$unit)), ...
  )
  graphics::axis(2, places, names(slopes), las = 1)
  edge <- graphics::par("usr")[1:2]
  graphics::segments(pmax(ends[, 1], edge[1]), places, pmin(ends[, 2], edge[2]), places)
  graphics::abline(v = 0, lty = 3)
  invisible(x)
}

tidy.dp_lm <- function(x, conf.int = FALSE, conf.level = 0.95, ...) {
  found <- summary(x)$coefficients
  ends <- confint(x, level = conf.level)
  told <- data.frame(
    term = rownames(found), estimate = found[, 1], std.error = found[, 2], statistic = found[, 3], p.value = found[, 4],
    row.names = NULL
  )
  if (conf.int) told[c("conf.low", "conf.high")] <- list(unname(ends[, 1]), unname(ends[, 2]))
  told
}

glance.dp_lm <- function(x, ...) {
  target <- x$release$target
  data.frame(nobs = nobs(x), sigma = x$sigma, noise.ratio = x$noise_ratio, epsilon = target$epsilon, delta = target$delta)
}
