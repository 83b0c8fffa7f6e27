# Joint moments (docs/format.md, section 14): declared columns become variables, and blocks add up to sums of their products.

read_column <- function(column) {
  shared <- c("kind", "name", "public", "unit")
  kind <- if (is.character(column$kind)) column$kind else ""
  switch(kind,
    numeric = fields(column, "a column", c(shared, "fill", "lower", "upper"), c("bounds", "derivation")),
    categorical = fields(column, "a column", c(shared, "fill", "levels"), c("derivation", "exhaustive")),
    ordered = fields(column, "a column", c(shared, "fill", "levels"), c("derivation", "scores")),
    refuse("not a valid manifest: a column of an unknown kind")
  )
  if (!grepl(NAME, column$name)) refuse("not a valid manifest: a column has no name")
  found <- list(name = column$name, unit = column$unit, public = isTRUE(column$public), kind = "number", unbounded = FALSE, values = character())
  if (kind == "categorical") {
    values <- c(unlist(column$levels), if (!isTRUE(column$exhaustive)) "other")
    if (anyDuplicated(values) || length(values) < 2) refuse("not a valid manifest: levels of ", column$name, " are not distinct")
    found$kind <- "category"
    found$values <- values
    found$ends <- c(0, 1)
    found$released <- paste0(column$name, "=", values)
    return(found)
  }
  found$unbounded <- !is.null(column$bounds)
  scores <- if (length(column$scores)) unlist(column$scores) else seq_along(column$levels) - 1
  found$ends <- if (kind == "ordered") range(scores) else c(column$lower, column$upper)
  unknown <- identical(column$bounds, "unknown") && all(abs(found$ends) == 1e9) && !found$public
  if (found$unbounded && !unknown) refuse("not a valid manifest: ", column$name, " has bounds and has none")
  if (!found$ends[1] < found$ends[2]) refuse("not a valid manifest: the bounds of ", column$name, " are not in order")
  found$released <- column$name
  found
}

# Variables, one row for each entry of x = (1, z); readings, one row for each released column; and noisy entries, row by row.
layout_of <- function(columns, outcomes = NULL) {
  variables <- data.frame(column = 0L, public = TRUE, number = FALSE, level = FALSE)
  readings <- NULL
  for (at in seq_along(columns)) {
    each <- columns[[at]]
    count <- max(1, if (length(each$values) > 2) length(each$values) else 1)
    binary <- length(each$values) == 2
    place <- nrow(variables) + if (binary) c(1, 1) else seq_len(count)
    middle <- if (binary) c(0.5, 0.5) else if (count > 1) rep(0, count) else mean(each$ends)
    half <- if (binary) c(0.5, -0.5) else if (count > 1) rep(1, count) else diff(each$ends) / 2
    readings <- rbind(readings, data.frame(name = each$released, column = at, place = place, middle = middle, half = half))
    variables <- rbind(variables, data.frame(
      column = rep(at, count), public = each$public, number = each$kind == "number", level = count > 1
    ))
  }
  size <- nrow(variables)
  row <- rep(seq_len(size), times = size:1)
  column <- unlist(lapply(seq_len(size), function(first) first:size))
  same <- variables$column[row] == variables$column[column]
  square <- same & variables$number[row]
  noisy <- (!same | square) & !(variables$public[row] & variables$public[column])
  only <- c("", names(columns))[variables$column + 1] %in% outcomes
  noisy <- noisy & (row == column | !(only[row] & only[column]))
  list(
    variables = variables, readings = readings,
    entries = data.frame(row = row, column = column, square = square)[noisy, ]
  )
}

public_names <- function(release, party) {
  own <- vapply(release$parties[[party]]$columns, `[[`, "", "name")
  unlist(lapply(release$columns[own], function(each) if (each$public) each$released), use.names = FALSE)
}

# Sums over patients of products of scaled variables, noise included, and the standard deviations of the noise.
read_moments <- function(release) {
  layout <- release$layout
  variables <- layout$variables
  entries <- layout$entries
  terms <- release$terms
  parties <- length(release$parties)
  unit <- entry_unit(release)
  scale <- entry_scale(release)
  sums <- add_up(lapply(names(release$parties), last_block, release = release), !is.null(terms$modulus))
  scaling <- release$scaling
  most <- scaling$rows * scaling$largest * 4^release$grid_bits + floor(20 * scaling$noise * scale * sqrt(parties)) + 1
  if (any(most >= if (is.null(terms$modulus)) 2^63 else 2^60)) refuse("not a valid manifest: sums of moments could wrap around")
  if (any(abs(sums) > rep(most, scaling$repeats))) {
    refuse("the parties' blocks do not add up to moments: a party sent numbers that do not belong to this computation")
  }
  sums <- prefix_of(release, sums)
  if (!is.null(release$stream)) scale <- scale * release$stream$noise
  codes <- public_codes(release)
  check_public_norm(release, codes)
  exact <- crossprod(codes) * 4^-release$grid_bits
  size <- nrow(variables)
  filled <- function(values, whole, shown) {
    found <- matrix(0, size, size)
    found[variables$public, variables$public] <- shown
    found[cbind(entries$row, entries$column)] <- values
    found[cbind(entries$column, entries$row)] <- values
    found[1, 1] <- whole
    for (at in which(!variables$public & !variables$number)) found[at, at] <- if (variables$level[at]) found[1, at] else whole
    found[unreleased(release)] <- NA
    found
  }
  list(
    gram = filled(sums * unit, release$rows, exact), noise_sd = filled(scale * sqrt(parties) * unit, 0, 0), rows = release$rows,
    level = variables$level, readings = layout$readings
  )
}

# The numbers of a party's last round, as bytes.
last_block <- function(release, party) release$blocks[[party]][[length(release$blocks[[party]])]]$values

# Words added modulo 2^64, or modulo the prime 2^61 - 1 in a field, and read as the integers nearest to 0, in halves of 32 bits
# that doubles hold exactly.
add_up <- function(blocks, field) {
  half <- lapply(blocks, function(bytes) matrix(readBin(bytes, "integer", length(bytes) / 4, 4, endian = "little"), 2))
  unsigned <- function(words) ifelse(is.na(words), 2^31, ifelse(words < 0, words + 2^32, words)) # -2^31 is R's NA
  lows <- lapply(half, function(words) unsigned(words[1, ]))
  highs <- lapply(half, function(words) unsigned(words[2, ]))
  low <- Reduce(`+`, lows)
  high <- Reduce(`+`, highs) + low %/% 2^32
  if (field) {
    none <- function(low, high) any(high >= 2^29 | (high == 2^29 - 1 & low == 2^32 - 1))
    if (any(mapply(none, lows, highs))) refuse("a block has a number that is no element modulo 2^61 - 1")
    low <- low %% 2^32
    for (time in 1:2) { # 2^61 counts once
      low <- low + high %/% 2^29
      high <- high %% 2^29 + low %/% 2^32
      low <- low %% 2^32
    }
    negative <- high >= 2^28
    return((high - 2^29 * negative) * 2^32 + (low + negative))
  }
  high <- high %% 2^32
  ifelse(high >= 2^31, high - 2^32, high) * 2^32 + low %% 2^32
}

# The public columns on the grid, patient by patient, party after party.
shown_codes <- function(release) {
  unit <- 2^release$grid_bits
  found <- list(matrix(0, release$rows, 0))
  for (party in names(release$parties)) {
    names <- public_names(release, party)
    if (!length(names)) next
    bytes <- release$blocks[[party]][[1]]$public
    codes <- matrix(readBin(bytes, "integer", length(bytes) / 4, 4, endian = "little"), ncol = length(names), byrow = TRUE)
    colnames(codes) <- names
    for (each in release$columns) {
      if (!each$public || !each$released[1] %in% names) next
      own <- codes[, each$released, drop = FALSE]
      allowed <- if (each$kind == "number") !anyNA(own) && all(abs(own) <= unit) else all(own %in% c(0, unit)) && all(rowSums(own) == unit)
      if (!allowed) refuse("the public columns of ", party, " hold codes that their declarations do not allow")
      found <- c(found, list(own))
    }
  }
  do.call(cbind, found)
}

# The constant and the public variables, as moments have them.
public_codes <- function(release) {
  unit <- 2^release$grid_bits
  codes <- shown_codes(release)
  if (!ncol(codes)) return(matrix(sqrt(release$rows) * unit)) # its square alone counts
  columns <- Filter(function(each) each$public, release$columns)
  coded <- lapply(columns, function(each) {
    own <- codes[, each$released, drop = FALSE]
    if (ncol(own) == 2) own[, 1] - own[, 2] else own
  })
  unname(do.call(cbind, c(list(rep(unit, release$rows)), unname(coded))))
}

dp_moments <- function(release) {
  stopifnot(inherits(release, "dp_release"))
  if (is_rows(release)) refuse("a release of noisy rows has no moments; dp_lm() fits on its rows")
  if (is.null(release$moments)) refuse(NO_FIT)
  first <- !duplicated(release$moments$readings$place)
  names <- c("(constant)", release$moments$readings$name[first])
  labelled <- function(values) structure(values, dimnames = list(names, names))
  list(sums = labelled(release$moments$gram), noise_sd = labelled(release$moments$noise_sd), patients = release$rows)
}
