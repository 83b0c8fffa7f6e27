# A release as files, checked from the pinned root to the last byte (docs/format.md, sections 4 and 12).

NAME <- "^[A-Za-z_][A-Za-z0-9_.-]{0,63}$"
DIGEST <- "^[0-9a-f]{64}$"
MAGIC <- charToRaw("DPRBLK1\n")
MOST_MANIFEST <- 4194304
PYTHON <- "; read this release with Python: dprelease.load(folder, root = \"root.pem\")"

dp_fetch <- function(from, to = tempfile("release-")) {
  if (!grepl("^https?://", from)) {
    if (!file.exists(file.path(from, "manifest.json"))) {
      refuse(from, " holds no release: it is no folder with manifest.json and no URL of a mirror; R fetches from no hub")
    }
    return(normalizePath(from))
  }
  from <- sub("/+$", "", from)
  before <- options(timeout = max(600, getOption("timeout")))
  on.exit(options(before))
  download <- function(name) {
    path <- file.path(to, name)
    dir.create(dirname(path), showWarnings = FALSE, recursive = TRUE)
    done <- tryCatch(suppressWarnings(utils::download.file(paste0(from, "/", name), path, quiet = TRUE, mode = "wb")),
      error = function(e) 1L
    )
    if (done != 0L) refuse(from, "/", name, " cannot be fetched; check the address, or try again later")
    path
  }
  # fromJSON would follow an address that stands in the place of JSON, and parse_json does not.
  parsed <- function(name, most) {
    text <- read_file(download(name), most, text = TRUE)
    tryCatch(jsonlite::parse_json(text), error = function(e) refuse(from, "/", name, " is something else; check the address"))
  }
  if (!grepl("/[0-9a-f]{64}$", from)) {
    listed <- unlist(lapply(parsed("index.json", 33554432)$releases, `[[`, "digest"))
    if (length(listed) != 1 || !grepl(DIGEST, listed)) {
      refuse(from, " lists ", length(listed), " releases; write one of their digests behind the address")
    }
    unlink(file.path(to, "index.json"))
    from <- paste0(from, "/", listed)
  }
  download("manifest.sig")
  for (block in parsed("manifest.json", MOST_MANIFEST)$blocks) {
    sealed <- block$sealed
    if (!is.character(sealed$party) || !grepl(NAME, sealed$party) || !is.numeric(sealed$sequence)) {
      refuse(from, "/manifest.json is not a valid manifest: a block has no name")
    }
    download(block_file(sealed))
  }
  to
}

dp_verify <- function(folder, root) {
  # A manifest whose fields are of another type than they should be may fail anywhere.
  tryCatch(verified(folder, root), error = function(e) {
    if (inherits(e, "dp_refused")) stop(e)
    refuse("not a valid manifest: ", conditionMessage(e))
  })
}

verified <- function(folder, root) {
  root <- if (grepl("-----BEGIN", root[1], fixed = TRUE)) root else read_file(root, 65536, text = TRUE)
  root <- gsub("\r", "", paste(root, collapse = "\n"), fixed = TRUE)
  text <- read_file(file.path(folder, "manifest.json"), MOST_MANIFEST, text = TRUE)
  signature <- trimws(read_file(file.path(folder, "manifest.sig"), 1024, text = TRUE))
  manifest <- fields(
    parse_canonical(text, "Manifest"), "it",
    c("approvals", "blocks", "format", "guarantee", "hub_certificate", "published", "software", "spec", "trust")
  )
  # The type decides the spelling; a quotation mark within a string has a backslash before it.
  float <- grepl('"(lower|upper|(counts_|sum_|square_|decades_|diagonal_|anchor_)?scale|epsilon|delta|budget)":-?[0-9]+[,}]|"(fill|scores)":\\[?-?[0-9]+[],}]', text)
  integer <- grepl('"(format|rows|rows_per_subject|grid_bits|curious|size|sequence|constant|squared|centre|half_width|reach|low|high|outputs|checkpoints?|most_rows)":-?[0-9]+[.e]', text)
  integer <- integer || grepl('"weights":\\[[^]]*[.e]', text)
  if (float || integer) refuse("not a valid manifest: a number of another type")
  if (!identical(manifest$format, 1)) refuse("not a valid manifest: format ", manifest$format, " is not known", PYTHON)
  if (nchar(manifest$software) > 200) refuse("not a valid manifest: software is longer than 200 characters")
  hub <- check_certificate(manifest$hub_certificate, root, moment(manifest$published), "hub")
  check_signature(hub$key, signature, "dprelease/manifest/v1", charToRaw(text))
  release <- read_spec(manifest$spec)
  release$digest <- digest_of(text, manifest$spec)
  check_guarantee(manifest, release)
  check_approvals(manifest$approvals, release, root, text)
  release$blocks <- check_blocks(manifest$blocks, release, root, manifest$published, folder)
  release <- in_ranges(release)
  if (release$terms$mechanism == "moments") release$moments <- read_moments(release)
  if (is_rows(release)) release$noisy <- read_rows(release)
  release[c("guarantee", "trust")] <- list(unlist(manifest$guarantee), unlist(manifest$trust))
  release$published <- manifest$published
  structure(release, class = "dp_release")
}

print.dp_release <- function(x, ...) {
  cat(
    x$title, "\n", x$consortium, ", release ", substr(x$digest, 1, 12), ": ", format(x$rows, big.mark = ","), " patients\n",
    "Columns: ", paste(unlist(lapply(x$columns, `[[`, "released")), collapse = ", "), "\n",
    sep = ""
  )
  cat(strwrap(x$guarantee), sep = "\n")
  invisible(x)
}

block_file <- function(sealed) sprintf("blocks/%s.%d.block", sealed$party, as.integer(sealed$sequence))

# A regular file of at most so many bytes; a link, a pipe or a device is none.
read_file <- function(path, most, text = FALSE) {
  here <- file.info(path, extra_cols = FALSE)
  if (is.na(here$size)) refuse(path, " is missing; fetch the release again")
  if (nzchar(Sys.readlink(path)) || here$isdir || !utils::file_test("-f", path)) refuse(path, " is a link, or not a file")
  if (here$size > most) refuse(path, " has ", here$size, " bytes where at most ", most, " belong; fetch the release again")
  bytes <- readBin(path, "raw", here$size)
  if (!text) return(bytes)
  if (any(bytes == as.raw(0) | bytes > as.raw(126))) refuse(path, " is not plain ASCII text")
  rawToChar(bytes)
}

# The digest of an object by its own bytes, as keys are sorted at every depth.
digest_of <- function(text, value) sha256(bytes_of(text, value))
bytes_of <- function(text, value) charToRaw(substr(text, attr(value, "at")[1], attr(value, "at")[2]))

read_spec <- function(spec) {
  fields(
    spec, "spec",
    c(
      "alignment", "consortium", "created", "expires", "format", "grid_bits", "guarantee", "neighbours", "parties", "roster",
      "rows", "rows_per_subject", "target", "terms", "title"
    ), c("about", "aligned")
  )
  if (!identical(spec$format, 1) || spec$neighbours != "replace-one") refuse("not a valid manifest: a spec of another format", PYTHON)
  spec <- within_stream(spec)
  terms <- check_terms(spec)
  parties <- lapply(spec$parties, fields, "a party", c("columns", "key", "party"), if (is_rows(spec)) "weights")
  names(parties) <- vapply(parties, `[[`, "", "party")
  if (anyDuplicated(names(parties)) || !all(grepl(NAME, names(parties)))) refuse("parties must be distinct names")
  spec$parties <- parties
  spec$columns <- unlist(lapply(parties, function(part) lapply(part$columns, read_column)), recursive = FALSE, use.names = FALSE)
  names(spec$columns) <- vapply(spec$columns, `[[`, "", "name")
  if (anyDuplicated(names(spec$columns))) refuse("column names must be distinct across parties")
  shown <- vapply(spec$columns, `[[`, NA, "public")
  if (all(shown) || any(shown) == (spec$guarantee == "DP")) refuse("not a valid manifest: its guarantee has another name")
  if (length(terms$association)) check_outcomes(spec)
  spec$layout <- layout_of(spec$columns, outcomes_of(spec))
  if (length(terms$clipping)) check_clipping(spec)
  if (is_rows(spec)) check_rows(spec)
  if (terms$mechanism == "moments" && !length(terms$clipping)) {
    unknown <- names(spec$columns)[vapply(spec$columns, `[[`, NA, "unbounded")]
    if (length(unknown)) refuse("not a valid manifest: moments in public bounds of ", unknown[1], ", which has none")
  }
  spec
}

check_approvals <- function(approvals, release, root, text) {
  said <- vapply(approvals, function(signed) signed$approval$party, "")
  if (!identical(said, names(release$parties))) refuse("approvals must name the spec's parties, in its order")
  for (signed in approvals) {
    fields(signed, "an approval", c("approval", "certificate", "signature"))
    approval <- fields(signed$approval, "an approval", c("approved", "commitment", "party", "spec"))
    party <- approval$party
    if (approval$spec != release$digest) refuse("an approval by ", party, " is for another release")
    holder <- check_certificate(signed$certificate, root, moment(approval$approved), "party")
    check_holder(holder, party, release, paste("the approval by", party))
    check_signature(holder$key, signed$signature, "dprelease/approval/v1", bytes_of(text, signed$approval))
  }
}

check_holder <- function(holder, party, release, what) {
  same <- holder$name == party && holder$fingerprint == release$parties[[party]]$key
  if (!same) refuse(what, " was not made with the key that the release names")
}

check_blocks <- function(entries, release, root, published, folder) {
  shapes <- lapply(names(release$parties), function(party) block_shapes(release, party))
  expected <- rep(names(release$parties), lengths(shapes))
  said <- vapply(entries, function(entry) entry$sealed$party, "")
  if (!identical(said, expected)) refuse("blocks must name the spec's parties, in its order")
  found <- Map(function(entry, shape, sequence) {
    fields(entry, "a block", c("certificate", "sealed"))
    sealed <- fields(entry$sealed, "a block", c("party", "sequence", "sha256", "signature", "size", "spec"))
    what <- paste("the block of", sealed$party)
    public <- if (sequence) 0 else length(public_names(release, sealed$party))
    lead <- block_lead(release, sealed$party, sequence, shape, public)
    size <- length(lead) + 8 * prod(shape) + 4 * release$rows * public
    if (sealed$spec != release$digest || sealed$sequence != sequence || sealed$size != size) {
      refuse(what, " is not the one that the release asks for")
    }
    holder <- check_certificate(entry$certificate, root, moment(published), "party")
    check_holder(holder, sealed$party, release, what)
    check_signature(
      holder$key, sealed$signature, "dprelease/block/v1", from_hex(sealed$spec), big_endian(sealed$sequence, 4),
      from_hex(sealed$sha256)
    )
    bytes <- read_file(file.path(folder, block_file(sealed)), size)
    if (sha256(bytes) != sealed$sha256) refuse(what, " differs from the digest that it was signed under")
    if (length(bytes) != size || !identical(bytes[seq_along(lead)], lead)) refuse(what, " does not have the shape that it must have")
    list(values = bytes[length(lead) + seq_len(8 * prod(shape))], public = bytes[-seq_len(length(lead) + 8 * prod(shape))])
  }, entries, unlist(shapes, recursive = FALSE), unlist(lapply(shapes, function(own) seq_along(own) - 1)))
  split(unname(found), factor(said, names(release$parties)))
}

# The bytes before a block's numbers, known from the spec alone.
block_lead <- function(release, party, sequence, shape, public) {
  header <- sprintf(
    '{"columns":%d,"format":1,"party":"%s","public":%d,"rows":%d,"sequence":%d,"spec":"%s"}',
    as.integer(shape[2]), party, as.integer(public), as.integer(shape[1]), as.integer(sequence), release$digest
  )
  c(MAGIC, rev(big_endian(nchar(header), 4)), charToRaw(header))
}
