# What a release of joint moments guarantees (docs/format.md, sections 9 and 10), worked out again from its declared noise.

ROUNDING <- 1e-9 # relative; Python's rational arithmetic needs none

# The least epsilon at which Gaussian differential privacy of mu keeps to delta, on the log scale.
epsilon_of <- function(mu, delta) {
  excess <- function(epsilon) {
    first <- stats::pnorm(mu / 2 - epsilon / mu, log.p = TRUE)
    second <- epsilon + stats::pnorm(-mu / 2 - epsilon / mu, log.p = TRUE)
    if (second >= first) return(-1e6)
    first + log(-expm1(second - first)) - log(delta)
  }
  if (excess(0) <= 0) return(0)
  high <- 1
  while (excess(high) > 0) high <- 2 * high
  stats::uniroot(excess, c(0, high), tol = 1e-13 * high)$root
}

rational <- function(text) {
  part <- read_doubles(strsplit(text, "/", fixed = TRUE)[[1]])
  part[1] / c(part, 1)[2]
}

# mu^2 that the declared scales give, once it is clear that they are those of mu2.
spent_of <- function(release) {
  column <- do.call(rbind, lapply(release$columns, function(each) {
    data.frame(public = each$public, number = each$kind == "number", many = length(each$values) > 2)
  }))
  private <- column[!column$public, ]
  p_n <- sum(private$number)
  g <- sum(private$many)
  p_b <- nrow(private) - p_n - g
  P2 <- 1 + sum(column$public)
  beta <- p_n + p_b + g
  gamma <- p_n + p_b
  bracket <- gamma < P2
  delta2 <- (P2 + beta)^2 - if (bracket) (P2 - gamma)^2 + g else 0
  v <- if (bracket) 1 else P2 + g + p_b + (p_n + 1) / 2
  terms <- release$terms
  if (length(terms$clipping)) {
    clipped <- clipped_sensitivity(release)
    delta2 <- clipped$squared
    v <- clipped$weight
  }
  square <- release$rows_per_subject^2 * 16^release$grid_bits * delta2
  shares <- length(release$parties) - terms$curious
  mu2 <- rational(terms$mu2)
  fitting <- function(scale, variance) abs(scale / sqrt((variance / mu2 + 4) / shares) - 1) < ROUNDING
  sound <- beta > 0 && mu2 > 0 && shares > 0 && fitting(terms$scale, square) && fitting(terms$diagonal_scale, square / v) &&
    min(terms$scale, terms$diagonal_scale) >= 100 && square >= 1e4 * mu2
  if (!sound) refuse("the noise that the release declares is not what its guarantee asks for")
  square / min(shares * terms$scale^2 - 4, v * (shares * terms$diagonal_scale^2 - 4))
}

check_guarantee <- function(manifest, release) {
  target <- release$target
  fields(target, "target", c("delta", "epsilon", "scope"))
  terms <- release$terms
  ranges <- if (terms$mechanism == "ranges") terms else terms$first
  rows <- is_rows(release)
  own <- terms$mechanism == "ranges" || rows
  if (length(ranges) && target$scope != "joint") refuse("not a valid manifest: ranges with a target of another scope")
  first <- if (length(ranges)) spent_on_ranges(release, ranges) else 0
  alone <- first + if (rows) spent_on_rows(release) else 0
  last <- if (own) 0 else if (length(terms$association)) spent_on_outcomes(release) else spent_of(release)
  spent <- sum(alone) + last
  epsilon <- epsilon_of(sqrt(spent), target$delta)
  bounded <- if (own && target$scope == "per-party") epsilon_of(sqrt(max(alone)), target$delta) else epsilon
  if (bounded > target$epsilon * (1 + ROUNDING)) refuse("the spec does not give the guarantee it claims")
  said <- regmatches(manifest$guarantee[[1]], regexec("^Joint: \\(epsilon, delta\\) = \\(([-+.0-9e]+), ([-+.0-9e]+)\\)", manifest$guarantee[[1]]))[[1]]
  price <- if (own) own_price(release, alone, manifest$guarantee) else moments_price(release)
  if (length(terms$first)) price <- c(price, rounds_words(release, 100 * sum(first) / spent, manifest$guarantee))
  price <- c(price, stream_words(release))
  true <- is_printed(said[-1], c(epsilon, target$delta))
  if (!true || !identical(unlist(manifest$guarantee), guarantee_words(release, said[2], said[3], price))) {
    refuse("the guarantee printed in the manifest is not the one its spec gives")
  }
  if (!identical(unlist(manifest$trust), trust_words(release))) {
    refuse("the trust statement printed in the manifest is not the one that holds")
  }
}

# Whether figures are what they must be, rounded up to six digits.
is_printed <- function(said, exact) {
  printed <- suppressWarnings(as.numeric(said))
  length(printed) == length(exact) && !anyNA(printed) && all(printed >= exact * (1 - ROUNDING) & printed <= exact * (1 + 1e-5))
}

several <- function(count) if (count == 1) "hospital" else sprintf("%d hospitals", count)

# The first sentences of a guarantee: the figure, whom it holds against, and what is charged to whom.
guarantee_words <- function(release, epsilon, delta, price) {
  shown <- vapply(release$columns, `[[`, NA, "public")
  open <- any(shown)
  first <- c(sprintf("Joint: (epsilon, delta) = (%s, %s) for %s", epsilon, delta, price[1]), price[-1])
  known <- "Membership, the number of patients and the declarations of the columns are public and not protected."
  if (!open) {
    return(c(first, paste("Neighbouring tables: all private cells of one patient, in all hospitals, are replaced.", known)))
  }
  side <- c("feature-DP" = "outcomes", "label-DP" = "features", mixed = "features and outcomes")[[release$guarantee]]
  listed <- function(which) paste(names(release$columns)[which], collapse = ", ")
  c(first, paste0(
    "Neighbouring tables: the private cells of one patient, in all hospitals, are replaced, and no public one: columns ",
    listed(!shown), ". ", known
  ), paste0(
    "This is ", release$guarantee, ": the public columns are ", side, " and not protected, the private ones are. The public ",
    "columns are published exactly, patient by patient, and are outside the guarantee: ", listed(shown),
    ". Inferences from them about private columns are outside it too."
  ))
}

moments_price <- function(release) {
  open <- any(vapply(release$columns, `[[`, NA, "public"))
  terms <- release$terms
  whose <- sprintf("all %s columns of a patient", if (open) "private" else "released")
  owners <- Filter(function(part) !all(vapply(part$columns, `[[`, NA, "public")), release$parties)
  split <- if (length(terms$parts)) {
    paste0("in parts: ", paste(names(owners), unlist(terms$parts), collapse = ", "))
  } else {
    paste0("to the hospitals ", if (open) "with a private column ", "in equal parts")
  }
  who <- if (terms$curious == 1) "any single hospital" else sprintf("any %d hospitals that pool what they saw", terms$curious)
  c(
    if (length(release$parties) == 1) {
      paste0(whose, ", provided the hospital added its declared noise.")
    } else {
      paste0(
        whose, ", against the public, the hub, and ", who, ", also with the hub, provided every other hospital added its ",
        "declared noise. ", if (length(terms$first)) "The price of the moments" else "Its price", " is charged ", split, "."
      )
    },
    if (length(terms$range_proofs)) {
      sprintf(paste(
        "By range proofs this holds for the columns of the other hospitals also if %s altered software, with a delta larger by at",
        "most %s for each session."
      ), altered_by(terms$curious), proof_error(release))
    }
  )
}

# The sentence on a first round, which has so many percent of the price.
rounds_words <- function(release, percent, said) {
  # Exact fractions decide a half; doubles do not tell which way.
  whole <- unique(as.integer(round(percent + c(-1, 1) * 1e-6)))
  printed <- vapply(whole, function(one) any(grepl(sprintf("with %d %% of mu^2", one), unlist(said), fixed = TRUE)), NA)
  sprintf(paste(
    "Two rounds are in it: ranges of single columns, with %d %% of mu^2, of which each hospital is charged what its own columns",
    "cost, and then %s of rows as coded in these ranges."
  ), c(whole[printed], whole)[1], noun_of(release))
}

noun_of <- function(release) c(mixed = "mixtures", rows = "noisy copies", moments = "moments")[[release$terms$mechanism]]

# The same of blocks that hospitals make alone, where every hospital's own figure is printed too.
own_price <- function(release, spent, said) {
  ranges <- release$terms$mechanism == "ranges"
  delta <- release$target$delta
  figures <- regmatches(said[[2]], gregexpr("(?<=epsilon = )[-+.0-9e]*[0-9]", said[[2]], perl = TRUE))[[1]]
  exact <- vapply(spent[spent > 0], function(mu2) epsilon_of(sqrt(mu2), delta), 0)
  if (!is_printed(figures, exact)) refuse("the guarantee printed in the manifest is not the one its spec gives")
  each <- rep(if (ranges) "no range" else "nothing private", length(spent))
  each[spent > 0] <- paste("epsilon =", figures)
  at <- regmatches(said[[2]], regexec("at delta = ([-+.0-9e]+):", said[[2]]))[[1]][2]
  c(
    paste0(
      if (ranges) "the ranges of all numeric columns of a patient" else "a patient who is in every block",
      ", provided every hospital added its declared noise."
    ),
    paste0("Each hospital's own columns, unconditional, at delta = ", at, ": ", paste(names(spent), each, sep = ": ", collapse = "; "), ".")
  )
}

altered_by <- function(curious) {
  if (curious == 1) "one hospital runs" else sprintf("up to %d hospitals that pool run", curious)
}

# The probability that some false range proof passes in a session, as a power of two (docs/range_proofs.md 7).
proof_error <- function(release) {
  sprintf("2^%.1f", ceiling(10 * log2(384 * release$terms$curious / (2^61 - 1))) / 10)
}

proved_words <- function(release) {
  curious <- release$terms$curious
  c(
    sprintf(paste(
      "Before any block was made each hospital proved to %s that its columns keep the declared bounds, and showed all others the same",
      "columns. Each row has one level of each category and is no longer than the norms that the noise is for."
    ), if (curious == 1) "one other" else sprintf("%d others", curious)),
    sprintf(paste(
      "So a patient's cells in other hospitals are covered also if %s altered software, as long as whoever dealt their randomness",
      "followed the protocol and does not pool with them. A false proof passes in a session with probability %s at most."
    ), altered_by(curious), proof_error(release)),
    paste(
      "Not covered: other numbers within the bounds, which spoil the results and nobody's privacy, and a dealer that pools with a",
      "hospital that it dealt for."
    ),
    "Checked by range proofs; nobody outside has reviewed the proof yet."
  )
}

trust_words <- function(release) {
  curious <- release$terms$curious
  found <- if (release$terms$mechanism == "ranges" || is_rows(release)) {
    c(
      if (is_rows(release)) {
        "Each block was noised inside its hospital; no other party, the coordinator or the hub saw a row."
      } else {
        "Each hospital added the whole noise to its own columns; no other party, the coordinator or the hub saw a row."
      },
      paste(
        "The joint figure holds if every hospital added the noise it declared; each hospital's own figure needs no trust in anybody",
        "else."
      )
    )
  } else if (length(release$parties) == 1) {
    "The moments were computed and noised inside the one hospital; nobody else saw a row."
  } else {
    c(
      paste(
        "The hospitals computed the moments together on masked columns. If they followed the protocol, the hub, the public and",
        "the coordinator together learn the released numbers and nothing else."
      ),
      if (release$terms$dealer == "rotating") {
        paste(
          "A third hospital dealt the randomness for each pair: one hospital may be curious about the others, but no two may",
          "pool their protocol messages. The coordinator has no part in this."
        )
      } else {
        paste0(
          "The coordinator dealt the randomness: it must not collude with any hospital. Up to ",
          if (curious == 1) "one hospital" else several(curious), " may be curious about the others."
        )
      },
      "It rests on keys that the hospitals compared with one another, not on the coordinator's certificates.",
      if (length(release$terms$range_proofs)) {
        proved_words(release)
      } else {
        paste(
          "Not covered: a hospital that runs altered software can feed numbers outside the declared bounds and read chosen",
          "patients' cells of other hospitals, undetected. Blocks of mechanism 'mixed' do not have this weakness."
        )
      },
      if (length(release$terms$association$public_norm2) && !length(release$terms$range_proofs)) {
        paste0(
          "The noise for private features beside public outcomes counts on ", norm_owners(release), ", who has these outcomes, to have made ",
          "sure that no patient's are longer than stated. Every verifier makes sure again."
        )
      }
    )
  }
  open <- any(vapply(release$columns, `[[`, NA, "public"))
  c(
    found, if (length(release$terms$first)) "In the first round each hospital added the whole noise to the ranges of its own columns.",
    kept_words(release), if (open) "Public columns are the exception: their rows were published exactly, for everybody to read.",
    if (length(release$terms$clipping)) clipping_words(release),
    if (is_rows(release) && length(release$terms$first)) {
      noun <- noun_of(release)
      paste0(toupper(substr(noun, 1, 1)), substring(noun, 2), " are of numbers as clipped to the ranges that the first round published.")
    }
  )
}
