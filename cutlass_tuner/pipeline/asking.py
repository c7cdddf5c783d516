"""One question at a time, answered on a thread of its own: nobody but who wants to waits for an answer."""

from __future__ import annotations

import queue
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path

from cutlass_tuner.ideas import Answer
from cutlass_tuner.propose.request import Request
from cutlass_tuner.propose.transport import Transport
from cutlass_tuner.records import Failure


@dataclass(frozen=True)
class Heard:
    """A question, put at `asked_s` of the study, and what came of it; `answer` None: there are no more."""

    question: Request
    asked_s: float
    answer: Answer | None


class Asking:
    """Puts questions to `transport`. For one thread; once closed it must not be asked again."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._answers: queue.Queue[Answer | None] = queue.Queue()
        self._cancelled = threading.Event()
        self._asked: tuple[Request, float] | None = None

    @property
    def thinking(self) -> bool:
        """Is an answer awaited?"""
        return self._asked is not None

    def put(self, question: Request, asked_s: float) -> None:
        """Ask; returns at once. One answer must have been heard before the next question."""
        assert self._asked is None, "one question at a time"
        self._asked = question, asked_s
        work = (self.transport, question, self._cancelled, self._answers)
        # A daemon: whatever it waits for, the program does not.
        threading.Thread(target=_ask, args=work, name="proposer", daemon=True).start()

    def hear(self, timeout_s: float) -> Heard | None:
        """The answer that has come, or comes within `timeout_s`; None while there is none."""
        if self._asked is None:
            return None
        try:
            answer = self._answers.get(timeout=timeout_s) if timeout_s else self._answers.get_nowait()
        except queue.Empty:
            return None
        question, asked_s = self._asked
        self._asked = None
        return Heard(question, asked_s, answer)

    def close(self) -> None:
        """Let whoever answers know that nobody waits any more. Returns at once."""
        self._cancelled.set()
        self.transport.close()


def _ask(
    transport: Transport, question: Request, cancelled: threading.Event, answers: queue.Queue[Answer | None]
) -> None:
    """The whole of a thread. Something must come of it whatever happens: it would be awaited for ever."""
    try:
        answers.put(transport.ask(question, cancelled))
    except BaseException as error:
        # Where, but not what it says: that may hold a credential.
        at = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"asking ended in {type(error).__name__} ({Path(at.filename).name}:{at.lineno})"
        answers.put(Answer(failure=Failure(stage="propose", reason=reason, lasting=False)))
