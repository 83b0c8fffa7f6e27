# Certificates (docs/format.md, section 12) and signatures (section 3). A certificate is judged at the moment that was signed, which
# openssl::cert_verify cannot do: it judges at the time of the call. So its few fields are read here.

P256 <- as.raw(c(
  0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d,
  0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04
))
ECDSA_SHA256 <- as.raw(c(0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02))
DAMAGED <- "a certificate is damaged or was not issued by the pinned consortium root"

# One DER element of bytes: its tag, and the places of its first byte, of its value and of its last byte.
der <- function(bytes, at) {
  length <- as.integer(bytes[at + 1])
  from <- at + 2L
  if (length >= 128L) {
    count <- length - 128L
    if (!count %in% 1:3) refuse(DAMAGED)
    length <- sum(as.integer(bytes[from + seq_len(count) - 1L]) * 256^((count - 1L):0))
    from <- from + count
  }
  end <- from + length - 1
  if (is.na(end) || end > length(bytes)) refuse(DAMAGED)
  list(tag = as.integer(bytes[at]), start = at, from = from, end = end)
}

inside <- function(bytes, element) {
  found <- list()
  at <- element$from
  while (at <= element$end) {
    found <- c(found, list(der(bytes, at)))
    at <- found[[length(found)]]$end + 1
  }
  if (at != element$end + 1) refuse(DAMAGED)
  found
}

whole <- function(bytes, element) bytes[seq(element$start, length.out = element$end - element$start + 1)]
content <- function(bytes, element) bytes[seq(element$from, length.out = element$end - element$from + 1)]

read_certificate <- function(pem) {
  body <- regmatches(pem, regexec("^-----BEGIN CERTIFICATE-----\n([A-Za-z0-9+/=\n]+)\n-----END CERTIFICATE-----\\s*$", pem))[[1]]
  if (length(body) != 2) refuse("not a PEM certificate, or a damaged one")
  bytes <- openssl::base64_decode(gsub("\n", "", body[2], fixed = TRUE))
  tryCatch(certificate_of(bytes), error = function(e) refuse(DAMAGED))
}

certificate_of <- function(bytes) {
  outer <- der(bytes, 1L)
  part <- inside(bytes, outer)
  if (outer$end != length(bytes) || length(part) != 3) refuse(DAMAGED)
  body <- inside(bytes, part[[1]])
  if (body[[1]]$tag == 0xa0) body <- body[-1]
  validity <- inside(bytes, body[[4]])
  extensions <- Filter(function(each) each$tag == 0xa3, body[-(1:6)])
  signature <- content(bytes, part[[3]])
  if (signature[1] != as.raw(0)) refuse(DAMAGED)
  list(
    signed = whole(bytes, part[[1]]), signature = signature[-1],
    algorithms = list(whole(bytes, body[[2]]), whole(bytes, part[[2]])),
    issuer = whole(bytes, body[[3]]), subject = whole(bytes, body[[5]]),
    from = clock(bytes, validity[[1]]), until = clock(bytes, validity[[2]]),
    name = named(bytes, body[[5]], 0x03), role = named(bytes, body[[5]], 0x0b),
    key = whole(bytes, body[[6]]), authority = length(extensions) > 0 && is_authority(bytes, extensions[[1]])
  )
}

# All values of an attribute of a name: 2.5.4.3 is the common name, 2.5.4.11 the organisational unit.
named <- function(bytes, name, last) {
  found <- lapply(inside(bytes, name), function(set) {
    lapply(inside(bytes, set), function(pair) {
      both <- inside(bytes, pair)
      if (identical(content(bytes, both[[1]]), as.raw(c(0x55, 0x04, last)))) rawToChar(content(bytes, both[[2]]))
    })
  })
  unlist(found)
}

clock <- function(bytes, element) {
  text <- rawToChar(content(bytes, element))
  if (element$tag == 0x17) text <- paste0(if (substr(text, 1, 2) < "50") "20" else "19", text)
  moment(text, "%Y%m%d%H%M%SZ", "^[0-9]{14}Z$")
}

# Seconds of a time in UTC, which must be one that exists.
moment <- function(text, format = "%Y-%m-%dT%H:%M:%SZ", shape = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$") {
  found <- as.POSIXct(strptime(text, format, tz = "UTC"))
  if (!grepl(shape, text) || is.na(found) || format(found, format) != text) refuse("a time is written as 2026-01-31T12:00:00Z")
  as.numeric(found)
}

is_authority <- function(bytes, extensions) {
  for (each in inside(bytes, inside(bytes, extensions)[[1]])) {
    part <- inside(bytes, each)
    if (identical(content(bytes, part[[1]]), as.raw(c(0x55, 0x1d, 0x13)))) {
      value <- content(bytes, part[[length(part)]])
      flags <- inside(value, der(value, 1L))
      return(length(flags) > 0 && flags[[1]]$tag == 0x01 && content(value, flags[[1]])[1] != as.raw(0))
    }
  }
  FALSE
}

# A certificate, once it is clear that the root issued it, that it was valid at a time, and that it carries a role.
check_certificate <- function(pem, root_pem, at, role) {
  found <- read_certificate(pem)
  root <- read_certificate(root_pem)
  ours <- identical(found$issuer, root$subject) && all(vapply(found$algorithms, identical, NA, ECDSA_SHA256)) &&
    is_signed(root$key, found$signature, found$signed)
  if (!ours) refuse(DAMAGED)
  if (at < found$from || at > found$until) refuse("a certificate was not valid at the time that was signed")
  if (found$authority) refuse("a certificate authority stands where a role's certificate belongs")
  if (length(found$name) != 1 || length(found$role) != 1) refuse("the certificate does not name one holder and one role")
  if (!identical(found$key[seq_along(P256)], P256)) refuse("the certificate's key is not on P-256")
  if (found$role != role) refuse(found$name, " holds a ", found$role, " certificate where a ", role, " is needed")
  found$fingerprint <- sha256(found$key)
  found
}

sha256 <- function(bytes) paste(as.character(unclass(openssl::sha256(bytes))), collapse = "")

is_signed <- function(key, signature, message) {
  tryCatch(
    isTRUE(openssl::signature_verify(message, signature, hash = openssl::sha256, pubkey = openssl::read_pubkey(key, der = TRUE))),
    error = function(e) FALSE
  )
}

from_hex <- function(text) {
  if (!grepl("^([0-9a-f]{2})*$", text)) refuse("something else stands where hexadecimal digits belong")
  as.raw(strtoi(substring(text, seq(1, length.out = nchar(text) / 2, by = 2), seq(2, length.out = nchar(text) / 2, by = 2)), 16))
}

big_endian <- function(number, size) as.raw(number %/% 256^((size - 1):0) %% 256)

check_signature <- function(key, signature, label, ...) {
  parts <- list(charToRaw(label), ...)
  message <- unlist(lapply(parts, function(part) c(big_endian(length(part), 8), part)))
  if (!is_signed(key, from_hex(signature), message)) refuse("a signature of kind ", label, " is not valid")
}
