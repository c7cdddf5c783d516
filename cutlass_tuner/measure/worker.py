"""Asks the measuring child, and outlives whatever it does.

Kernels hang, crash and poison CUDA contexts. Whatever becomes of the child, `Worker.ask` returns
in time, with a reply or with a `Failure` that says what happened; the next `ask` has a sound child.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from cutlass_tuner.measure.child import Child
from cutlass_tuner.measure.protocol import parse
from cutlass_tuner.records import Failure
from cutlass_tuner.wire import Broken, Reply, Request

REPLY_BYTES = 64 << 20
"""A line longer than this is no reply: the largest real one, 100 entries of 60 samples, is 300 KB."""

LOG_BYTES = 64 << 20
"""A log that grows beyond this during one request is cut, so that a flood can't fill the disk."""

LOG_TAIL_BYTES = 4096
LOG_TAIL_LINES = 20
READ_BYTES = WRITE_BYTES = 1 << 16
EXIT_S = 5.0
"""How long a child may take from closing its pipes to its end. torch's exit takes about a second."""
TICK_S = 0.5
"""How often a silent child is looked at. Its death also wakes us by end of file, at once, unless a
process of its own still holds the pipe."""


@dataclass
class _Exchange:
    """One request on one child: a line, or a fault as a text that may hold "{ending}".

    `at_fault` is False where the child ended before it took the request, which then can't be to blame.
    """

    line: bytes | None = None
    fault: str = ""
    at_fault: bool = True


class Worker:
    """A child process, started when first needed and restarted when it failed.

    `command` must speak `wire.py` over the two pipes (see `child.py`). `env` replaces this process's
    environment. A child that starts gets `start_s` seconds on top of its first request's time, for
    imports and the CUDA context. For one thread; use it as a context manager or call `close`.
    """

    def __init__(
        self, command: list[str], log_path: Path, env: dict[str, str] | None = None, start_s: float = 60.0
    ) -> None:
        self.command = command
        self.log_path = log_path
        self.start_s = start_s
        self._env = env
        self._child: Child | None = None
        self._started = 0
        self._log_mark = 0

    @property
    def pid(self) -> int | None:
        """The process id of the child at hand, None between children."""
        return self._child.pid if self._child else None

    @property
    def restarts(self) -> int:
        """How many children were started after the first."""
        return max(0, self._started - 1)

    def ask(self, request: Request, timeout_s: float) -> Reply | Failure:
        """Send one request and wait for its reply, `timeout_s` seconds at most.

        A `Failure` of stage "worker" when the child hung (it is killed), died, or answered anything
        but one valid reply to this request (it is killed). `Broken` replies are returned; after a
        fatal one the child is ended. Only a child that ended before it took the request is replaced
        and asked again, once; one that took it while dying of a signal has failed it. Raises
        UserError where a child can't be killed. Any exception here, Ctrl-C too, ends the child: its
        late reply must not meet the next request.
        """
        message = request.model_dump_json().encode() + b"\n"
        self._log_mark = self._log_size()
        try:
            for attempt in range(2):
                fresh = self._ready()
                if isinstance(fresh, Failure):
                    return fresh
                allowed_s = timeout_s + (self.start_s if fresh else 0.0)
                exchange = self._exchange(message, allowed_s)
                if exchange.at_fault or attempt == 1:
                    break
                self._end()
            return self._judged(request, exchange)
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """End the child, if any. May be called again; a later `ask` starts a new one."""
        self._end()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- the child

    def _ready(self) -> bool | Failure:
        """Have a child that owes nothing. True when it was started just now."""
        if self._child is not None and (self._child.ended() or _readable(self._child.replies)):
            self._end()  # it ended between requests, or speaks without being asked
        if self._child is not None:
            return False
        try:
            self._child = Child(
                self.command, self.log_path, dict(os.environ) if self._env is None else self._env
            )
        except OSError as error:
            return Failure(stage="worker", reason=f"the measuring process can't be started: {error}")
        self._started += 1
        return True

    def _end(self) -> str:
        """End and forget the child; how it ended."""
        child, self._child = self._child, None
        return child.kill() if child else ""

    # --- one exchange

    def _exchange(self, message: bytes, allowed_s: float) -> _Exchange:
        """Write `message` while reading, until one line, a fault or the deadline.

        Both at once and without blocking: a stopped child reads nothing, a mad one writes only.
        """
        child = self._child
        assert child is not None
        deadline = time.monotonic() + allowed_s
        written, received = 0, bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(child.replies, selectors.EVENT_READ)
            selector.register(child.requests, selectors.EVENT_WRITE)
            while (left := deadline - time.monotonic()) > 0:
                ended = child.ended()  # asked before reading, so that its last words are still read
                ready = {key.fd for key, _ in selector.select(0 if ended else min(left, TICK_S))}
                if child.requests in ready:
                    count = _write(child.requests, message[written : written + WRITE_BYTES])
                    written += count or 0
                    if count is None or written == len(message):
                        selector.unregister(child.requests)
                chunk = _read(child.replies) if child.replies in ready else None
                if chunk:
                    received += chunk
                    if (outcome := _line(received, chunk)) is not None:
                        return outcome
                elif chunk == b"" or ended:
                    return _gone(child, written, len(received))
                self._bound_log()
        return _Exchange(fault=f"no answer within {allowed_s:g} s: killed")

    def _judged(self, request: Request, exchange: _Exchange) -> Reply | Failure:
        if exchange.line is None:
            reason = exchange.fault.format(ending=self._end())
            return Failure(stage="worker", reason=reason, detail=self._log_tail())
        reply = parse(request, exchange.line)
        if isinstance(reply, str):
            self._end()
            return Failure(stage="worker", reason=f"answered nonsense: {reply}", detail=self._log_tail())
        if isinstance(reply, Broken) and reply.fatal:
            self._end()
        return reply

    # --- the log

    def _log_size(self) -> int:
        return self.log_path.stat().st_size if self.log_path.exists() else 0

    def _bound_log(self) -> None:
        """Cut a flooded log. The child appends, so it goes on at the new end."""
        if self._log_size() - self._log_mark > LOG_BYTES:
            with contextlib.suppress(OSError):
                os.truncate(self.log_path, self._log_mark)

    def _log_tail(self) -> str:
        """The last lines the child printed during this request."""
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as log:
            log.seek(max(self._log_mark, self._log_size() - LOG_TAIL_BYTES))
            text = log.read(LOG_TAIL_BYTES).decode("utf-8", "replace")
        return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])


def _readable(descriptor: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


def _line(received: bytearray, chunk: bytes) -> _Exchange | None:
    """What `received` amounts to, once `chunk` was added to it; None while it may still grow."""
    if b"\n" in chunk:
        line, _, rest = bytes(received).partition(b"\n")
        if rest:
            return _Exchange(fault=f"answered more than one line ({len(rest):,} bytes more): killed")
        return _Exchange(line=line)
    if len(received) > REPLY_BYTES:
        return _Exchange(fault=f"answered {len(received):,} bytes without an end of line: killed")
    return None


def _gone(child: Child, written: int, received: int) -> _Exchange:
    """The child closed its reply pipe or ended."""
    taken = child.unread_bytes() < written
    after = f" after {received:,} bytes of an answer" if received else ""
    if not child.ended(within_s=EXIT_S):
        return _Exchange(fault=f"closed its reply pipe{after}, but went on: killed")
    return _Exchange(fault=f"the measuring process {{ending}}{after}", at_fault=taken or received > 0)


def _write(descriptor: int, data: bytes) -> int | None:
    """Bytes written; None when nobody can read them any more (the reply pipe tells the rest)."""
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return None


def _read(descriptor: int) -> bytes | None:
    """What is there, b"" at end of file, None when there is nothing after all."""
    try:
        return os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return None
