# Quantiles of single numbers, as Python's `learner describe` tells them: dprelease.mechanisms.ranges.released.

SHARES <- c(0.05, 0.25, 0.5, 0.75, 0.95)

# Noise of the distribution function where it reaches a share, one standard deviation.
law_error <- function(law, share) stats::approx(INNER, law$noise_sd, law_quantile(law, share), rule = 2)$y

# What one column's quantile may be: a place, the error of that, and on which side of what was counted it may lie; NA for either.
told_quantile <- function(law, share) {
  error <- law_error(law, share)
  low <- EDGES[sum(EDGES <= law_quantile(law, share - 2 * error))]
  high <- EDGES[sum(EDGES < law_quantile(law, share + 2 * error)) + 1]
  out <- c(low < EDGES[2], high > EDGES[CELLS])
  side <- if (all(out)) NA else out[2] - out[1]
  place <- if (is.na(side) || side == 0) law_quantile(law, share) else if (side < 0) high else low
  spread <- (law_quantile(law, share + error) - law_quantile(law, share - error)) / 2
  c(place = min(max(place, EDGES[2]), EDGES[CELLS]), error = sqrt(spread^2 + CELL^2 / 12), side = side)
}

dp_quantiles <- function(release) {
  found <- lapply(published_ranges(release), function(each) {
    told <- vapply(SHARES, function(share) told_quantile(each$law, share), numeric(3))
    side <- ifelse(is.na(told["side", ]), 0, told["side", ])
    # An end moves the quantiles beyond it, and never says more than noise allows.
    least <- cummax(ifelse(side < 0, told["place", ], -1))
    most <- rev(cummin(rev(ifelse(side > 0, told["place", ], 1))))
    place <- ifelse(side < 0, least, ifelse(side > 0, most, pmin(pmax(told["place", ], least), most)))
    half <- diff(each$ends) / 2
    words <- c("at most", "", "at least")[told["side", ] + 2]
    data.frame(
      column = each$name, share = SHARES, quantile = mean(each$ends) + half * place, error = half * told["error", ],
      says = ifelse(is.na(words), "hidden", words)
    )
  })
  do.call(rbind, unname(found))
}
