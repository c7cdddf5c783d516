"""One study on disk: frozen inputs, an append-only journal of events, and the rules for going on with it.

<root>/<name>/study.json     StudyHeader: what must agree for results to be comparable
              problems.json  the problems of the last run
              events.jsonl   everything that happened, one event a line (or gzipped, events.jsonl.gz)
              lock           held by the process that writes
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from cutlass_tuner.errors import UserError
from cutlass_tuner.events import Event, RunFailed, StudyHeader
from cutlass_tuner.ops import registry
from cutlass_tuner.records import Failure, KernelConfig, LaunchConfig, Measurement, Problem
from cutlass_tuner.study.journal import GZIPPED, Journal, Lock, expand, lines, replace
from cutlass_tuner.study.ledger import Best, Ledger, StudySummary

VERSION = 1
HEADER, PROBLEMS, EVENTS = "study.json", "problems.json", "events.jsonl"

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
_PROBLEMS: TypeAdapter[tuple[Problem, ...]] = TypeAdapter(tuple[Problem, ...])

DECISIVE = ("gpu", "arch", "sm_count", "cuda", "compiler", "cublas", "cutlass", "flags")
"""Of the environment: what changes the kernels, the card or the baseline refuses to mix."""
NOTED = ("driver", "torch", "tuner")
"""Of the environment: what may differ between two runs of a study, and is said. The driver and torch's
own code are not in the timed region (cuBLAS is, and is decisive); ratios are of paired samples. Where torch's
own kernels are the baselines (`_torch_is_timed`), its version is decisive too."""


def default_name(op: str, gpu: str, space_digest: str, problems: Sequence[Problem], label: str = "") -> str:
    """The name of a study that was given none: op, GPU and a digest of the space and the problems.

    The digest takes problems as a set, without counts and names. With a `label` (say, the shapes
    file's name without its ending) that stands for the problems, so that the study of an edited file
    is the same study.
    """
    which = [label] if label else sorted(problem.key for problem in problems)
    digest = hashlib.sha256(json.dumps([op, gpu, space_digest, which]).encode()).hexdigest()[:8]
    named = [label] if label.startswith(op) else [op, label]
    parts = [*named, gpu.removeprefix("NVIDIA "), digest]
    return "-".join(word for part in parts if (word := re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-")))


def find(root: Path, study: str, shipped: Path | None = None) -> Path:
    """The folder of a study given by its name under `root`, by a path, or by its name under `shipped`.

    Raises UserError naming the studies there are. A folder of that name under `root` that is no study hides
    the shipped one: its user means it.
    """
    own, given = root / study, Path(study)
    for folder in (own, given):
        if (folder / HEADER).is_file():
            return folder
    if shipped is not None and not own.is_dir() and (shipped / study / HEADER).is_file():
        return shipped / study
    names = _names(root)
    known = [f"known: {', '.join(names)}" if names else "there are none"]
    if shipped is not None and (others := [name for name in _names(shipped) if name not in names]):
        known.append(f"shipped: {', '.join(others)}")
    for folder in (own, given):
        if folder.is_dir():
            raise UserError(f"{folder} is no study: no {HEADER} in it; {'; '.join(known)}")
    raise UserError(f"no study {study!r} in {root}; {'; '.join(known)}")


def _names(root: Path) -> list[str]:
    return sorted(path.parent.name for path in root.glob(f"*/{HEADER}"))


class Study:
    """A study, open. Made by `open_or_create` (to write, locked) or `load` (to read).

    `problems` are those of this run; events on dropped problems stay and count again when a problem
    comes back. `notes` are lines to show: what differs from the last run without being in the way.
    """

    def __init__(self, folder: Path, header: StudyHeader, problems: Sequence[Problem]) -> None:
        self.folder, self.header, self.problems = folder, header, tuple(problems)
        self.notes: tuple[str, ...] = ()
        path = next((p for p in (folder / EVENTS, folder / (EVENTS + GZIPPED)) if p.exists()), None)
        self._events, self._size = lines(path, _EVENT.validate_json) if path is not None else ([], 0)
        self.ledger = Ledger()
        for event in self._events:
            self.ledger.absorb(event)
        self._journal: Journal | None = None
        self._lock: Lock | None = None
        self._appending = threading.Lock()
        self._opened = time.monotonic()
        self._before_s = self.ledger.elapsed_s

    @classmethod
    def open_or_create(cls, root: Path, header: StudyHeader, problems: Sequence[Problem]) -> Study:
        """Begin the study `header.name` under `root`, or go on with it.

        Raises UserError when the stored study was made in an environment or with settings whose
        results cannot be mixed with this run's, when another process writes it, or when its files
        are damaged. A changed list of problems is taken over; what was measured is kept.
        """
        folder = _folder(root, header.name)
        lock = Lock(folder)
        try:
            study = cls._locked(folder, header, problems)
        except BaseException:
            lock.release()
            raise
        study._lock = lock
        return study

    @classmethod
    def _locked(cls, folder: Path, header: StudyHeader, problems: Sequence[Problem]) -> Study:
        if (folder / HEADER).exists():
            stored, before = read_inputs(folder)
            _refuse_mixing(folder, stored, header)
            _refuse_contracts(folder, before, problems)
            if not (folder / EVENTS).exists() and (folder / (EVENTS + GZIPPED)).exists():
                expand(folder / EVENTS)
            study = cls(folder, stored, problems)
            study.notes = (*_environment_notes(stored, header), *_problem_notes(before, problems))
        elif (folder / EVENTS).exists():
            raise UserError(
                f"{folder} holds {EVENTS} but no {HEADER}; restore that file, or move the folder away"
            )
        else:
            study = cls(folder, header, problems)
        replace(folder / PROBLEMS, _PROBLEMS.dump_json(tuple(problems), indent=1).decode() + "\n")
        if not (folder / HEADER).exists():  # last: a folder without it is not a study yet
            replace(folder / HEADER, header.model_dump_json(indent=1) + "\n")
        study._journal = Journal(folder / EVENTS, study._size)
        return study

    @classmethod
    def load(cls, root: Path, study: str, shipped: Path | None = None) -> Study:
        """Read a study by name or path (`find`), also while another process writes it."""
        folder = find(root, study, shipped)
        header, problems = read_inputs(folder)
        return cls(folder, header, problems)

    def run_failed(
        self, kernel: KernelConfig, launch: LaunchConfig, problem: Problem, failure: Failure
    ) -> None:
        """Store that a launch gave no measurement."""
        self.append(
            RunFailed(kernel=kernel, launch=launch, problem=problem.key, failure=failure, at_s=self.now_s())
        )

    def append(self, event: Event) -> None:
        """Store an event durably, then count it. Thread-safe. UserError when the disk is full."""
        if self._journal is None:
            raise RuntimeError(f"{self.folder} was opened to read")
        with self._appending:
            self._journal.append(event)
            self._events.append(event)
            self.ledger.absorb(event)

    def close(self) -> None:
        """Flush to disk and let others write. Closed also when it raises UserError: flushing failed."""
        journal, self._journal = self._journal, None
        lock, self._lock = self._lock, None
        try:
            if journal is not None:
                journal.close()
        finally:
            if lock is not None:
                lock.release()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        return self.header.name

    def events(self) -> tuple[Event, ...]:
        """All events in the order they happened."""
        return tuple(self._events)

    def now_s(self) -> float:
        """Seconds spent on this study over all its runs: what an event's `at_s` says."""
        return self._before_s + time.monotonic() - self._opened

    def measurements(self, problem: str) -> tuple[Measurement, ...]:
        """All measurements on a problem, right or wrong, in order."""
        return tuple(self.ledger.measured.get(problem, ()))

    def best(self, problem: str) -> Best | None:
        """The fastest verified config on a problem, None where there is none."""
        return self.ledger.best(problem)

    def summary(self) -> StudySummary:
        """Counts, and the standing of this run's problems."""
        return self.ledger.summary(problem.key for problem in self.problems)


def _folder(root: Path, name: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UserError(f"--study {name!r} is no name; use letters, digits, '.', '_' and '-'")
    folder = root / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lock").touch()
    except OSError as error:
        raise UserError(
            f"cannot write study {folder}: {error.strerror}; choose a folder with --studies"
        ) from error
    return folder


def read_inputs(folder: Path) -> tuple[StudyHeader, tuple[Problem, ...]]:
    """Header and problems of the study in a folder. Raises UserError where they cannot be read."""
    try:
        header = StudyHeader.model_validate_json((folder / HEADER).read_bytes())
        problems = _PROBLEMS.validate_json((folder / PROBLEMS).read_bytes())
    except (OSError, ValidationError) as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise UserError(f"study {folder} cannot be read: {said}; restore {HEADER} and {PROBLEMS}") from error
    if header.version != VERSION:
        raise UserError(
            f"study {folder} has format {header.version}, this version reads {VERSION}; choose another name "
            f"with --study"
        )
    return header, problems


def _refuse_mixing(folder: Path, stored: StudyHeader, now: StudyHeader) -> None:
    """UserError naming every decisive field that differs, with both values."""
    pairs = [(name, getattr(stored, name), getattr(now, name)) for name in ("op", "family", "l2")]
    pairs += [("recording", _recording(stored), _recording(now))]
    pairs += [("space", stored.space_digest, now.space_digest)]
    pairs += [(f, getattr(stored.environment, f), getattr(now.environment, f)) for f in DECISIVE]
    if _torch_is_timed(stored):
        pairs += [("torch", stored.environment.torch, now.environment.torch)]
    different = [f"{name} {_shown(a)} there, {_shown(b)} now" for name, a, b in pairs if a != b]
    if different:
        raise UserError(
            f"study {folder} cannot go on: {'; '.join(different)}; results would not be comparable, so "
            f"start another with --study NAME"
        )


def _torch_is_timed(header: StudyHeader) -> bool:
    """Are the op's baselines kernels that come with torch, not those of cuBLAS?"""
    return not registry.op(header.op).tunes_baseline


def _recording(header: StudyHeader) -> str:
    """What stood in for the GPU, in words."""
    return header.simulated or "none (a GPU measures)"


def _shown(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)


def _refuse_contracts(folder: Path, before: Sequence[Problem], now: Sequence[Problem]) -> None:
    contracts = {problem.key: problem.contract for problem in before}
    for problem in now:
        stored = contracts.get(problem.key, problem.contract)
        if stored != problem.contract:
            raise UserError(
                f"study {folder} cannot go on: {problem.label} has contract {stored} there, "
                f"{problem.contract} now; start another with --study NAME"
            )


def _environment_notes(stored: StudyHeader, now: StudyHeader) -> list[str]:
    pairs = [(f, getattr(stored.environment, f), getattr(now.environment, f)) for f in NOTED]
    before, after = stored.environment.libraries, now.environment.libraries
    pairs += [(f, before.get(f, "not there"), after.get(f, "not there")) for f in {**before, **after}]
    return [f"{name} was {a} when the study began and is {b} now" for name, a, b in pairs if a != b]


def _problem_notes(before: Sequence[Problem], now: Sequence[Problem]) -> list[str]:
    old, new = {p.key: p for p in before}, {p.key: p for p in now}
    added = [p.label for key, p in new.items() if key not in old]
    dropped = [p.label for key, p in old.items() if key not in new]
    notes = [f"problems added since the last run: {', '.join(added)}"] if added else []
    return notes + (
        [f"problems dropped since the last run (results kept): {', '.join(dropped)}"] if dropped else []
    )
