# Streams (docs/format.md, section 18): blocks of a checkpoint add up to sums over all patients so far. In Python
# dprelease.mechanisms.stream.

STREAM_TERMS <- c("checkpoint", "factor", "mechanism", "most_rows", "of")
MOST_CHECKPOINTS <- 4096

# The spec as the mechanism behind a stream reads it, with all patients so far; what the stream adds to it is `stream`.
within_stream <- function(spec) {
  terms <- spec$terms
  if (!identical(terms$mechanism, "stream")) {
    spec$batches <- c("1" = spec$rows)
    spec$scaling <- list(rows = spec$rows, largest = 1, noise = 1, repeats = 1)
    return(spec)
  }
  bad <- function(why) refuse("not a valid manifest: ", why)
  fields(terms, "terms", STREAM_TERMS, c("checkpoints", "first", "history", "previous"))
  for (each in terms$history) fields(each, "an earlier checkpoint", c("checkpoint", "rows"))
  used <- c(vapply(terms$history, `[[`, 0, "checkpoint"), terms$checkpoint)
  batches <- structure(c(vapply(terms$history, `[[`, 0, "rows"), spec$rows), names = used)
  most <- if (is.null(terms$checkpoints)) MOST_CHECKPOINTS else terms$checkpoints
  later <- c(length(terms$history) > 0, !is.null(terms$first), !is.null(terms$previous))
  if (used[1] != 1 || is.unsorted(used, strictly = TRUE) || max(used, most) > MOST_CHECKPOINTS || terms$checkpoint > most) {
    bad("checkpoints are numbered upwards from 1")
  }
  if (any(later != (terms$checkpoint > 1)) || !all(grepl(DIGEST, c(terms$first, terms$previous)))) {
    bad("a later checkpoint names the first, the previous and all before it, and the first one names none")
  }
  if (!terms$factor %in% c("square-root", "weighted", "tree") || is.null(terms$checkpoints) != (terms$factor == "weighted")) {
    bad("a stream adds up in a way that is not known")
  }
  if (any(batches < 1) || sum(batches) > terms$most_rows) bad("a stream has more patients than it has room for")
  inner <- if (is.character(terms$of$mechanism)) terms$of$mechanism else "another mechanism"
  if (!inner %in% c("mixed", "moments")) bad(paste("a stream of", inner))
  if (length(terms$of$first) || length(terms$of$association) || identical(terms$of$mixing$kind, "buckets")) {
    bad("a stream has neither a first round, nor outcomes, nor buckets")
  }
  if (any(unlist(lapply(spec$parties, function(part) vapply(part$columns, `[[`, NA, "public"))))) bad("a stream has no public columns")
  factor <- factor_of(terms$factor, used, most)
  # The shortest weights that count each patient once.
  weights <- as.vector(factor$rows %*% solve(crossprod(factor$rows), rep(1, length(used))))
  spec$terms <- terms$of
  spec$rows <- sum(batches)
  spec$batches <- batches
  spec$stream <- list(checkpoint = terms$checkpoint, most = most, weights = weights, noise = sqrt(sum(weights^2) * factor$norm2))
  spec$scaling <- list(
    rows = terms$most_rows, largest = if (terms$factor == "tree") 1 else 2^12, noise = sqrt(factor$norm2), repeats = length(weights)
  )
  spec
}

# The released rows of C', a column for each checkpoint that was published, and the largest squared norm of a column of the whole.
factor_of <- function(name, used, most) {
  if (name == "tree") {
    rows <- lapply(used, function(at) {
      sizes <- 2^(0:12)
      t(vapply(sizes[at %% sizes == 0], function(size) as.numeric(used <= at & used > at - size), numeric(length(used))))
    })
    rows <- lapply(rows, matrix, ncol = length(used))
    return(list(rows = do.call(rbind, rows), norm2 = floor(log2(most)) + 1))
  }
  # R's cumprod and sum round otherwise than IEEE doubles, from left to right, do.
  ratios <- function(step, less) (step * seq_len(most) - less) / (step * seq_len(most))
  values <- Reduce(`*`, ratios(2, 1)[-most], 1, accumulate = TRUE)
  weights <- if (name == "weighted") Reduce(`*`, ratios(20, 9), accumulate = TRUE) else rep(1, most)
  squares <- numeric(most)
  for (back in seq_len(most)) {
    at <- seq_len(most + 1 - back)
    squares[at] <- squares[at] + (values[back] * weights[at + back - 1])^2
  }
  norms <- sqrt(squares)
  column <- function(at) round(values[seq_len(most + 1 - at)] * weights[at:most] / norms[at] * 2^12)
  rows <- t(vapply(used, function(at) {
    there <- used[used <= at]
    c(round(values[at + 1 - there] * weights[at] / norms[there] * 2^12), numeric(length(used) - length(there)))
  }, numeric(length(used))))
  list(rows = matrix(rows, length(used)), norm2 = max(vapply(seq_len(most), function(at) sum(column(at)^2), 0)))
}

# Released integers of everybody so far, as one release without a stream would have them.
prefix_of <- function(release, values) {
  if (is.null(release$stream)) return(values)
  as.vector(release$stream$weights %*% matrix(values, release$scaling$repeats, byrow = TRUE))
}

# The mixing of a checkpoint, whose seed follows from that of the first.
mixing_at <- function(mixing, checkpoint) {
  if (checkpoint > 1) mixing$seed <- sha256(c(from_hex(mixing$seed), big_endian(checkpoint, 8)))
  mixing
}

# The sentences of a stream in a guarantee and in a trust statement; none elsewhere.
stream_words <- function(release) {
  if (is.null(release$stream)) return(NULL)
  whom <- if (release$rows_per_subject == 1) {
    "one row of a patient at one checkpoint; a patient who is in g rows faces g times mu"
  } else {
    sprintf("a patient who is in at most %d rows of all checkpoints together", as.integer(release$rows_per_subject))
  }
  sprintf(
    paste(
      "This is checkpoint %d of a stream of at most %d: the figures are for all of them together, and were charged once, with the",
      "first. They cover %s."
    ), as.integer(release$stream$checkpoint), as.integer(release$stream$most), whom
  )
}

kept_words <- function(release) {
  if (!is.null(release$stream)) {
    paste(
      "Between checkpoints each hospital keeps its part of what is added up. The parts of all hospitals together are exact sums over",
      "the patients of single checkpoints."
    )
  }
}
