# What R says of releases: `Rscript r_answers.R r/R ASKED.json ANSWERS.json`, ASKED a list of folder (or URL), root and fits.
arguments <- commandArgs(TRUE)
for (file in list.files(arguments[1], full.names = TRUE)) source(file)
exactly <- function(numbers) I(sprintf("%.17g", numbers))
fit_of <- function(release, asked) {
  formula <- stats::as.formula(paste0("`", asked$target, "` ~ ", paste0("`", unlist(asked$features), "`", collapse = " + ")))
  found <- dp_lm(formula, release)
  told <- tidy.dp_lm(found, conf.int = TRUE)
  points <- stats::setNames(as.data.frame(do.call(rbind, lapply(asked$points, unlist))), found$features)
  ends <- lapply(c(confidence = "confidence", prediction = "prediction"), function(interval) {
    exactly(as.vector(t(predict.dp_lm(found, points, interval = interval, level = 0.9))))
  })
  c(lapply(as.list(told[-1]), exactly), if (length(asked$points)) ends, list(
    unidentified = I(found$unidentified), merged = I(as.character(names(found$merged))), sd = exactly(sqrt(diag(vcov(found))))
  ))
}
answer <- function(asked) {
  if (length(asked$lines)) return(list(coefficients = lapply(as.list(as.data.frame(eval(parse(text = asked$lines))$coefficients)), exactly)))
  release <- dp_verify(dp_fetch(asked$folder), asked$root)
  counted <- any(vapply(release$ranges, function(each) !is.null(each$law), NA))
  told <- c(digest = release$digest, if (counted) list(ranges = c(dp_ranges(release), lapply(dp_quantiles(release)[-1], I))))
  if (is.null(release$moments) && is.null(release$noisy)) return(told)
  matrices <- if (!is.null(release$moments)) list(gram = dp_moments(release)$sums, noise_sd = dp_moments(release)$noise_sd)
  c(told, matrices, list(fits = lapply(asked$fits, function(fit) fit_of(release, fit))))
}
answers <- lapply(jsonlite::fromJSON(arguments[2], simplifyVector = FALSE), function(asked) {
  tryCatch(answer(asked),
    dp_refused = function(e) list(refused = conditionMessage(e)),
    error = function(e) list(broken = conditionMessage(e))
  )
})
writeLines(jsonlite::toJSON(answers, auto_unbox = TRUE, digits = NA), arguments[3])
