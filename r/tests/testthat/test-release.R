# Folders that `make check-r` has Python write, beside the example of the package: each has its root and Python's numbers in it.
folders <- c(
  system.file("extdata", "example", package = "dprelease"), list.dirs(Sys.getenv("DPRELEASE_FOLDERS", "/nonexistent"), recursive = FALSE)
)

changed <- function(change) {
  to <- tempfile("changed-")
  dir.create(to)
  file.copy(list.files(folders[1], full.names = TRUE), to, recursive = TRUE)
  change(to)
  to
}

root_of <- function(folder) file.path(folder, "root.pem")

test_that("moments and fits equal those of Python", {
  for (folder in folders) {
    release <- dp_verify(dp_fetch(folder), root_of(folder))
    expected <- jsonlite::fromJSON(file.path(folder, "expected.json"), simplifyDataFrame = FALSE)
    if (length(expected$gram)) {
      expect_equal(unname(dp_moments(release)$sums), expected$gram, tolerance = 1e-12)
      expect_equal(unname(dp_moments(release)$noise_sd), expected$noise_sd, tolerance = 1e-12)
    }
    for (fit in expected$fits) {
      formula <- as.formula(paste0("`", fit$target, "` ~ ", paste0("`", fit$features, "`", collapse = "+")))
      found <- generics::tidy(dp_lm(formula, release), conf.int = TRUE)
      for (name in names(found)[-1]) {
        wanted <- as.numeric(fit[[name]])
        expect_equal(found[[name]], ifelse(is.nan(wanted), NA_real_, wanted), tolerance = 1e-9, info = paste(folder, name))
      }
    }
  }
})

test_that("a flipped bit, a missing block and another root are refused", {
  flipped <- changed(function(to) {
    path <- file.path(to, "blocks", "south.0.block")
    bytes <- readBin(path, "raw", file.size(path))
    bytes[length(bytes) - 2] <- xor(bytes[length(bytes) - 2], as.raw(4))
    writeBin(bytes, path)
  })
  expect_error(dp_verify(flipped, root_of(flipped)), "differs from the digest")
  missing <- changed(function(to) unlink(file.path(to, "blocks", "east.0.block")))
  expect_error(dp_verify(missing, root_of(missing)), "is missing")
  text <- readLines(root_of(folders[1]))
  text[4] <- chartr("ABCDabcd", "BCDAbcda", text[4])
  expect_error(dp_verify(folders[1], paste(text, collapse = "\n")), "root|damaged")
})

test_that("a fit answers what an lm answers", {
  release <- dp_verify(folders[1], root_of(folders[1]))
  fit <- dp_lm(systolic ~ age + smoker, release)
  expect_named(coef(fit), c("(Intercept)", "age", "smoker=yes"))
  expect_equal(sqrt(diag(vcov(fit))), summary(fit)$coefficients[, "Std. Error"])
  expect_equal(nobs(fit), 20000)
  expect_equal(confint(fit, "age", level = 0.9)[, 1] > confint(fit, "age")[, 1], TRUE, ignore_attr = TRUE)
  somebody <- data.frame(age = c(40, 60), smoker = c("no", "yes"))
  expect_equal(predict(fit, somebody), as.vector(cbind(1, somebody$age, 0:1) %*% coef(fit)))
  expect_equal(predict(fit, transform(somebody, age = factor(age))), predict(fit, somebody))
  expect_error(predict(fit, data.frame(age = 40, smoker = NA)), "missing or infinite cells")
  expect_error(predict(fit, data.frame(age = 1e308, smoker = "yes")), "cells beyond 1e+50", fixed = TRUE)
  expect_silent(expect_length(predict(fit, somebody[0, ]), 0))
  spread <- vcov(fit)
  told <- predict(fit, rbind(somebody, data.frame(age = 0, smoker = "no")), se.fit = TRUE)
  expect_equal(told$fit[1:2], predict(fit, somebody))
  second <- c(1, 60, 1)
  expect_equal(told$se.fit[-1], sqrt(c(second %*% spread %*% second, spread[1, 1])))
  ends <- predict(fit, somebody, interval = "confidence")
  expect_equal(ends[, "fit"], predict(fit, somebody))
  patient <- predict(fit, somebody, interval = "prediction", se.fit = TRUE)$fit
  expect_true(all(patient[, "lwr"] < ends[, "lwr"] & ends[, "upr"] < patient[, "upr"]))
  expect_equal(patient[, "upr"] - patient[, "lwr"], rep(2 * 1.96 * sigma(fit), 2), tolerance = 0.01)
  expect_error(predict(fit, somebody, interval = "prediction", level = 2), "between 0 and 1")
  expect_equal(generics::glance(fit)$nobs, 20000)
  expect_output(print(summary(fit)), "(epsilon, delta) = (1, 1e-05)", fixed = TRUE)
  expect_output(print(summary(fit)), "<0.001", fixed = TRUE)
  found <- summary(fit)
  found$coefficients[1, "Pr(>|z|)"] <- 0.9694966
  expect_output(print(found), "0.969", fixed = TRUE)
  expect_length(coef(dp_lm(systolic ~ ., release)), 6)
  expect_silent({
    grDevices::pdf(NULL)
    plot(fit)
    grDevices::dev.off()
  })
})

test_that("a formula that R cannot fit is refused with what to do", {
  release <- dp_verify(folders[1], root_of(folders[1]))
  expect_error(dp_lm(systolic ~ age:smoker, release), "joined by \\+")
  expect_error(dp_lm(systolic ~ age - 1, release), "joined by \\+")
  expect_error(dp_lm(systolic ~ weight, release), "not in this release: weight")
  expect_error(dp_lm(stage ~ age, release), "one outcome")
  expect_error(dp_lm(systolic ~ systolic, release), "own column")
  expect_error(dp_lm(systolic ~ `smoker=no` + `smoker=yes`, release), "repeat each other")
})
