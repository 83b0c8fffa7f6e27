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
  epsilon <- epsilon_of(sqrt(spent_of(release)), target$delta)
  if (epsilon > target$epsilon * (1 + ROUNDING)) refuse("the spec does not give the guarantee it claims")
  said <- regmatches(manifest$guarantee[[1]], regexec("^Joint: \\(epsilon, delta\\) = \\(([-+.0-9e]+), ([-+.0-9e]+)\\)", manifest$guarantee[[1]]))[[1]]
  printed <- suppressWarnings(as.numeric(said[-1]))
  exact <- c(epsilon, target$delta)
  true <- length(printed) == 2 && !anyNA(printed) && all(printed >= exact * (1 - ROUNDING) & printed <= exact * (1 + 1e-5))
  if (!true || !identical(unlist(manifest$guarantee), guarantee_words(release, said[2], said[3]))) {
    refuse("the guarantee printed in the manifest is not the one its spec gives")
  }
  if (!identical(unlist(manifest$trust), trust_words(release))) {
    refuse("the trust statement printed in the manifest is not the one that holds")
  }
}

several <- function(count) if (count == 1) "hospital" else sprintf("%d hospitals", count)

guarantee_words <- function(release, epsilon, delta) {
  shown <- vapply(release$columns, `[[`, NA, "public")
  open <- any(shown)
  terms <- release$terms
  figures <- sprintf(
    "Joint: (epsilon, delta) = (%s, %s) for all %s columns of a patient", epsilon, delta, if (open) "private" else "released"
  )
  owners <- Filter(function(part) !all(vapply(part$columns, `[[`, NA, "public")), release$parties)
  split <- if (length(terms$parts)) {
    paste0("in parts: ", paste(names(owners), unlist(terms$parts), collapse = ", "))
  } else {
    paste0("to the hospitals ", if (open) "with a private column ", "in equal parts")
  }
  who <- if (terms$curious == 1) "any single hospital" else sprintf("any %d hospitals that pool what they saw", terms$curious)
  first <- if (length(release$parties) == 1) {
    paste0(figures, ", provided the hospital added its declared noise.")
  } else {
    paste0(
      figures, ", against the public, the hub, and ", who, ", also with the hub, provided every other hospital added its ",
      "declared noise. Its price is charged ", split, "."
    )
  }
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

trust_words <- function(release) {
  curious <- release$terms$curious
  found <- if (length(release$parties) == 1) {
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
      paste(
        "Not covered: a hospital that runs altered software can feed numbers outside the declared bounds and read chosen",
        "patients' cells of other hospitals, undetected. Blocks of mechanism 'mixed' do not have this weakness."
      )
    )
  }
  open <- any(vapply(release$columns, `[[`, NA, "public"))
  c(found, if (open) "Public columns are the exception: their rows were published exactly, for everybody to read.")
}
