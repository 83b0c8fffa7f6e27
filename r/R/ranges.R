# Ranges (docs/format.md): location, scale and distribution of single numbers, from two noisy rounds. In Python dprelease.mechanisms.ranges.
# Lengths are in half-widths of a column's bounds from their midpoint.

CELLS <- 256
EDGES <- seq(-1, 1, length.out = CELLS + 1)
CELL <- 2 / CELLS
INNER <- EDGES[2:CELLS]
STEPS <- 2^24
WINDOW <- 4 # half-width of the second round's range, in scales of the first
LARGEST_CODE <- 2^16
REACH <- 3 # units from the centre of a range to its ends
REACHES <- 17
TOLERANCE <- 1e-6
PRIOR <- c(centre = 0, log_scale = log(0.3), centre_sd = 0.5, log_scale_sd = 1.2)
MISFIT <- 0.02 # share of the rows by which counts differ from a normal law's
DECADE_CELLS <- 121
DECADE_EDGES <- {
  ends <- c(as.vector(outer(c(10, 18, 32, 56), 10^(0:14))), 1e16)
  c(-rev(ends), ends) / 1e7
}

# The factor of prefix sums in integers, what gives prefix sums of its products, and the covariance of their noise; kept, as it is slow.
prefix_sums <- local({
  known <- list()
  function(cells) {
    name <- as.character(cells)
    if (is.null(known[[name]])) {
      entries <- round(2^12 * cumprod(c(1, (2 * seq_len(cells - 2) - 1) / (2 * seq_len(cells - 2)))))
      size <- cells - 1
      back <- outer(seq_len(size), seq_len(size), `-`)
      used <- matrix(ifelse(back >= 0, entries[pmax(back, 0) + 1], 0), size)
      products <- crossprod(cbind(used, 0))
      apart <- outer(diag(products), diag(products), `+`) - 2 * products
      recovery <- lower.tri(used, diag = TRUE) %*% solve(used)
      known[[name]] <<- list(factor = used, sensitivity = max(apart), recovery = recovery, covariance = tcrossprod(recovery))
    }
    known[[name]]
  }
})

# The distribution function that noisy counts say.
distribution <- function(counts, rows, scale) {
  found <- prefix_sums(CELLS)
  noisy <- as.vector(found$recovery %*% counts) / rows
  unit <- scale / rows
  list(
    noisy = noisy, noise_sd = unit * sqrt(diag(found$covariance)), unit = unit,
    monotone = c(0, pmin(pmax(stats::isoreg(noisy)$yf, 0), 1), 1)
  )
}

# Standard deviations of linear functions of the noisy shares, one in each row of weights.
law_sd <- function(law, weights) law$unit * sqrt(rowSums((rbind(weights) %*% prefix_sums(CELLS)$recovery)^2))

law_cell <- function(law, share) min(max(sum(law$monotone < share), 1), CELLS)

law_quantile <- function(law, share) {
  if (share > 1) return(1)
  at <- law_cell(law, share)
  low <- law$monotone[at]
  high <- law$monotone[at + 1]
  within <- if (high > low) (share - low) / (high - low) else 0
  EDGES[at] + min(max(within, 0), 1) * CELL
}

# The least and the largest mean square distance from a point that counts and bounds leave open.
mean_square <- function(law, centre) {
  ends <- abs(EDGES - centre)
  first <- ends[-(CELLS + 1)]
  last <- ends[-1]
  near <- ifelse(EDGES[-(CELLS + 1)] <= centre & centre <= EDGES[-1], 0, pmin(first, last))
  far <- pmax(first, last)
  told <- lapply(list(near^2, far^2), function(values) {
    steps <- -diff(values)
    c(values[CELLS] + sum(steps * law$noisy), law_sd(law, steps))
  })
  c(max(told[[1]][1] - 2 * told[[1]][2], 0), min(max(told[[2]][1], 0) + 2 * told[[2]][2], max(far)^2))
}

weighted <- function(weight, first, second) {
  one <- sum(weight * first)
  other <- sum(weight * second)
  c(centre = one, log_scale = other, centre_sd = sqrt(sum(weight * (first - one)^2)), log_scale_sd = sqrt(sum(weight * (second - other)^2)))
}

# Means and standard deviations on grids of centre and log scale that close in on where the density is.
posterior_of <- function(log_density, around, numbers) {
  nodes <- 13
  for (turn in 1:16) {
    centres <- seq(max(around[1] - 5 * around[3], -1), min(around[1] + 5 * around[3], 1), length.out = nodes)
    m <- rep(centres, nodes)
    log_s <- rep(seq(around[2] - 5 * around[4], around[2] + 5 * around[4], length.out = nodes), each = nodes)
    density <- log_density(m, log_s)
    weight <- exp(density - max(density))
    weight <- weight / sum(weight)
    found <- weighted(weight, m, log_s)
    last <- around
    around <- c(found[1:2], pmax(found[3:4], 0.5 * 10 / (nodes - 1) * last[3:4]))
    if (all(abs(around - last) <= 1e-8)) break
  }
  told <- numbers(m, log_s)
  weighted(weight, told[[1]], told[[2]])
}

# Mean and log standard deviation of a normal law's numbers once they are clipped to [-1, 1].
clipped_normal <- function(m, log_s) {
  s <- exp(log_s)
  low <- (-1 - m) / s
  high <- (1 - m) / s
  below <- stats::pnorm(low)
  above <- stats::pnorm(-high)
  inside <- 1 - below - above
  mean <- above - below + m * inside + s * (stats::dnorm(low) - stats::dnorm(high))
  square <- above + below + (m^2 + s^2) * inside + s * ((m - 1) * stats::dnorm(low) - (m + 1) * stats::dnorm(high))
  list(mean, log(pmax(square - mean^2, 1e-14)) / 2)
}

# Round 1: centre and scale of a normal law that the counts come from, and whether it may have settled on one heap of rows.
from_counts <- function(law) {
  root <- chol(law$unit^2 * prefix_sums(CELLS)$covariance + diag(MISFIT^2, CELLS - 1))
  found <- posterior_of(function(m, log_s) {
    misfit <- law$noisy - stats::pnorm(outer(INNER, m, `-`) * rep(exp(-log_s), each = CELLS - 1))
    prior <- ((m - PRIOR[1]) / PRIOR[3])^2 + 2 * abs(log_s - PRIOR[2]) / (PRIOR[4] / 2)
    -0.5 * (colSums(backsolve(root, misfit, transpose = TRUE)^2) + prior)
  }, PRIOR, clipped_normal)
  heap <- exp(found[[2]] - 1.5 * found[[4]]) < 2 * CELL
  share <- max(0.04, 2.2 * max(law$noise_sd))
  if (share < 0.2) {
    reach <- max(law_quantile(law, 1 - share) - found[[1]], found[[1]] - law_quantile(law, share))
    tail <- if (reach > 0) log(0.9 * reach / -stats::qnorm(share)) else -Inf
    if (tail > found[[2]]) found[c(2, 4)] <- c(tail, max(found[[4]], min(tail - found[[2]], PRIOR[[4]] / 2)))
  }
  list(law = law, found = found, heap = heap)
}

# Round 2 on top of it: sums and sums of squares within a window, and the rows beyond that counts show.
from_sums <- function(counted, centre, scale, total, squares, rows, terms) {
  mean <- total / (rows * LARGEST_CODE)
  mean_sd <- terms$sum_scale / (rows * LARGEST_CODE)
  square <- squares / (rows * LARGEST_CODE^2)
  square_sd <- terms$square_scale / (rows * LARGEST_CODE^2)
  prior <- c(centre, log(scale), max(counted$found[[3]], 0.2 * scale, CELL / sqrt(12)), max(counted$found[[4]], 0.25))
  inside <- posterior_of(function(m, log_s) {
    moved <- (m - centre) / scale
    seen <- ((mean - moved / WINDOW) / mean_sd)^2 +
      ((square - (exp(2 * (log_s - prior[2])) + moved^2) / WINDOW^2) / square_sd)^2
    -0.5 * (seen + ((m - centre) / prior[3])^2 + ((log_s - prior[2]) / prior[4])^2)
  }, prior, list)
  law <- counted$law
  variance <- exp(2 * inside[[2]])
  outside <- c(octaves(law, centre, scale, 1), octaves(law, centre, scale, -1))
  gains <- numeric(2)
  noise <- matrix(0, 2, CELLS - 1)
  for (each in outside) {
    gains <- gains + each$shown * each$gains * c(each$side, 1)
    noise <- noise + each$shown * each$noise
  }
  sds <- law_sd(law, noise)
  middle <- inside[[1]] + gains[1]
  whole <- max(variance + (inside[[1]] - centre)^2 + gains[2] - (middle - centre)^2, variance)
  error <- sqrt((2 * variance * inside[[4]])^2 + sds[2]^2)
  missing <- hidden_beyond(outside, law, variance, counted$heap)
  log_scale_sd <- error / (2 * whole)
  list(
    centre = middle, log_scale = log(whole) / 2, log_scale_sd = log_scale_sd,
    mean_error = sqrt(inside[[3]]^2 + sds[1]^2 + missing[1]^2), deviation = sqrt(whole),
    deviation_error = sqrt(whole + sqrt((2 * whole * log_scale_sd)^2 + missing[2]^2)) - sqrt(whole)
  )
}

# Rows on one side of a window, from one distance to twice as far: what they move, and the part that is told from noise.
octaves <- function(law, centre, scale, side) {
  beyond <- if (side > 0) 1 - law$noisy else rev(law$noisy)
  found <- list()
  start <- WINDOW * scale
  centre <- side * centre
  while (centre + start < INNER[CELLS - 1]) {
    weights <- beyond_weights(centre, centre + start) - beyond_weights(centre, centre + 2 * start)
    noise <- weights * c(1, side)
    if (side < 0) noise <- noise[, (CELLS - 1):1]
    gains <- as.vector(weights %*% beyond)
    sds <- law_sd(law, noise)
    shown <- if (gains[1] > 4 * sds[1]) 1 - (4 * sds[1] / gains[1])^4 else 0
    found <- c(found, list(list(
      place = length(found), start = start, gains = gains, sds = sds, noise = noise, side = side, shown = shown,
      doubtful = gains[1] > 3 * sds[1]
    )))
    start <- 2 * start
  }
  found
}

# Weights of 1 - F at the inner edges in what rows beyond an end add to the mean, and to the mean square about the centre.
beyond_weights <- function(centre, end) {
  found <- matrix(0, 2, CELLS - 1)
  first <- sum(INNER < end) + 1
  if (first < CELLS) {
    at <- first:(CELLS - 1)
    offsets <- INNER[at] - centre
    found[1, at] <- CELL
    found[2, at] <- 2 * CELL * offsets
    found[, first] <- found[, first] / 2 + c(INNER[first] - end, offsets[1]^2 - (end - centre)^2)
  }
  found
}

# How far rows that are not shown may move the mean and the mean square.
hidden_beyond <- function(outside, law, variance, heap) {
  most <- 4 * sqrt(max(law$noise_sd)) * variance
  found <- numeric(2)
  for (side in c(1, -1)) {
    own <- Filter(function(each) each$side == side, outside)
    moved <- numeric(2)
    if (heap || any(vapply(own, `[[`, NA, "doubtful"))) {
      rest <- numeric(2)
      noise <- matrix(0, 2, CELLS - 1)
      for (each in own) {
        rest <- rest + (1 - each$shown) * each$gains
        noise <- noise + (1 - each$shown) * each$noise
      }
      moved <- sqrt(law_sd(law, noise)^2 + pmax(rest, 0)^2)
    } else {
      for (each in own) {
        bounds <- most * 0.25^each$place * c(1 / (2 * each$start), 1)
        reach <- sqrt(each$sds^2 + pmax((1 - each$shown) * each$gains, 0)^2)
        moved <- moved + pmin(reach, (1 - each$shown) * bounds)
      }
    }
    found <- sqrt(found^2 + moved^2)
  }
  found
}

# Whether a published centre and scale are those that a posterior gives, but for the last digits of a machine's arithmetic.
is_placed <- function(centre, log_scale, published, least) {
  middle <- round(STEPS * min(max(centre, -1), 1))
  scale <- min(max(round(STEPS * exp(min(log_scale, log(WINDOW)))), least), WINDOW * STEPS)
  sound <- abs(published[1]) <= STEPS && published[2] >= 1 && published[2] <= WINDOW * STEPS
  sound && abs(middle - published[1]) <= 1 + TOLERANCE * STEPS && abs(scale - published[2]) <= 1 + TOLERANCE * scale
}

# One number of a release of ranges: what its row of a block says, once it is clear that centre and scale follow from the counts.
read_row <- function(name, row, ends, rows, terms) {
  counts <- row[seq_len(CELLS - 1)]
  last <- row[CELLS - 1 + 1:7] # M1, S1, sum T, sum T^2, M, S, j
  most <- rows * c(2^12, LARGEST_CODE, LARGEST_CODE^2) +
    64 * floor(c(terms$counts_scale, terms$sum_scale, terms$square_scale) + 1)
  if (any(abs(counts) > most[1]) || abs(last[3]) > most[2] || abs(last[4]) > most[3] || !last[7] %in% (seq_len(REACHES) - 1)) {
    refuse(name, ": a noisy number of its range is larger than any that so many patients could give")
  }
  counted <- from_counts(distribution(counts, rows, terms$counts_scale))
  wrong <- !is_placed(counted$found[[1]], counted$found[[2]], last[1:2], 2 * STEPS / CELLS / WINDOW)
  found <- if (!wrong) from_sums(counted, last[1] / STEPS, last[2] / STEPS, last[3], last[4], rows, terms)
  if (wrong || !is_placed(found$centre, found$log_scale + 0.3 * found$log_scale_sd, last[5:6], 1)) {
    refuse(name, ": the centre and scale do not follow from the noisy numbers")
  }
  half <- diff(ends) / 2
  half_width <- min(floor(REACH * last[6] * 5^last[7] / 4^last[7]), 16 * STEPS)
  list(
    name = name, ends = ends, law = counted$law, margin = margin_of(counted$law, last[5] / STEPS, last[6] / STEPS),
    reach = last[7], centre = last[5], half_width = half_width, mean = mean(ends) + half * last[5] / STEPS,
    mean_error = half * found$mean_error, deviation = half * found$deviation, deviation_error = half * found$deviation_error
  )
}

# The nonnegative shares nearest to noisy counts (Lawson and Hanson 1974, Solving least squares problems, chapter 23).
nonnegative <- function(matrix, wanted) {
  found <- numeric(ncol(matrix))
  free <- logical(ncol(matrix))
  slope <- as.vector(crossprod(matrix, wanted))
  least <- 1e-9 * max(abs(slope))
  while (any(!free & slope > least)) {
    free[which.max(ifelse(free, -Inf, slope))] <- TRUE
    repeat {
      tried <- numeric(length(found))
      tried[free] <- qr.coef(qr(matrix[, free, drop = FALSE], LAPACK = TRUE), wanted)
      low <- free & tried <= 0
      if (!any(low)) break
      found <- found + min((found / (found - tried))[low]) * (tried - found)
      free <- free & found > 1e-14
      found[!free] <- 0
    }
    found <- tried
    slope <- as.vector(crossprod(matrix, wanted - matrix %*% found))
  }
  found
}

# The bounds that a release found for a number without any, once it is clear that they follow from its noisy counts of decades.
read_box <- function(name, row, rows, scale) {
  counts <- row[seq_len(DECADE_CELLS - 1)]
  box <- row[DECADE_CELLS - 1 + 1:2]
  if (any(abs(counts) > rows * 2^12 + 64 * floor(scale + 1))) {
    refuse(name, ": a noisy count of decades is larger than any that so many patients could give")
  }
  sums <- prefix_sums(DECADE_CELLS)
  error <- scale / rows
  shares <- nonnegative(rbind(cbind(sums$factor, 0) / error, 1000), c(counts / rows / error, 1000))
  shares <- c(-1, cumsum(shares)[-DECADE_CELLS], 2)
  tail <- min(0.25, max(0.03, 2.5 * error * sqrt(max(diag(sums$covariance)))))
  low <- box[1] + 1
  high <- box[2] + 1
  true <- box[1] >= 0 && low < high && box[2] <= DECADE_CELLS && shares[low] <= tail + TOLERANCE &&
    shares[low + 1] > tail - TOLERANCE && shares[high - 1] < 1 - tail + TOLERANCE && shares[high] >= 1 - tail - TOLERANCE
  if (!true) refuse(name, ": its box does not follow from the noisy counts of decades")
  DECADE_EDGES[c(low, high)]
}

# Every private number's range, party after party, from the blocks of a release of ranges or of a first round.
read_ranges <- function(release, terms) {
  found <- list()
  guessed <- guess_of(release, terms)
  for (party in names(release$parties)) {
    own <- private_numbers(release$columns[party_columns(release, party)])
    blocks <- lapply(release$blocks[[party]], function(block) signed_integers(block$values))
    ends <- lapply(own, `[[`, "ends")
    unknown <- names(own)[vapply(own, `[[`, NA, "unbounded")]
    if (length(terms$decades_scale)) {
      decades <- matrix(blocks[[1]], ncol = DECADE_CELLS + 1, byrow = TRUE)
      blocks <- blocks[-1]
      for (at in seq_along(unknown)) ends[[unknown[at]]] <- read_box(unknown[at], decades[at, ], release$rows, terms$decades_scale)
    }
    rows <- matrix(blocks[[1]], ncol = CELLS + 6, byrow = TRUE)
    read <- lapply(seq_along(own), function(at) read_row(names(own)[at], rows[at, ], ends[[at]], release$rows, terms))
    wrong <- wrong_reach(read, guessed)
    if (length(wrong)) refuse(read[[wrong[1]]]$name, ": its reach does not follow from the noisy numbers")
    found <- c(found, read)
  }
  names(found) <- vapply(found, `[[`, "", "name")
  found
}

private_numbers <- function(columns) Filter(function(each) each$kind == "number" && !each$public, columns)
party_columns <- function(release, party) vapply(release$parties[[party]]$columns, `[[`, "", "name")

# Little-endian signed 64-bit integers, as doubles.
signed_integers <- function(bytes) {
  words <- matrix(readBin(bytes, "integer", length(bytes) / 4, 4, endian = "little"), 2)
  words[is.na(words)] <- -2^31 # R's NA
  words[2, ] * 2^32 + words[1, ] %% 2^32
}

# The ranges that a release has counts of.
published_ranges <- function(release) {
  stopifnot(inherits(release, "dp_release"))
  found <- Filter(function(each) !is.null(each$law), release$ranges)
  if (!length(found)) refuse("this release publishes no ranges of its own; dp_moments() has the means of its numbers")
  found
}

# What a release says of single numbers: mean, standard deviation and their errors, and the ends of what later rounds code.
dp_ranges <- function(release) {
  do.call(rbind, lapply(unname(published_ranges(release)), function(each) {
    unit <- diff(each$ends) / 2 / STEPS
    data.frame(
      column = each$name, unit = release$columns[[each$name]]$unit, mean = each$mean, mean_error = each$mean_error,
      sd = each$deviation, sd_error = each$deviation_error,
      lower = mean(each$ends) + unit * (each$centre - each$half_width),
      upper = mean(each$ends) + unit * (each$centre + each$half_width)
    )
  }))
}
