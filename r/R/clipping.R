# Moments of rows as coded in ranges and clipped (docs/guarantees.md 17 and 19): terms, sensitivity and words. In Python
# dprelease.mechanisms.then and dprelease.mechanisms.moments.clipping.

NO_FIT <- paste(
  "a release of ranges says nothing on how columns go together: it has no rows and no moments to fit on; dp_ranges() shows what it",
  "says of each column"
)

# Terms of a release of moments, or of a first round of ranges; what R does not read is refused by its name.
check_terms <- function(spec) {
  terms <- spec$terms
  kind <- if (is.character(terms$mechanism)) terms$mechanism else "another mechanism"
  if (kind == "ranges") return(fields(terms, "terms", RANGES_TERMS, "decades_scale"))
  if (kind %in% c("mixed", "rows")) return(check_rows_terms(terms))
  if (kind != "moments") refuse("R reads releases of moments, noisy rows, ranges and streams, not of ", kind, PYTHON)
  fields(terms, "terms", MOMENTS_TERMS, c("parts", "clipping", "first", "association", "modulus", "range_proofs", "groups"))
  if (length(terms$modulus) && !identical(terms$modulus, "2^61-1")) refuse("not a valid manifest: a modulus that is not known")
  if (length(terms$range_proofs) && !(isTRUE(terms$range_proofs) && length(terms$modulus) && length(spec$parties) > 1)) {
    refuse("not a valid manifest: range proofs that cannot be made")
  }
  if (length(terms$groups) && !(identical(terms$dealer, "rotating") && terms$groups %in% 3:length(spec$parties))) {
    refuse("not a valid manifest: groups that hospitals cannot form")
  }
  if (length(terms$association)) fields(terms$association, "association", ASSOCIATION_TERMS, "public_norm2")
  if (length(terms$association) && length(terms$clipping)) refuse("not a valid manifest: rows are not clipped where outcomes are named")
  if (length(terms$first)) fields(terms$first, "terms", RANGES_TERMS, "decades_scale")
  clipping <- terms$clipping
  if (length(clipping)) {
    fields(clipping, "clipping", c("constant", "norms", "ranges", "square_weight", "weights"), "source")
    for (norm in clipping$norms) fields(norm, "a norm", c("columns", "squared"))
    for (each in clipping$ranges) fields(each, "a range", c("centre", "half_width", "name"), c("box", "reach"))
  }
  if (length(terms$first) && (!length(clipping) || length(clipping$ranges) || length(clipping$source))) {
    refuse("not a valid manifest: ranges that a first round publishes are for clipped rows, and are in no spec")
  }
  terms
}

MOMENTS_TERMS <- c("curious", "dealer", "diagonal_scale", "mechanism", "mu2", "scale")
RANGES_TERMS <- c("counts_scale", "mechanism", "mu2", "square_scale", "sum_scale")

# Clipping has a weight for each column, a range for each private number and norms of whole hospitals, in the spec's order.
check_clipping <- function(release) {
  clipping <- release$terms$clipping
  bad <- function(why) refuse("not a valid manifest: clipping ", why)
  weights <- unlist(clipping$weights)
  steps <- c(weights, clipping$constant)
  if (length(weights) != length(release$columns) || max(steps) != 2^release$grid_bits || any(steps < 1 | steps %% 1 != 0)) {
    bad("has a weight for each column, and the largest is the grid's unit")
  }
  names(weights) <- names(release$columns)
  own <- lapply(names(release$parties), function(party) names(private_numbers(release$columns[party_columns(release, party)])))
  named <- vapply(clipping$ranges, `[[`, "", "name")
  if (!length(release$terms$first) && !identical(named, unlist(own))) bad("has a range for each private number, in the order of the columns")
  for (each in clipping$ranges) {
    sound <- abs(each$centre) <= STEPS && each$half_width >= 1 && each$half_width <= 16 * STEPS
    if (!sound || release$columns[[each$name]]$unbounded != !is.null(each$box)) bad("has a range that its column cannot have")
  }
  places <- vapply(clipping$norms, function(norm) match(TRUE, vapply(own, identical, NA, unlist(norm$columns))), 0L)
  if (anyNA(places) || is.unsorted(places, strictly = TRUE)) bad("has a norm of something else than one hospital's numbers")
  for (norm in clipping$norms) {
    if (norm$squared < 1 || norm$squared >= sum(weights[unlist(norm$columns)]^2)) bad("has a norm that no row can exceed")
  }
}

# How far one patient moves clipped, weighted rows' products, squared and in scaled units, and the weight of squares.
clipped_sensitivity <- function(release) {
  clipping <- release$terms$clipping
  squares <- structure(unlist(clipping$weights)^2, names = names(release$columns))
  shown <- vapply(release$columns, `[[`, NA, "public")
  number <- vapply(release$columns, function(each) each$kind == "number", NA)
  many <- vapply(release$columns, function(each) length(each$values) > 2, NA)
  within <- unlist(lapply(clipping$norms, `[[`, "columns"))
  boxes <- squares[!shown & number & !names(squares) %in% within]
  public <- clipping$constant^2 + sum(squares[shown])
  binaries <- sum(squares[!shown & !number & !many])
  groups <- squares[!shown & many]
  radii <- vapply(clipping$norms, `[[`, 0, "squared")
  largest <- vapply(clipping$norms, function(norm) max(squares[unlist(norm$columns)]), 0)
  numbers <- sum(radii) + sum(boxes)
  fixed <- public + binaries + sum(groups)
  excess <- public - binaries - numbers
  v <- rational(clipping$square_weight)
  limit <- if (excess > 0 || !length(boxes)) Inf else 0.5 + (fixed + numbers / 2) / max(boxes)
  if (!is.finite(v) || v < 0.5 || v > limit * (1 + ROUNDING)) refuse("squares of these numbers have another weight")
  counted <- sum(pmin(largest, radii) * radii) + if (excess > 0) max(boxes, 0) * sum(boxes) else 0
  found <- (fixed + numbers)^2 + (2 * v - 1) * counted - if (excess > 0) excess^2 + sum(groups^2) else 0
  list(squared = found / 16^release$grid_bits, weight = v)
}

# mu^2 that the scales of ranges give, in all and by hospital, once it is clear that they are those of mu2.
spent_on_ranges <- function(release, terms) {
  numbers <- lapply(names(release$parties), function(party) private_numbers(release$columns[party_columns(release, party)]))
  own <- lengths(numbers)
  unknown <- vapply(numbers, function(each) sum(vapply(each, `[[`, NA, "unbounded")), 0)
  if (!sum(own) || !is.null(terms$decades_scale) != (sum(unknown) > 0)) refuse("not a valid manifest: ranges of other columns")
  mu2 <- rational(terms$mu2)
  each <- mu2 / (sum(own) + 0.5 * sum(unknown))
  many <- release$rows_per_subject^2
  total <- many * LARGEST_CODE^2 * 5.1447
  moves <- c(many * prefix_sums(CELLS)$sensitivity, total, total * LARGEST_CODE^2 / 4)
  scales <- c(terms$counts_scale, terms$sum_scale, terms$square_scale)
  costs <- each * c(0.6, 0.4, 0.4)
  if (sum(unknown)) {
    moves <- c(moves, many * prefix_sums(DECADE_CELLS)$sensitivity)
    scales <- c(scales, terms$decades_scale)
    costs <- c(costs, each / 2)
  }
  most <- c(release$rows * c(2^12, LARGEST_CODE, LARGEST_CODE^2)) + 64 * (scales[1:3] + 1)
  sound <- mu2 > 0 && all(abs(scales / sqrt(moves / costs + 4) - 1) < ROUNDING) && moves[1] >= 1e4 * costs[1] && all(most < 2^62)
  if (!sound) refuse("the noise that the release declares for its ranges is not what its guarantee asks for")
  spent <- moves / (scales^2 - 4)
  parties <- own * (spent[1] + max(spent[2:3])) + if (sum(unknown)) unknown * spent[4] else 0
  structure(parties, names = names(release$parties))
}

# The sentence on which rows moments are of.
clipping_words <- function(release) {
  clipping <- release$terms$clipping
  wider <- "Intervals of slopes are wider by an estimate of what that takes from them."
  if (!length(clipping$norms)) return(paste("Moments are of numbers as clipped to their published ranges.", wider))
  weights <- structure(unlist(clipping$weights), names = names(release$columns))
  bounds <- vapply(clipping$norms, function(norm) {
    names <- unlist(norm$columns)
    squares <- (weights[names] / REACH)^2
    owner <- Filter(function(party) names[1] %in% party_columns(release, party), names(release$parties))
    count <- if (length(names) == 1) "1 number" else sprintf("%d numbers", length(names))
    sprintf("%s r^2 = %.3g of %s", owner, norm$squared * length(squares) / sum(squares), count)
  }, "")
  paste0(
    "Moments are of rows as clipped: each private number to its published range, then each hospital's numbers of a patient, in units ",
    "of what each reaches from their centres, to a squared norm: ", paste(bounds, collapse = ", "), ". ", wider
  )
}

# Rows and columns of each block that a hospital sends, in order.
block_shapes <- function(release, party) {
  terms <- release$terms
  ranges <- if (terms$mechanism == "ranges") terms else terms$first
  own <- private_numbers(release$columns[party_columns(release, party)])
  unknown <- sum(vapply(own, `[[`, NA, "unbounded"))
  c(
    if (length(ranges$decades_scale)) list(c(unknown, DECADE_CELLS + 1)),
    if (length(ranges)) list(c(length(own), CELLS + 6)),
    if (terms$mechanism == "moments") list(c(release$scaling$repeats, nrow(release$layout$entries))),
    if (is_rows(release)) list(rows_shape(release, party) * c(release$scaling$repeats, 1))
  )
}

# The release with the ranges of its numbers, and readings of moments in them.
in_ranges <- function(release) {
  terms <- release$terms
  ranges <- if (terms$mechanism == "ranges") terms else terms$first
  if (length(ranges)) {
    release$ranges <- read_ranges(release, ranges)
  } else if (length(terms$clipping)) {
    release$ranges <- lapply(terms$clipping$ranges, function(each) {
      centre <- each$centre / STEPS
      reach <- if (is.null(each$reach)) 0 else each$reach
      scale <- each$half_width / (REACH * 1.25^reach) / STEPS
      box <- if (is.null(each$box)) release$columns[[each$name]]$ends else DECADE_EDGES[c(each$box$low, each$box$high) + 1]
      margin <- list(quantiles = guessed_quantiles(centre, scale), scale = scale, seen = TRUE)
      list(name = each$name, ends = box, margin = margin, reach = reach, centre = each$centre, half_width = each$half_width)
    })
    names(release$ranges) <- vapply(release$ranges, `[[`, "", "name")
  }
  for (each in release$ranges) {
    middle <- mean(each$ends)
    unit <- diff(each$ends) / 2 / STEPS
    release$columns[[each$name]]$ends <- each$ends
    if (terms$mechanism == "ranges") next
    ends <- middle + unit * (each$centre + c(-1, 1) * each$half_width)
    release$columns[[each$name]]$coded <- ends
    at <- match(each$name, release$layout$readings$name)
    release$layout$readings[at, c("middle", "half")] <- c(mean(ends), diff(ends) / 2)
  }
  release
}

# What a released integer of each noisy entry is worth, in scaled units.
entry_unit <- function(release) {
  clipping <- release$terms$clipping
  if (!length(clipping)) return(4^-release$grid_bits)
  one <- c(clipping$constant, unlist(clipping$weights))[release$layout$variables$column + 1]
  1 / (one[release$layout$entries$row] * one[release$layout$entries$column])
}
