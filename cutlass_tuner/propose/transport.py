"""How a question reaches whoever answers it: a model's API, recorded replies, or files a person carries."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Protocol

from cutlass_tuner.errors import UserError
from cutlass_tuner.ideas import Answer
from cutlass_tuner.options import REPLAY, LlmOptions
from cutlass_tuner.propose.manual import ManualTransport
from cutlass_tuner.propose.messages import MessagesTransport, why_no_credential
from cutlass_tuner.propose.replay import ReplayTransport
from cutlass_tuner.propose.request import Request
from cutlass_tuner.settings import settings


class Transport(Protocol):
    """One way to get questions answered. `name` stands in the journal: "anthropic", "replay" or "manual"."""

    name: str

    def introduce(self) -> str:
        """One line to print before the first question: who answers, and what it may cost."""

    def ask(self, request: Request, cancelled: threading.Event) -> Answer | None:
        """The answer, waited for on the calling thread; within a second of `cancelled` being set, it returns.

        None: there is nothing more to ask (replies used up, money used up, cancelled). It never raises: what
        goes wrong is the answer's `failure`, `lasting` where asking again is pointless.
        """

    def close(self) -> None:
        """No more questions."""


def open_transport(options: LlmOptions, done: int) -> Transport | None:
    """The transport that `--llm` names, None for none. `done` rounds are answered already, in earlier runs.

    Without `--llm`, the API is asked where ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN is set: whatever else
    the SDK would find (a profile on the disk) is used when asked for, not by chance. UserError for a folder
    without replies, one that cannot be written to, or an API asked for without a credential.
    """
    if options.llm == "none" or (options.llm is None and not settings().llm_credential):
        return None
    if options.llm == "manual" and options.replies is not None:
        return ManualTransport(options.replies)
    if options.llm is not None and options.llm.startswith(REPLAY):
        return ReplayTransport(Path(options.llm.removeprefix(REPLAY)).expanduser(), done)
    if options.llm is not None and (why := why_no_credential()):
        raise UserError(
            f"--llm anthropic: {why}; set ANTHROPIC_API_KEY, or use --llm none, manual or replay:DIR"
        )
    return MessagesTransport(options)
