"""Invariants of a consortium at any moment, whatever was killed: one function for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from audit.disclosure import disclosures, pseudonyms_outside
from audit.states import AlignmentRun, Hospital, Office, alignments, hospitals, office, published, verified
from dprelease.canonical import sha256
from dprelease.data.columns import public
from dprelease.errors import DpReleaseError
from dprelease.publication.beside import compared
from dprelease.release.accounting import guarantee
from dprelease.release.folder import PAGE, ReleaseFolder
from dprelease.release.manifest import Manifest
from dprelease.release.spec import ReleaseSpec
from learner.hub.list_page import list_page
from learner.listing import INDEX, lines_of
from party_node.source.public_columns import public_declarations

_LIVES = (
    ["reserve"],
    ["reserve", "refund"],
    ["reserve", "charge"],
    ["reserve", "charge", "refund"],
    ["reserve", "charge", "send"],
)


@dataclass(frozen=True)
class Violation:
    """Something that must never be.

    Attributes:
        where: role, release or file.
        what: what is wrong.
    """

    where: str
    what: str


def audit(folder: Path) -> list[Violation]:
    """Every violation found below a folder that holds the states of all roles.

    Args:
        folder: e.g. the demo's; the states of the roles are found by their files.
    """
    parties, releases, known = hospitals(folder), published(folder), office(folder)
    found = [
        *_ledgers(parties),
        *_publications(folder, parties, releases, known),
        *_fates(parties, known),
        *_deals(known),
        *_alignments(parties, alignments(folder)),
    ]
    found += [
        Violation(str(path.relative_to(folder)), "holds a private cell or identifier")
        for path in disclosures(
            folder,
            parties.values(),
            [record.spec for record in known.values()],
            _made(folder, releases),
        )
    ]
    found += [
        Violation(str(path.relative_to(folder)), "holds a pseudonym of a patient")
        for path in pseudonyms_outside(folder, parties.values())
    ]
    return found


def _made(folder: Path, releases: list[ReleaseFolder]) -> Iterator[Path]:
    """Pages that follow from published bytes: those of releases, which `_publications` compares, and of lists."""
    yield from (release.path / PAGE for release in releases)
    for path in folder.rglob(INDEX):
        page = path.with_name(PAGE)
        with suppress(DpReleaseError):  # a damaged release is found by `_publications`
            lines = list(lines_of(path.read_bytes()))
            if lines and page.exists() and page.read_text() == list_page(path.parent, lines):
                yield page


def _ledgers(parties: dict[str, Hospital]) -> Iterator[Violation]:
    """Chains are whole, every release lived one of the allowed lives once, and no cap was exceeded."""
    for name, hospital in parties.items():
        try:
            hospital.ledger.verify()
        except DpReleaseError as error:
            yield Violation(name, error.message)
            continue
        entries = hospital.ledger.entries()
        for roster in {entry.roster for entry in entries}:
            if hospital.ledger.balance(roster).remaining < 0:
                yield Violation(name, f"roster {roster} is overspent")
        for release in {entry.release for entry in entries if entry.release}:
            kinds = [entry.kind for entry in entries if entry.release == release]
            made = [entry.blocks for entry in entries if entry.release == release and entry.kind == "made"]
            longer = all(one == two[: len(one)] != two for one, two in pairwise(made))  # round after round
            if [kind for kind in kinds if kind != "made"] not in _LIVES or not longer:
                yield Violation(name, f"release {release[:12]} went {' -> '.join(kinds)}")


def _publications(
    folder: Path, parties: dict[str, Hospital], releases: list[ReleaseFolder], known: dict[str, Office]
) -> Iterator[Violation]:
    """Checks that a published release verifies, is what was sealed, was charged its cost, and agrees with the office."""
    for release in releases:
        read = verified(release, folder)
        if isinstance(read, str):
            yield Violation(str(release.path.name), f"does not verify: {read}")
            continue
        for name in compared(release, read).altered:
            yield Violation(str(release.path.name), f"{name} is not made from the signed bytes")
        data, _ = release.signed_manifest()
        manifest = Manifest.from_bytes(data)
        digest = manifest.spec.digest()
        yield from _agrees_with_office(digest, sha256(data), known)
        costs = guarantee(manifest.spec)
        for part in manifest.spec.parties:
            hospital = parties.get(part.party)
            if hospital is not None:
                yield from _sealed_and_charged(hospital, release, manifest, part.party, costs.party(part.party).mu2)
                yield from _declared_public(hospital, manifest.spec, part.party)


def _agrees_with_office(digest: str, manifest: str, known: dict[str, Office]) -> Iterator[Violation]:
    record = known.get(digest)
    if known and record is None:
        yield Violation(digest[:12], "is public, but the office never proposed it")
    elif record is not None and record.state not in {"RUNNING", "PUBLISHED"}:
        yield Violation(digest[:12], f"is public, but {record.state} at the office")
    elif record is not None and record.manifest not in (None, manifest):
        yield Violation(digest[:12], "the office knows another manifest")


def _sealed_and_charged(
    hospital: Hospital, release: ReleaseFolder, manifest: Manifest, party: str, mu2: Fraction
) -> Iterator[Violation]:
    digest = manifest.spec.digest()
    blocks = [entry.sealed for entry in manifest.blocks if entry.sealed.party == party]
    for block in blocks:
        sealed = hospital.sealed(digest, block.sequence)
        if not sealed.exists() or sealed.read_bytes() != release.block(party, block.sequence).read_bytes():
            yield Violation(party, f"release {digest[:12]}: published other bytes than those sealed")
    charges = [entry for entry in hospital.ledger.entries() if entry.release == digest]
    made, digests = (
        [entry.blocks for entry in charges if entry.kind == "made"],
        tuple(block.sha256 for block in blocks),
    )
    if sorted(entry.kind for entry in charges if entry.kind != "made") != ["charge", "reserve", "send"] or not made:
        yield Violation(party, f"release {digest[:12]} is public without one reservation, charge, block and sending")
    elif made != [digests[: sequences.stop] for sequences in manifest.spec.rounds()]:
        yield Violation(party, f"release {digest[:12]} has another block than the ledger knows")
    elif any(Fraction(entry.mu2) != mu2 for entry in charges if entry.kind != "made"):
        yield Violation(party, f"release {digest[:12]} was charged another price than its manifest states")


def _declared_public(hospital: Hospital, spec: ReleaseSpec, party: str) -> Iterator[Violation]:
    """Checks that exactly published columns were declared public, just so, before anything was reserved for them."""
    part, digest = spec.party(party), spec.digest()
    entries = hospital.ledger.entries(spec.roster)
    reserved = min((entry.number for entry in entries if (entry.release, entry.kind) == (digest, "reserve")), default=0)
    declared = [act.column for act in public_declarations(hospital.ledger, spec.roster) if act.number < reserved]
    for column in public(part.columns) if part else ():
        if column not in declared:
            yield Violation(
                party, f"release {digest[:12]} shows {column.name} exactly, which was not declared so before"
            )


def _fates(parties: dict[str, Hospital], known: dict[str, Office]) -> Iterator[Violation]:
    """Nothing is charged for a release that nobody proposed, and nothing stays reserved after an end long known here."""
    for name, hospital in parties.items():
        for entry in hospital.ledger.entries():
            if known and entry.release and entry.release not in known:
                yield Violation(
                    name, f"release {entry.release[:12]} is in the ledger, but the office never proposed it"
                )


def _deals(known: dict[str, Office]) -> Iterator[Violation]:
    """The coordinator deals to all parties of a session or to none, and keeps nothing of a release that is over."""
    for digest, record in known.items():
        parties = {part.party for part in record.spec.parties}
        if record.deals and record.state not in {"APPROVED", "RUNNING"}:
            yield Violation(digest[:12], f"is {record.state}, and the office still holds what it dealt")
        if any(receivers != parties for receivers in record.deals.values()):
            yield Violation(digest[:12], "the office dealt to some of its parties only")


def _alignments(parties: dict[str, Hospital], known: dict[str, AlignmentRun]) -> Iterator[Violation]:
    """A run is counted where it was accepted by all, no more often than allowed, and leaves the same patients everywhere."""
    for run, record in known.items():
        if record.state in {"RUNNING", "DONE"} and not all(record.consents):
            yield Violation(run[:12], f"alignment run is {record.state} without the consent of all its hospitals")
    rosters: dict[str, set[bytes]] = {}
    for name, hospital in parties.items():
        counted = hospital.ledger.alignments(hospital.settings.roster)
        if len(counted) > hospital.settings.policy.alignments or len(set(counted)) < len(counted):
            yield Violation(name, "was aligned more often than its policy allows, or one run was counted twice")
        for run, patients in hospital.rosters().items():
            rosters.setdefault(run, set()).add(patients)
            if run not in counted:
                yield Violation(name, f"alignment run {run[:12]} is in force and was never counted")
            if known and (run not in known or known[run].state != "DONE"):
                yield Violation(
                    name, f"alignment run {run[:12]} is in force, and the office never heard that all are done"
                )
    for run, different in rosters.items():
        if len(different) > 1:
            yield Violation("hospitals", f"alignment run {run[:12]}: hospitals have different patients in force")
