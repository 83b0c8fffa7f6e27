# Canonical JSON (docs/format.md, section 1): one value, one byte string. A value is read only if its bytes are that string.

refuse <- function(...) {
  stop(structure(class = c("dp_refused", "error", "condition"), list(message = paste0(...), call = NULL)))
}

TOKEN <- paste0(
  '"(?:[^"\\\\]|\\\\(?:["\\\\bfnrt]|u[0-9a-f]{4}))*+"', # a string
  "|-?(?:0|[1-9][0-9]*+)(?:\\.[0-9]++)?(?:e[+-][0-9]{2,3})?", # a number
  "|true|false|null|[][{}:,]"
)
MOST_DEPTH <- 32

# Parses text in canonical form. Objects are named lists whose attribute "at" has the places of their first and last character.
parse_canonical <- function(text, what) {
  bad <- function(why) refuse("the bytes of this ", what, " are not in canonical form: ", why)
  found <- gregexpr(TOKEN, text, perl = TRUE)[[1]]
  size <- attr(found, "match.length")
  if (found[1] != 1 || sum(size) != nchar(text)) bad("white space, or something that is no JSON")
  token <- c(substring(text, found, found + size - 1), "") # the last one ends every loop
  first <- substr(token, 1, 1)
  brackets <- sum(first %in% c("{", "["))
  if (brackets > max(64, nchar(text) / 12)) bad("it has too many brackets")
  words <- unescaped(token, first == "\"", bad)
  numbers <- canonical_numbers(token, grepl("^[-0-9]", first), bad)
  place <- 1L

  take <- function(expected) {
    if (token[place] != expected) bad(paste("a", expected, "is missing"))
    place <<- place + 1L
  }
  value <- function(depth) {
    if (depth > MOST_DEPTH || !nzchar(token[place])) bad("it is nested too deeply, or ends too early")
    here <- place
    place <<- here + 1L
    switch(first[here],
      "{" = object(here, depth),
      "[" = items(depth),
      "\"" = words[here],
      "t" = TRUE,
      "f" = FALSE,
      "n" = NULL,
      if (is.na(numbers[here])) bad(paste("a", token[here], "does not belong there")) else numbers[here]
    )
  }
  object <- function(here, depth) {
    keys <- character()
    values <- list()
    while (token[place] != "}") {
      if (length(keys)) take(",")
      keys <- c(keys, token[place])
      if (first[place] != "\"" || grepl("\\", token[place], fixed = TRUE)) bad("a key is not plain text")
      place <<- place + 1L
      take(":")
      values <- c(values, list(value(depth + 1)))
    }
    take("}")
    if (is.unsorted(match(keys, sort(unique(keys), method = "radix")), strictly = TRUE)) bad("keys are out of order")
    structure(values, names = substr(keys, 2, nchar(keys) - 1), at = c(found[here], found[place - 1]))
  }
  items <- function(depth) {
    values <- list()
    while (token[place] != "]") {
      if (length(values)) take(",")
      values <- c(values, list(value(depth + 1)))
    }
    take("]")
    values
  }
  whole <- value(1)
  if (nzchar(token[place])) bad("something follows it")
  whole
}

# Strings that tokens stand for, once it is clear that each is spelled in the one way.
unescaped <- function(token, text, bad) {
  found <- rep(NA_character_, length(token))
  codes <- unlist(regmatches(token[text], gregexpr("(?<!\\\\)(?:\\\\\\\\)*\\\\u[0-9a-f]{4}", token[text], perl = TRUE)))
  codes <- strtoi(substr(codes, nchar(codes) - 3, nchar(codes)), 16)
  if (any(codes %in% c(0, 8, 9, 10, 12, 13) | (codes >= 32 & codes <= 126))) bad("a character is spelled in another way")
  if (any(text)) found[text] <- jsonlite::parse_json(paste0("[", paste(token[text], collapse = ","), "]"), simplifyVector = TRUE)
  found
}

# Numbers that tokens stand for: integers, and the shortest decimals of doubles as Python writes them.
canonical_numbers <- function(token, number, bad) {
  found <- rep(NA_real_, length(token))
  if (!any(number)) return(found)
  found[number] <- read_doubles(token[number])
  whole <- number & !grepl("[.e]", token)
  if (any(token[whole] == "-0") || any(!is.finite(found[number]))) bad("a number is not finite, or -0")
  fraction <- number & !whole
  if (any(token[fraction] != shortest(found[fraction]))) bad("a number is spelled in another way")
  found
}

read_doubles <- function(text) {
  as.double(jsonlite::parse_json(paste0("[", paste(text, collapse = ","), "]"), simplifyVector = TRUE))
}

# Python's repr of doubles.
shortest <- function(x) {
  vapply(x, function(one) {
    for (digits in 0:16) {
      text <- sprintf("%.*e", digits, one)
      if (read_doubles(text) == one) break
    }
    part <- strsplit(text, "e", fixed = TRUE)[[1]]
    sign <- if (startsWith(part[1], "-")) "-" else ""
    digit <- gsub("[-.]", "", part[1])
    power <- as.integer(part[2])
    if (power < -4 || power >= 16) {
      tail <- substring(digit, 2)
      return(paste0(sign, substr(digit, 1, 1), if (nzchar(tail)) paste0(".", tail), sprintf("e%+03d", power)))
    }
    if (power < 0) return(paste0(sign, "0.", strrep("0", -power - 1), digit))
    digit <- paste0(digit, strrep("0", max(0, power + 2 - nchar(digit))))
    paste0(sign, substr(digit, 1, power + 1), ".", substring(digit, power + 2))
  }, "")
}

# Refuses an object without a field that it must have, or with one that nobody knows.
fields <- function(value, what, required, optional = character()) {
  named <- names(value)
  if (!is.list(value) || (length(value) && is.null(named))) refuse("not a valid manifest: ", what, " is not an object")
  strange <- c(setdiff(named, c(required, optional)), setdiff(required, named))
  if (length(strange)) refuse("not a valid manifest: ", what, " has a field too many or too few: ", strange[1])
  value
}
