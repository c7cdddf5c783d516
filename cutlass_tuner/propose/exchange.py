"""One question to the Messages API, through Anthropic's SDK: until its answer has come, or why it has not.

Importing this imports the SDK, which takes over a second: `messages` does so once a model is to be asked.
Each question has an event loop of its own, because cancelling a task is the one way to end any wait at once:
for a name server, for the delay before a retry, for a server that has gone silent.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import anthropic

from cutlass_tuner.propose.streamed import Streamed, failed
from cutlass_tuner.records import Failure

POLL_S = 0.1
CLOSING_S = 0.5
"""How soon a cancellation is noticed, and how long closing the connection may take then."""

CONNECT_S = 10.0

_MAY_PASS = (408, 409, 429, 499)
"""Of the 4xx: what may go better next time."""
_LASTING_TYPES = (
    "invalid_request",
    "authentication",
    "billing",
    "permission",
    "not_found",
    "request_too_large",
)
"""Kinds of errors sent in mid-stream, where there is no status, that will not go better next time."""
_NOT_SENT = (
    "ConnectError",
    "ConnectTimeout",
    "PoolTimeout",
    "ProxyError",
    "UnsupportedProtocol",
    "LocalProtocolError",
)
"""httpx2's errors before a request has reached anybody."""
_SECRET = ("auth", "key", "token", "secret", "cookie", "pass", "pwd", "cred", "sign", "session", "jwt")
"""Parts of the names of headers whose values are nobody's business."""


@dataclass(frozen=True)
class Limits:
    """`silence_s` is the longest wait for the next byte, `total_s` that for the whole answer, `retries` the
    SDK's. `base_url` None: what the SDK finds in the environment, else Anthropic's own."""

    silence_s: float
    total_s: float
    retries: int
    base_url: str | None = None


class _LostError(Exception):
    """A request went out and nothing came back. None of the SDK's errors, so that it does not ask again: the
    answer that was lost may have to be paid, and so would the next one."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__()
        self.cause = cause


def has_credential() -> bool:
    """Does the SDK find any, be it a profile on the disk? Raises AnthropicError for one that is broken."""
    with anthropic.Anthropic(base_url="https://localhost") as client:  # nothing is sent
        return any(one is not None for one in (client.api_key, client.auth_token, client.credentials))


def exchange(
    question: Mapping[str, Any],
    limits: Limits,
    cancelled: threading.Event,
    answer: Streamed,
    secrets: set[str],
) -> Failure | None:
    """Ask `question` (arguments of `messages.create`), and fill `answer` with what comes and `secrets` with
    the credentials that went out. None where the stream ended by itself. Returns within a second of
    `cancelled`; whatever is said of failures may still hold the credentials."""
    for name in ("anthropic", "httpx2", "httpcore2"):  # ANTHROPIC_LOG=debug would print questions and headers
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_Daemons())
    try:
        talk = _converse(question, limits, answer, secrets)
        return loop.run_until_complete(_supervise(talk, limits.total_s, cancelled))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


class _Daemons(ThreadPoolExecutor):
    """Looks names up on threads that nobody waits for: Python's own pools are joined when the program ends,
    and a name server that hangs would keep it for as long."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # so that nobody can cancel what can't be stopped

        def work() -> None:
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=work, name="lookup", daemon=True).start()
        return future


async def _supervise(
    talk: Coroutine[Any, Any, Failure | None], total_s: float, cancelled: threading.Event
) -> Failure | None:
    task = asyncio.ensure_future(talk)
    clock = asyncio.get_running_loop().time
    deadline = clock() + total_s
    while not task.done() and not cancelled.is_set() and clock() < deadline:
        await asyncio.wait({task}, timeout=POLL_S)
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.wait({task}, timeout=CLOSING_S)
    return failed("cancelled" if cancelled.is_set() else f"no whole answer within {total_s:g} s")


async def _converse(
    question: Mapping[str, Any], limits: Limits, answer: Streamed, secrets: set[str]
) -> Failure | None:
    async def attempt(request: anthropic.APIRequest, send: anthropic.AsyncCallNext) -> Any:
        """Every attempt passes here, those that the SDK retries too."""
        answer.pending = True
        try:
            response = await send(request)
        except anthropic.APIConnectionError as error:
            secrets.update(_credentials(error.request.headers))
            answer.pending = type(error.__cause__).__name__ not in _NOT_SENT
            if answer.pending:
                raise _LostError(error.__cause__ or error) from None
            raise
        except Exception:  # while it was put together; the SDK wraps whatever comes later
            answer.pending = False
            raise
        secrets.update(_credentials(response.http_request.headers))
        answer.pending = answer.answered = response.status_code < 400
        return response

    try:
        async with (
            _client(limits, attempt) as client,
            await client.messages.create(**question, stream=True) as stream,
        ):
            async for event in stream:
                answer.take(event)
                if answer.too_long:
                    break
    except Exception as error:  # the edge to a network and to a server that may send anything
        return _failure(error, limits, answer, str(question["model"]))
    return None


def _client(limits: Limits, attempt: anthropic.AsyncMiddlewareCallable) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url=limits.base_url,
        timeout=anthropic.Timeout(limits.silence_s, connect=min(CONNECT_S, limits.silence_s)),
        max_retries=limits.retries,
        middleware=[attempt],
        open_telemetry=False,
    )


def _credentials(headers: Mapping[str, str]) -> set[str]:
    values = [value for name, value in headers.items() if any(part in name.lower() for part in _SECRET)]
    return {word for value in values for word in value.split()}


def _failure(error: Exception, limits: Limits, answer: Streamed, model: str) -> Failure:
    if isinstance(error, anthropic.APIStatusError):
        return _refused(error, model)
    if isinstance(error, _LostError):
        return _broken(error.cause, limits)
    if isinstance(error, anthropic.APIConnectionError):
        return _broken(error.__cause__ or error, limits)
    said = f"{type(error).__name__}: {error}"
    if not answer.answered:  # a profile, an address or a key that cannot be used
        return failed(f"the API cannot be asked ({said})", lasting=True)
    if isinstance(error, (ValueError, TypeError, AttributeError, LookupError)):
        return failed(f"what the API sent is no answer of the Messages API ({said})")
    return _broken(error, limits)


def _broken(cause: BaseException, limits: Limits) -> Failure:
    name = type(cause).__name__
    if name == "ReadTimeout":
        return failed(f"the API was silent for {limits.silence_s:g} s")
    what = "the API cannot be reached" if name in _NOT_SENT else "the connection to the API broke"
    return failed(f"{what} ({name}: {cause})")


def _refused(error: anthropic.APIStatusError, model: str) -> Failure:
    """A status of 4xx or 5xx, after the SDK's retries, or an error among a stream's events (status 200)."""
    status, kind = error.status_code, str(error.type or "")
    what = {
        401: "does not accept the credential",
        403: "does not allow this",
        404: f"does not know the model {model}",
        429: "limits the rate, retries included",
        529: "is overloaded",
    }.get(status, "failed" if status < 400 or status >= 500 else "does not take the question")
    lasting = (
        status not in _MAY_PASS if 400 <= status < 500 else status < 400 and kind.startswith(_LASTING_TYPES)
    )
    about = " ".join(word for word in (str(status) if status >= 400 else "mid-stream", kind) if word)
    reason = f"the API {what} ({about}): {error.api_message or 'it does not say why'}"
    return failed(reason, f"request {error.request_id}\n{error.body}", lasting)
