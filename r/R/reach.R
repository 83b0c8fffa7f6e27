# How far each number of a release in ranges reaches, and what clipping may take from slopes: about all rows, from clipped ones.
# In Python dprelease.mechanisms.ranges.released, dprelease.release.reaches and dprelease.estimators.intervals.clipped.

POINTS <- 4000 # public rows that stand for patients
LEAST_KEPT <- 0.4 # kept part of a slope below which counts and public bounds alone bound it
LEVELS <- (seq_len(POINTS) - 0.5) / POINTS

# Quantiles of one column at equally spaced levels, in published standard deviations from the published centre.
margin_of <- function(law, centre, scale) {
  tail <- max(0.002, 2.5 * max(law$noise_sd))
  seen <- REACH * scale >= CELL && law_cell(law, min(tail, 0.5)) != law_cell(law, max(1 - tail, 0.5))
  if (tail >= 0.25 || !seen) return(list(quantiles = guessed_quantiles(centre, scale), scale = scale, seen = seen))
  found <- stats::approx(law$monotone + (seq_along(law$monotone) - 1) * 1e-12, EDGES, LEVELS, rule = 2)$y
  second <- min(4 * tail, 0.4)
  for (side in c(-1, 1)) {
    far <- if (side < 0) LEVELS else 1 - LEVELS
    ends <- vapply(c(tail, second), function(share) law_quantile(law, if (side < 0) share else 1 - share), 0)
    length <- max(side * (ends[1] - ends[2]), 0) / log(second / tail)
    found <- ifelse(far < tail, ends[1] + side * length / 0.25 * ((tail / far)^0.25 - 1), found)
  }
  list(quantiles = (pmin(pmax(found, -1), 1) - centre) / scale, scale = scale, seen = TRUE)
}

# The same from centre and scale alone: a gamma law from the nearer bound.
guessed_quantiles <- function(centre, scale) {
  room <- max(1 - abs(centre), 1e-12)
  shape <- min(max((room / scale)^2, 0.03), 1e4)
  up <- stats::qgamma(LEVELS, shape) * (room / shape) - 1
  (pmin(pmax(if (centre <= 0) up else -rev(up), -1), 1) - centre) / scale
}

# Rows of one hospital: the quantiles in the order of public normal scores, which the stream of docs/format.md gives.
public_rows <- function(margins) {
  columns <- length(margins)
  size <- 8 * POINTS * (columns + 1)
  key <- openssl::sha256(charToRaw("dprelease reach 1"))
  bytes <- openssl::aes_ctr_encrypt(raw(size), key = key, iv = raw(16))
  words <- matrix(readBin(as.vector(bytes), "integer", size / 4, 4, endian = "little"), 2)
  words[is.na(words)] <- -2^31
  words <- words %% 2^32
  scores <- matrix(stats::qnorm((words[2, ] * 2^21 + words[1, ] %/% 2^11 + 0.5) * 2^-53), POINTS)
  vapply(seq_len(columns), function(at) {
    margins[[at]]$quantiles[rank(sqrt(0.5) * scores[, 1] + sqrt(0.5) * scores[, at + 1])]
  }, numeric(POINTS))
}

# The part of slopes that clipping to ranges and to a norm leaves, if the slope is the same everywhere.
kept_part <- function(rows, reaches, weights, squared) {
  inside <- pmin(pmax(sweep(rows, 2, reaches, "/"), -REACH), REACH)
  sizes <- rowSums(sweep(inside, 2, weights, "*")^2)
  factors <- sqrt(pmin(1, squared / pmax(sizes, 1e-12)))
  colSums(factors * sweep(inside, 2, reaches, "*") * rows) / pmax(colSums(rows^2), 1e-12)
}

squared_radius <- function(numbers) if (numbers > 1) numbers else 4

# The reach of other columns and the noise of products, as hospitals guess them before the moments.
guess_of <- function(release, terms) {
  own <- vapply(names(release$parties), function(party) length(private_numbers(release$columns[party_columns(release, party)])), 0L)
  unknown <- sum(vapply(private_numbers(release$columns), `[[`, NA, "unbounded"))
  parties <- length(own)
  spent <- (if (release$rows < 1500) 3 / 20 else 1 / 10) * (1 + 0.5 * unknown / sum(own))
  mu <- sqrt(rational(terms$mu2) * (1 - spent) / spent) / release$rows_per_subject
  noise <- sqrt(parties / max(parties - 1, 1)) / (mu * release$rows)
  squares <- sum(vapply(own[own > 0], squared_radius, 0))
  mean <- sqrt(squares / sum(own))
  reaches <- 1.25^(seq_len(REACHES) - 1)
  end <- reaches * max(1.5, mean)
  found <- noise * ((1 + length(release$columns) - sum(own)) * mean / reaches + squares)
  best <- which.min((0.3 * exp(-end - 1) * (end + 2))^2 + (found * reaches^2)^2)
  list(reach = reaches[best], noise = found[best])
}

# Places of columns of one hospital whose reach could be another one for less.
wrong_reach <- function(own, guessed) {
  if (!length(own)) return(integer())
  rows <- public_rows(lapply(own, `[[`, "margin"))
  steps <- vapply(own, `[[`, 0, "reach")
  squared <- squared_radius(length(own))
  grid <- 1.25^(seq_len(REACHES) - 1)
  Filter(function(place) {
    tried <- grid[seq_len(1 + sum(grid[-REACHES] <= 2 / (own[[place]]$margin$scale * sqrt(squared))))]
    losses <- vapply(tried, function(reach) {
      lost <- 1 - kept_part(rows, replace(1.25^steps, place, reach), rep(1, length(own)), squared)
      0.3^2 * sum(lost^2) + 2 * (guessed$noise * guessed$reach * reach)^2
    }, 0)
    step <- steps[place] + 1
    step > length(losses) || losses[step] > min(losses) * (1 + TOLERANCE)
  }, seq_along(own))
}

# How far every private number reaches; Python's Reach.
reaches_of <- function(release) {
  clipping <- release$terms$clipping
  weights <- structure(unlist(clipping$weights), names = names(release$columns))
  norms <- lapply(clipping$norms, function(norm) unlist(norm$columns))
  found <- list()
  for (party in names(release$parties)) {
    names <- names(private_numbers(release$columns[party_columns(release, party)]))
    if (!length(names)) next
    within <- release$ranges[names]
    at <- match(TRUE, vapply(norms, identical, NA, names))
    squared <- if (is.na(at)) Inf else clipping$norms[[at]]$squared
    kept <- kept_part(public_rows(lapply(within, `[[`, "margin")), 1.25^vapply(within, `[[`, 0, "reach"), weights[names] / REACH, squared)
    found <- c(found, Map(reach_of, within, kept))
  }
  found
}

reach_of <- function(within, part) {
  centre <- within$centre / STEPS
  counted <- !is.null(within$law)
  open <- if (counted) mean_square(within$law, centre) else c(0, (1 + abs(centre))^2)
  believed <- within$margin$scale^2 * mean(within$margin$quantiles^2)
  square <- max(believed, open[1])
  kept <- if (within$margin$seen && square > 0) min(part, 1) * believed / square else 0
  half <- diff(within$ends) / 2
  list(
    name = within$name, kept = kept, counted = counted, hidden = kept < LEAST_KEPT, centre = mean(within$ends) + half * centre,
    error = if (counted) within$mean_error else 0, shift = (1 - kept) * sqrt(square) * half, spread = half * sqrt(open[2])
  )
}
