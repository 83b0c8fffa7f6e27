# Columns that are outcomes only, whose products with one another are not released (docs/guarantees.md 16). In Python
# dprelease.mechanisms.moments.sensitivity.

ASSOCIATION_TERMS <- c("outcomes", "scale", "split", "square_scale")

outcomes_of <- function(release) unlist(release$terms$association$outcomes)

# Distinct columns, and a guarantee whose name follows from which side of a regression is public.
check_outcomes <- function(release) {
  named <- outcomes_of(release)
  known <- names(release$columns)
  if (anyDuplicated(named) || !length(named) || !all(named %in% known) || length(named) == length(known)) {
    refuse("not a valid manifest: outcomes are distinct columns of the release, and at least one column is none of them")
  }
  shown <- vapply(release$columns, `[[`, NA, "public")
  sides <- unique(known[shown] %in% named)
  label <- if (length(sides) != 1) c("DP", "mixed")[1 + (length(sides) > 0)] else if (sides) "feature-DP" else "label-DP"
  owners <- norm_owners(release)
  stated <- release$terms$association$public_norm2
  if (!is.null(stated) && (length(owners) != 1 || !rational(stated) > 0)) {
    refuse("not a valid manifest: a norm of public outcomes is positive, and stated where one party has all of them")
  }
  if (release$guarantee != label) refuse("not a valid manifest: its guarantee has another name")
}

# Hospitals with public outcomes.
norm_owners <- function(release) {
  shown <- names(release$columns)[vapply(release$columns, `[[`, NA, "public")]
  Filter(function(party) any(party_columns(release, party) %in% intersect(shown, outcomes_of(release))), names(release$parties))
}

# mu^2 that the declared scales give, once it is clear that they are those of mu2 and of the split.
spent_on_outcomes <- function(release) {
  terms <- release$terms
  stated <- terms$association$public_norm2
  column <- do.call(rbind, lapply(release$columns, function(each) {
    data.frame(private = !each$public, number = each$kind == "number", outcome = each$name %in% outcomes_of(release))
  }))
  feature <- column[!column$outcome, ]
  outcome <- column[column$outcome, ]
  open <- any(feature$private)
  norm2 <- 1 + nrow(feature)
  shown <- sum(!outcome$private)
  outcome2 <- sum(outcome$private) + if (open) min(shown, if (is.null(stated)) Inf else rational(stated)) else 0
  numbers <- sum(feature$private & feature$number)
  v <- norm2 - numbers + (numbers + 1) / 2
  t <- if (any(outcome$private & outcome$number)) norm2 * (if (open) 1 else 11 / 4) else Inf
  moves <- c(if (open) norm2^2 * c(1, 1 / v) else c(0, 0), 4 * norm2 * outcome2 * c(1, 1 / t))
  squared <- release$rows_per_subject^2 * 16^release$grid_bits * moves
  shares <- length(release$parties) - terms$curious
  mu2 <- rational(terms$mu2)
  split <- rational(terms$association$split)
  scales <- c(terms$scale, terms$diagonal_scale, terms$association$scale, terms$association$square_scale)
  costs <- mu2 / (1 + split)^2 * c(1, 1, 4 * split, 4 * split)
  least <- ifelse(squared > 0, sqrt((squared / costs + 4) / shares), 0)
  sound <- mu2 > 0 && shares > 0 && all(abs(scales - least) <= ROUNDING * least) && min(scales[scales > 0]) >= 100 &&
    min(squared[c(1, 3)][squared[c(1, 3)] > 0]) >= 1e4 * mu2 && (if (open) split > 0 && split <= 1023 / 1024 else split == 1)
  if (!sound) refuse("the noise that the release declares is not what its guarantee asks for")
  found <- ifelse(squared > 0, squared / (shares * scales^2 - 4), 0)
  first <- max(found[1:2])
  second <- max(found[3:4])
  if (first > 0 && second <= 4 * first * (1 + ROUNDING)) first + second / 2 + (second / 2)^2 / (4 * first) else first + second
}

# No patient's public outcomes are longer than their owner stated.
check_public_norm <- function(release, codes) {
  stated <- release$terms$association$public_norm2
  if (is.null(stated)) return(invisible())
  longest <- max(rowSums(codes[, is_outcome(release)[release$layout$variables$public], drop = FALSE]^2))
  if (longest > rational(stated) * 4^release$grid_bits) refuse("some patient's public outcomes are longer than the noise is for")
}

# The noise scale of each party's share of every noisy entry.
entry_scale <- function(release) {
  entries <- release$layout$entries
  terms <- release$terms
  scale <- ifelse(entries$square, terms$diagonal_scale, terms$scale)
  if (!length(terms$association)) return(scale)
  one <- is_outcome(release)
  ifelse(
    one[entries$row] | one[entries$column],
    ifelse(entries$square, terms$association$square_scale, terms$association$scale), scale
  )
}

# Products of two different outcomes.
unreleased <- function(release) {
  only <- is_outcome(release)
  outer(only, only) & outer(seq_along(only), seq_along(only), `!=`)
}

# Which variables are outcomes only, the constant first.
is_outcome <- function(release) c("", names(release$columns))[release$layout$variables$column + 1] %in% outcomes_of(release)
