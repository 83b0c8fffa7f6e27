# Noisy rows (docs/format.md, sections 6 and 7): mechanisms mixed and rows. In Python dprelease.mechanisms.noisy_rows.

NOISE_TERMS <- c("anchor_scale", "mu2", "party", "scale")
MOST_INTEGER <- 2^53
LEAST_IN_BUCKET <- 20
BYTES_AT_ONCE <- 2^22

is_rows <- function(release) release$terms$mechanism %in% c("mixed", "rows")

# Terms of noisy rows.
check_rows_terms <- function(terms) {
  fields(terms, "terms", c("anchor_weight", "mechanism", "noise", if (terms$mechanism == "mixed") "mixing"), "first")
  if (length(terms$first)) fields(terms$first, "terms", RANGES_TERMS, "decades_scale")
  for (each in terms$noise) fields(each, "the noise of a party", NOISE_TERMS)
  if (terms$mechanism == "mixed") fields(terms$mixing, "mixing", c("kind", "outputs", "seed"))
  terms
}

check_rows <- function(release) {
  terms <- release$terms
  bad <- function(why) refuse("not a valid manifest: ", why)
  rho <- rational(terms$anchor_weight)
  anchored <- vapply(terms$noise, function(each) !is.null(each$anchor_scale), NA)
  if (!identical(vapply(terms$noise, `[[`, "", "party"), names(release$parties))) bad("noise must name the parties, in their order")
  if (rho < 0 || rho >= 1 || any(anchored != (rho > 0))) bad("a row of sums has a weight below 1, and a noise scale")
  if (!length(terms$first) && any(vapply(release$columns, `[[`, NA, "unbounded"))) bad("rows in public bounds of a column that has none")
  if (terms$mechanism == "rows") {
    if (rho > 0 || any(vapply(release$columns, `[[`, NA, "public"))) bad("rows of single patients have neither sums nor public columns")
    return(invisible())
  }
  mixing <- terms$mixing
  least <- if (identical(mixing$kind, "buckets")) LEAST_IN_BUCKET * release$rows_per_subject else 1
  if (!mixing$kind %in% c("bernoulli", "buckets") || !grepl(DIGEST, mixing$seed)) bad("a mixing of another kind")
  if (mixing$outputs < 1 || mixing$outputs * least > release$scaling$rows) bad("too few patients for the mixing rows")
}

# How much of a column of weight 1 every released private column has, a number for each.
column_weights <- function(release, party) {
  part <- release$parties[[party]]
  own <- release$columns[party_columns(release, party)]
  weights <- if (length(part$weights)) unlist(part$weights) else rep(1, length(own))
  if (length(weights) != length(own) || any(weights < 1 | weights > 16 | weights %% 1 != 0)) {
    refuse("not a valid manifest: a weight for each column of ", party, ", from 1 to 16")
  }
  unlist(Map(function(each, weight) if (!each$public) rep(weight, length(each$released)), own, weights), use.names = FALSE)
}

squared_norm <- function(terms) if (terms$mechanism == "mixed" && terms$mixing$kind == "bernoulli") terms$mixing$outputs else 1

# mu^2 of every hospital's block, once it is clear that the declared scales are those of its share and bounds.
spent_on_rows <- function(release) {
  terms <- release$terms
  rho <- rational(terms$anchor_weight)
  norm <- squared_norm(terms)
  found <- vapply(terms$noise, function(noise) {
    own <- Filter(function(each) !each$public, release$columns[party_columns(release, noise$party)])
    weights <- column_weights(release, noise$party)
    first <- cumsum(c(1, lengths(lapply(own, `[[`, "released"))))[seq_along(own)]
    contrast <- vapply(own, function(each) if (each$kind == "number") 4 else 2, 0)
    moved <- release$rows_per_subject^(if (terms$mechanism == "mixed") 2 else 1)
    squared <- sum(contrast * weights[first]^2) * moved * 4^release$grid_bits
    mu2 <- rational(noise$mu2)
    least <- if (squared) sqrt((squared / mu2 + 4) * c(norm / (1 - rho), if (rho > 0) 1 / rho)) else c(0, if (rho > 0) 0)
    scales <- c(noise$scale, noise$anchor_scale)
    scaling <- release$scaling
    sums <- scaling$rows * scaling$largest * max(weights, 1) * 2^release$grid_bits + 20 * scaling$noise * max(scales)
    sound <- all(abs(scales - least) <= ROUNDING * least) && (!squared || mu2 > 0 && squared >= 1e4 * mu2) && sums < MOST_INTEGER
    if (!isTRUE(sound)) refuse("the noise that the release declares is not what its guarantee asks for")
    if (squared) sum(squared * c(norm, if (rho > 0) 1) / (scales^2 - 4)) else 0
  }, 0)
  structure(found, names = names(release$parties))
}

rows_shape <- function(release, party) {
  terms <- release$terms
  count <- if (terms$mechanism == "rows") release$rows else terms$mixing$outputs + (rational(terms$anchor_weight) > 0)
  c(count, length(column_weights(release, party)))
}

# Bytes of the public stream of a seed, AES-256 in counter mode, from a multiple of 16 on.
public_stream <- function(seed, offset, size) {
  openssl::aes_ctr_encrypt(raw(size), from_hex(seed), c(raw(8), big_endian(offset / 16, 8)))
}

# B times columns of one row for each patient, exact: each checkpoint of a stream has a B of its own.
mixed_batches <- function(release, columns) {
  ends <- cumsum(release$batches)
  Reduce(`+`, lapply(seq_along(ends), function(at) {
    own <- columns[ends[at] - release$batches[at] + seq_len(release$batches[at]), , drop = FALSE]
    mixed_columns(mixing_at(release$terms$mixing, as.numeric(names(ends)[at])), own)
  }))
}

# B of one checkpoint times columns of one row for each of its patients.
mixed_columns <- function(mixing, columns) {
  k <- mixing$outputs
  buckets <- mixing$kind == "buckets"
  own <- if (buckets) 8 + (k + 7) %/% 8 else k
  stride <- (own + 15) %/% 16 * 16
  patients <- if (buckets) k else 8
  groups <- (nrow(columns) + patients - 1) %/% patients
  columns <- rbind(columns, matrix(0, groups * patients - nrow(columns), ncol(columns)))
  total <- matrix(0, k, ncol(columns))
  step <- max(1, BYTES_AT_ONCE %/% stride)
  for (start in seq(0, groups - 1, by = step)) {
    count <- min(step, groups - start)
    bytes <- matrix(as.integer(public_stream(mixing$seed, start * stride, count * stride)), stride)[seq_len(own), , drop = FALSE]
    first <- start * patients
    if (buckets) {
      turns <- Reduce(function(turn, at) (turn * 256 + bytes[at, ]) %% k, 8:1, numeric(count))
      for (at in seq_len(k) - 1) {
        signs <- 1 - 2 * (bytes[9 + at %/% 8, ] %/% 2^(at %% 8) %% 2)
        places <- (turns + at) %% k + 1
        found <- rowsum(signs * columns[first + at + 1 + k * (seq_len(count) - 1), , drop = FALSE], places)
        places <- as.integer(rownames(found))
        total[places, ] <- total[places, ] + found
      }
    } else {
      for (bit in 0:7) {
        signs <- 1 - 2 * (bytes %/% 2^bit %% 2)
        total <- total + signs %*% columns[first + bit + 1 + 8 * (seq_len(count) - 1), , drop = FALSE]
      }
    }
  }
  total
}

# Released rows in scaled units with equal noise along every column, and the constant column that they are mixtures of.
read_rows <- function(release) {
  terms <- release$terms
  rho <- rational(terms$anchor_weight)
  unit <- 2^-release$grid_bits
  mixing <- sqrt((1 - rho) / squared_norm(terms))
  times <- if (is.null(release$stream)) 1 else release$stream$noise
  noisy <- list()
  sd <- numeric()
  for (party in names(release$parties)) {
    shape <- rows_shape(release, party)
    if (!shape[2]) next
    values <- signed_integers(last_block(release, party))
    if (any(abs(values) >= MOST_INTEGER)) refuse("a party sent integers of 2^53 or more, which no honest block of this release has")
    values <- matrix(prefix_of(release, values), shape[1], byrow = TRUE)
    weights <- column_weights(release, party)
    noisy <- c(noisy, list(sweep(values, 2, weights, "/")))
    declared <- terms$noise[[match(party, names(release$parties))]]$scale
    sd <- c(sd, declared * times * unit * mixing / weights)
  }
  table <- do.call(cbind, noisy)
  shown <- vapply(release$columns, `[[`, NA, "public")
  released <- lapply(release$columns, `[[`, "released")
  colnames(table) <- names(sd) <- unlist(released[!shown])
  ones <- rep(1, nrow(table))
  weight <- rep(mixing, nrow(table))
  if (terms$mechanism == "mixed") {
    codes <- cbind(1, shown_codes(release))
    mixed <- rbind(if (rho > 0) colSums(codes), mixed_batches(release, codes))
    ones <- mixed[, 1]
    table <- cbind(table, mixed[, -1, drop = FALSE])
    sd <- c(sd, structure(rep(0, ncol(codes) - 1), names = colnames(codes)[-1]))
  }
  if (rho > 0) weight[1] <- sqrt(rho)
  readings <- do.call(rbind, lapply(seq_along(release$columns), function(at) {
    each <- release$columns[[at]]
    ends <- if (each$kind != "number") c(-1, 1) else if (is.null(each$coded)) each$ends else each$coded
    data.frame(name = each$released, column = at, middle = mean(ends), half = diff(ends) / 2)
  }))
  readings$place <- seq_len(nrow(readings))
  list(
    table = table[, readings$name, drop = FALSE] * unit * weight, ones = ones * weight, noise_sd = unname(sd[readings$name]),
    rows = release$rows, anchor = rho > 0, mixed = terms$mechanism == "mixed", readings = readings
  )
}

# Means of released columns and the standard deviations of their noise, scaled units.
row_means <- function(rows, places) {
  if (rows$anchor) return(list(mean = rows$table[1, places] / rows$ones[1], sd = rows$noise_sd[places] / rows$ones[1]))
  whole <- sum(rows$ones^2)
  if (!whole) return(list(mean = 0 * places, sd = rep(Inf, length(places))))
  list(mean = as.vector(rows$ones %*% rows$table[, places, drop = FALSE]) / whole, sd = rows$noise_sd[places] / sqrt(whole))
}

# The features in coordinates in which both their Gram matrix and their noise are diagonal.
directions_of <- function(gram, whole, variance, degrees) {
  d <- nrow(gram)
  lengths <- sqrt(diag(gram))
  hidden <- function(at) list(ratio = Inf, worst = at)
  if (any(lengths <= SINGULAR * whole)) return(hidden(which(lengths <= SINGULAR * whole)[1]))
  found <- spectrum(gram / outer(lengths, lengths))
  if (degrees <= d + 1 || found$values[1] <= SINGULAR) return(hidden(which.max(abs(found$vectors[, 1]))))
  white <- sweep(found$vectors, 2, sqrt(found$values), "/")
  noisy <- spectrum(crossprod(white, degrees * variance / lengths^2 * white))
  turned <- white %*% noisy$vectors
  if (noisy$values[d] >= 1) return(hidden(which.max(abs(turned[, d]))))
  factor <- 1 / (1 - noisy$values)
  ratio2 <- (factor * (factor + sum(factor)) - (1 + d)) / degrees
  list(ratio = sqrt(max(ratio2[d], 0)), worst = which.max(abs(turned[, d])), basis = turned / lengths, hiding = noisy$values)
}

# Estimates in scaled units; arguments and order as of `learned`. In Python dprelease.estimators.intervals.of_rows.
learned_rows <- function(view, x, y, points, repeats) {
  patients <- view$rows
  ones <- view$ones
  features <- view$table[, x, drop = FALSE]
  outcome <- view$table[, y]
  d <- length(x)
  degrees <- length(ones) - 1
  whole <- sum(ones^2)
  if (!whole) return(list(ratio = Inf, dropped = seq_len(d)))
  mean_x <- as.vector(ones %*% features) / whole
  mean_y <- sum(ones * outcome) / whole
  lengths <- sqrt(colSums(features^2))
  features <- features - outer(ones, mean_x)
  outcome <- outcome - ones * mean_y
  gram <- crossprod(features)
  variance <- view$noise_sd[x]^2
  look <- function(kept) directions_of(gram[kept, kept, drop = FALSE], lengths[kept], variance[kept], degrees)
  found <- look(seq_len(d))
  if (!found$ratio < LIMIT) return(list(ratio = found$ratio, dropped = dropped_features(d, look)))
  hiding <- found$hiding
  across <- as.vector(crossprod(found$basis, crossprod(features, outcome)))
  residual <- outcome - features %*% (found$basis %*% across)
  least <- sum(residual^2) / (degrees - d)

  sums <- cbind(diag(d), points - mean_x)
  inner <- crossprod(found$basis, sums)
  behind <- seq_len(ncol(sums)) > d
  apart <- ifelse(behind, 1 / whole, 0)
  lifted <- inner / (1 - hiding)
  curvature <- colSums(inner * lifted)
  path <- sweep(lifted, 2, ifelse(curvature + apart > 0, curvature + apart, Inf), "/")
  factor <- 1 / (1 - hiding)
  pull <- hiding * lifted * sweep(matrix(factor + sum(factor), d, ncol(sums)), 2, 2 * colSums(lifted * path)) / degrees
  stretch <- 1 + colSums(pull * path)
  solved <- across / (1 - hiding)
  values <- as.vector(crossprod(inner, solved)) - as.vector(crossprod(pull, solved)) / stretch + behind * mean_y

  fit <- as.vector(crossprod(found$basis, gram %*% values[seq_len(d)]))
  own <- view$noise_sd[y]^2
  mixing <- if (view$anchor) ones[-1] else ones
  counted <- if (view$anchor) patients * (1 - (ones[1] / patients)^2) else patients
  per_row <- counted / length(mixing)
  noise <- own + sum(hiding * fit^2) / degrees
  spread <- least + sum(hiding^2 * fit^2) / degrees
  sigma2 <- max(spread - noise, 0) / per_row
  error <- spread * sqrt(2 / (degrees - d)) / per_row
  mean_variance <- own / whole + repeats * sigma2 / patients
  if (view$mixed) mean_variance <- mean_variance + sigma2 * per_row * sum(mixing^2) / whole^2
  more <- (if (view$mixed) repeats else repeats - 1) * degrees * per_row / patients * sigma2

  scaled <- hiding * lifted
  form <- function(at) {
    diagonal <- hiding^2 * rep(colSums(lifted^2), each = d) + outer(hiding, apart)
    (diagonal * at + scaled * rep(colSums(scaled * at), each = d)) / degrees
  }
  noisy <- hiding * fit
  common <- (least + sum(noisy^2) / degrees) * lifted / (1 - hiding) +
    outer(noisy / (1 - hiding), as.vector(crossprod(lifted, noisy)) / degrees)
  moved <- colSums(inner * common)
  alone <- behind * mean_variance + apart * sum(noisy * fit) / degrees
  common <- sweep(common, 2, ifelse(moved > 0, moved + alone, Inf), "/")
  image <- form(common)
  per_patient <- least + sum(noisy^2) / degrees
  order <- c(d + 1, seq_len(d), seq_along(behind)[-seq_len(d + 1)])
  first <- order[seq_len(d + 1)]
  covariance <- crossprod(lifted[, first, drop = FALSE]) * per_patient + diag(alone[first]) +
    tcrossprod(as.vector(crossprod(scaled[, first, drop = FALSE], fit))) / degrees + more * crossprod(inner[, first, drop = FALSE], lifted[, first, drop = FALSE])
  variance <- colSums(lifted^2) * per_patient + alone + as.vector(crossprod(scaled, fit))^2 / degrees + more * curvature
  list(
    ratio = found$ratio, dropped = integer(), residual = c(truncated_mean((spread - noise) / per_row, error), error),
    degrees = degrees - d, value = values[first], covariance = covariance / outer(stretch[first], stretch[first]),
    variance = (variance / stretch^2)[order], lean = (2 * colSums(image * fit) / stretch^2)[order],
    bend = (pmax(colSums(image * common), 0) / stretch^2)[order]
  )
}
