"""The hospital's state: everything a decision needs, opened from one settings file. Commands and daemon both use it."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dprelease.agreement import accept
from dprelease.arrays import pieces
from dprelease.catalogue import Catalogue
from dprelease.data.bounding import USUAL_GRID_BITS, BoundedRows
from dprelease.data.columns import Column
from dprelease.errors import Conflict, DataRefused, DpReleaseError, NotFound, unforeseen
from dprelease.files.durable import write_secret
from dprelease.intersection.task import Task
from dprelease.mechanisms.registry import mechanism_of
from dprelease.release.approval import approve, commit, new_salt
from dprelease.release.spec import ReleaseSpec
from party_node.cluster.engine import engine
from party_node.decision.continuation import Continuations
from party_node.decision.decision import Assessment, Participation, Review, assess, assess_run, linkages, repetitions
from party_node.declarations.declarations import with_sources
from party_node.identity import Enrolment, KeyFolder
from party_node.settings import PartySettings
from party_node.source.alignment import ShownDigests, in_force, patients_of
from party_node.source.findings import Findings, problems, read_findings, write_findings
from party_node.source.public_columns import PublicDeclaration, check_declared, latest, public_declarations, with_public
from party_node.state.books import Books
from party_node.state.frozen import FrozenRows
from party_node.state.journal import FINAL, Journal, Proposed, Record, Status
from party_node.state.ledger import Ledger
from party_node.state.session import SessionFolder
from party_node.state.streams import Streams
from party_node.state.vault import RoundFolder, Vault

if TYPE_CHECKING:
    from party_node.source.alignment import Roster
    from party_node.source.scan import BoundedTable, Scan

log = logging.getLogger(__name__)


class HospitalState:
    """The hospital's state, opened."""

    def __init__(self, settings: PartySettings) -> None:
        self.settings = settings
        settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)  # keys, salts and decisions are nobody else's
        self.identity = KeyFolder(settings.state)
        self.ledger = Ledger(settings.state / "ledger.sqlite")
        self.journal = Journal(settings.state / "journal.sqlite")
        self.vault = Vault(settings.state / "sealed")
        folder = Streams(settings.state / "streams")
        self.streams = Continuations(settings.roster, self.journal, self.ledger, self.vault, folder)
        self._catalogue = settings.state / "catalogue.json"
        self._findings = settings.state / "findings.json"
        self._scan: Scan | None = None

    @property
    def enrolment(self) -> Enrolment:
        """Our enrolment, with the present certificate; raises `NotFound` before it."""
        return self.identity.enrolment()

    @property
    def books(self) -> Books:
        """Our own records of what we were charged, beside what the office has seen."""
        streams, joint, name = self.streams.folder, self.settings.state / "joint", self.settings.name
        return Books(self.ledger, self.journal, self.vault, streams, joint, name, self.identity.charges())

    def read(self) -> BoundedTable:
        """The whole table, bounded and in canonical order."""
        return self._scanned(self.columns(), None, in_force(self.journal, self.settings)).table()

    def _scanned(self, columns: tuple[Column, ...], grid_bits: int | None, roster: Roster | None) -> Scan:
        """The source as it is now; read again only where it changed, or was read by other declarations.

        Raises:
            DataRefused: the source cannot be used.
        """
        from party_node.source.scan import scan  # Arrow is slow to load, and few commands read the table

        key = self.identity.alignment_key()
        if self._scan is not None and self._scan.serves(self.settings, key, columns, grid_bits, roster):
            return self._scan
        self._scan = None  # before the next one: it has the codes of a whole table
        try:
            with engine(self.settings) as run:
                self._scan = scan(self.settings, key, columns, grid_bits or USUAL_GRID_BITS, roster, run)
        except (DpReleaseError, OSError):
            raise
        except Exception as error:
            raise DataRefused(
                f"the table cannot be read: {unforeseen(error)}; tell the makers of this software, and take what is new in "
                "the source out until then"
            ) from None
        return self._scan

    def public(self) -> dict[str, PublicDeclaration]:
        """The declarations that are public here, by column."""
        return latest(public_declarations(self.ledger, self.settings.roster))

    def columns(self, names: frozenset[str] | None = None) -> tuple[Column, ...]:
        """Our declarations, with what the owner declared public; of all columns, or some.

        Raises:
            DataRefused: a public column's declaration or source was changed, or the source is read under another name.
        """
        return with_public(self.settings, public_declarations(self.ledger, self.settings.roster), names)

    def make_catalogue(self) -> Catalogue:
        """The catalogue of the table as it is now; kept for `catalogue`, and its counts for `findings`.

        Raises:
            DataRefused: the table cannot be used, has a column that must not be released, or too many columns.
        """
        roster, columns = in_force(self.journal, self.settings), self.columns()
        found = self._scanned(columns, None, roster)
        write_findings(self._findings, found.findings, found.implausible)
        if found.implausible:
            raise DataRefused("not declared: " + "; ".join(problems(found.findings, found.implausible)))
        catalogue = found.catalogue(self._comparison(roster), columns)
        write_secret(self._catalogue, [catalogue.to_bytes()])
        return catalogue

    def catalogue(self) -> Catalogue:
        """The catalogue as last made, public where an act covers just that declaration; reads no patient's row.

        Raises:
            NotFound: the daemon never ran.
        """
        if not self._catalogue.exists():
            raise NotFound("there is no catalogue yet; start the daemon once: party-node run")
        made, public = Catalogue.from_bytes(self._catalogue.read_bytes()), self.public()
        covered = {
            name for name, act in public.items() if any(act.covers(self.settings, each) for each in made.columns)
        }
        columns = tuple(column.model_copy(update={"public": column.name in covered}) for column in made.columns)
        return made.model_copy(update={"columns": columns})

    def findings(self, spec: ReleaseSpec) -> dict[str, Findings]:
        """The findings in the cells that our columns of a spec come from, when the table was last read.

        Local screen only.
        """
        part, (found, _) = spec.party(self.settings.name), read_findings(self._findings)
        names = with_sources(self.settings.declared, tuple(column.name for column in (part.columns if part else ())))
        declared = self.settings.declared
        return {name: found[name].told(declared[name]) for name in names if name in found and name in declared}

    def session(self, record: Record) -> SessionFolder:
        """The folder of the session of a joint computation, or of an alignment run."""
        folder = "aligning" if isinstance(record.proposal, Task) else "joint"
        return SessionFolder(self.settings.state / folder / record.digest)

    def frozen(self, release: str) -> FrozenRows:
        """The rows that our approval of a release commits to."""
        return FrozenRows(self.settings.state / "frozen" / release)

    def earlier(self, release: str) -> RoundFolder:
        """The blocks of a release's earlier rounds."""
        return RoundFolder(self.settings.state / "rounds" / release)

    def pins(self) -> dict[str, str]:
        """Keys of all parties that we know: the pinned peers, and our own."""
        return {**self.identity.pins(), self.settings.name: self.identity.fingerprint()}

    def grounds(self) -> tuple[object, ...]:
        """The facts that decisions rest on, beside the releases that are under way."""
        files = tuple(path.read_bytes() for path in (self._catalogue, self._findings) if path.exists())
        return self.settings, self.pins(), self.ledger.head(), files

    def review(self, proposal: Proposed) -> Review:
        """Check a proposal of either kind; raises as `assess` and `assess_run`."""
        return self.assess_run(proposal) if isinstance(proposal, Task) else self.assess(proposal)

    def assess_run(self, task: Task) -> Participation:
        """Check an alignment run; see `decision.assess_run`.

        Runs count that the ledger has, and those that were computed here: a ledger from an older backup forgot some.
        """
        done = {
            each.digest for each in self.journal.runs() if each.task.roster == task.roster and each.common is not None
        }
        return assess_run(
            task,
            self.catalogue(),
            self.identity.fingerprint(),
            self.identity.pins(),
            self.enrolment.consortium,
            self.settings.policy,
            done | set(self.ledger.alignments(task.roster)),
            datetime.now(UTC),
        )

    def assess(self, spec: ReleaseSpec) -> Assessment:
        """Check the proposal of a release; see `decision.assess`."""
        roster = self.settings.roster
        stages = self.ledger.stages(roster)
        records = self.journal.taken(stages)
        implausible = read_findings(self._findings)[1]
        continued = bool(self.streams.earlier(spec))
        return assess(
            spec,
            self.catalogue(),
            self.identity.fingerprint(),
            self.identity.pins(),
            self.enrolment.consortium,
            self.settings.policy,
            self.ledger.balance(roster, without=spec.digest()),
            datetime.now(UTC),
            () if continued else repetitions(spec, self.settings.name, records, stages),
            linkages(spec, bool(self.public()), records, stages),
            problems(self.findings(spec), implausible),
            continued=continued,
        )

    def accept(self, record: Record) -> None:
        """A person's yes: the daemon signs next time it looks.

        Raises:
            Conflict: it does not wait for a decision, or something must be done here first.
            SpecRefused, PolicyRefused, BudgetExceeded: it can no longer be approved.
        """
        self._check_free(record)
        self.journal.move(record.digest, {Status.WAITING}, Status.ACCEPTED, "approved here")

    def _check_free(self, record: Record) -> None:
        blockers = self.review(record.proposal).blockers
        if blockers:
            raise Conflict("first: " + "; ".join(blockers))

    def decline(self, record: Record, reason: str) -> None:
        """A person's no: the daemon tells the coordinator next time it looks.

        A release is declined before our approval was signed, an alignment run before its result is on disk; what was counted of
        that stays counted. To a checkpoint of a stream that is over it is the end of the stream: nothing more is kept of it, and
        none of its checkpoints approved.

        Raises:
            Conflict: it is too late for that.
        """
        run = isinstance(record.proposal, Task)
        if record.status is Status.ENDED and not run and record.spec.place.batch is not None:
            self.streams.end(record, reason)
            return
        before = {Status.WAITING, Status.ACCEPTED} | ({Status.APPROVED} if run else set())
        self.journal.move(record.digest, before, Status.DECLINED, reason)
        self.let_go(record)

    def check_declarations(self, spec: ReleaseSpec) -> tuple[Column, ...]:
        """Our columns of a spec; raises `DataRefused` if it has none of ours, and as `check_declared`."""
        part = spec.party(self.settings.name)
        if part is None:
            raise DataRefused("this release has no columns of ours")
        return check_declared(part.columns, self.columns(frozenset(column.name for column in part.columns)))

    def approved(self, record: Record) -> BoundedRows:
        """The rows that our approval commits to: the ones that were frozen with it.

        Raises:
            DataRefused: they are lost, and the source has others by now; or see `check_declarations`.
            SpecRefused, IntegrityError: as `Continuations.earlier`.
        """
        spec, frozen = record.spec, self.frozen(record.digest)
        columns, at = self.check_declarations(spec), self.streams.at(spec)
        found = frozen.read(columns, spec.grid_bits, at, record.codes)
        if found is None:
            log.warning("release %s: its approved rows are not on disk; the source is read again", record.digest[:12])
            frozen.keep(self.table(spec).bounded, at)
            found = frozen.read(columns, spec.grid_bits, at, record.codes)
        if found is None:
            raise DataRefused("the columns changed after they were approved")
        return found

    def table(self, spec: ReleaseSpec) -> BoundedTable:
        """Our columns of a spec as the source has them now.

        Raises:
            DataRefused: the table is no longer the one that the spec describes, or see `check_declarations`.
            SpecRefused, IntegrityError: as `Continuations.earlier`.
        """
        columns, at = self.check_declarations(spec), self.streams.at(spec)
        roster = patients_of(self.journal, self.settings, spec.aligned)
        table = self._scanned(columns, spec.grid_bits, roster).table(columns, at)
        found, rows = table.alignment.digest, table.alignment.rows
        shown = self._comparison(roster).shown(found, rows, complete=table.complete)
        if (rows, shown) != (spec.rows, spec.alignment):
            raise DataRefused("the source no longer holds the patients that the release was proposed for")
        return table

    def _comparison(self, roster: Roster | None) -> ShownDigests:
        settings, run = self.settings, None if roster is None else roster.secret
        return ShownDigests(self.identity.own_secret(), run, settings.same_patients, settings.rows_per_subject)

    def sign(self, record: Record) -> bytes:
        """Keep what our consent is about, then sign it; the same consent again if it exists.

        Raises:
            BudgetExceeded: the ledger has no room.
            DataRefused: the table is not the one that the proposal describes, or see `Mechanism.check_public`.
            SpecRefused, PolicyRefused: it can no longer be approved.
            Conflict: it was given up or declined in the meantime, or something must be done here first; nothing may be sent.
        """
        if record.consent is None:
            run = isinstance(record.proposal, Task)
            consent = self._accept_run(record) if run else self._approve_release(record)
            self.journal.sign(record.digest, consent)
            return consent
        return record.consent

    def _approve_release(self, record: Record) -> bytes:
        """Freeze our columns, record their digest, reserve."""
        spec, name, roster = record.spec, self.settings.name, self.settings.roster
        codes, salt = record.codes, record.salt
        if codes is None or salt is None:
            table = self.table(spec)
            if table.implausible:
                raise Conflict("first: " + "; ".join(problems(table.findings, table.implausible)))
            mechanism_of(spec).check_public(table.bounded, spec, name)
            self.frozen(record.digest).keep(table.bounded, self.streams.at(spec))
            codes, salt = table.bounded.digest(), new_salt()
            self.journal.commit(record.digest, codes, salt)
        if self.ledger.stage(roster, record.digest) != "reserve":
            given, target = self.assess(spec).guarantee, spec.target
            detail: dict[str, str | float] = {"title": spec.title, "epsilon": target.epsilon, "delta": target.delta}
            self.ledger.reserve(roster, record.digest, given.party(name).mu2, detail, given.added(name))
        key, certificate, now = self.identity.key(), self.enrolment.certificate, datetime.now(UTC)
        return approve(spec, name, commit(salt, codes), key, certificate, now).to_bytes()

    def _accept_run(self, record: Record) -> bytes:
        """Keep the patients that the table has now, which the run is about here."""
        from party_node.source.table import read_subjects  # Arrow is slow to load

        self._check_free(record)
        name, patients = self.settings.name, read_subjects(self.settings, self.identity.alignment_key())
        announced = next(member.patients for member in record.task.members if member.party == name)
        if len(patients) != announced:
            raise DataRefused(
                f"the table has {len(patients)} patients now, and {announced} were announced for the alignment run"
            )
        self.session(record).keep_patients(piece.data for piece in pieces(patients))
        key, certificate, now = self.identity.key(), self.enrolment.certificate, datetime.now(UTC)
        return accept(record.task, name, key, certificate, now).to_bytes()

    def give_up(self, record: Record, status: Status, note: str) -> None:
        """End a release or an alignment run here; see `let_go` for what comes back. One that is over stays as it ended."""
        standing = set(Status) - FINAL | {status}
        if status is Status.DECLINED:
            # First: the daemon lets go again of all that it has declined, and could not go on without.
            self.journal.move(record.digest, standing, status, note)
            self.let_go(record)
        else:
            # Last: the office tells of an end again until it stands here.
            self.let_go(record)
            self.journal.move(record.digest, standing, status, note)
        self.streams.sweep()

    def let_go(self, record: Record) -> None:
        """Give the budget back and destroy the block, unless its first byte has left; erase sessions and approved rows."""
        roster, digest = self.settings.roster, record.digest
        self.session(record).erase()
        if isinstance(record.proposal, Task):
            self.journal.drop_roster(digest)
            return
        stage = self.ledger.stage(roster, digest)
        if stage in {"reserve", "charge"}:
            self.ledger.refund(roster, digest)
        if stage != "send":
            self.vault.discard(digest)
        self.frozen(digest).erase()
        self.earlier(digest).erase()
