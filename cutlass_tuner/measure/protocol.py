"""Is a line an answer to the request that was asked? Pure; `worker` acts on it."""

from __future__ import annotations

import math

from pydantic import TypeAdapter, ValidationError

from cutlass_tuner.wire import (
    Broken,
    Contest,
    ContestResult,
    Describe,
    Described,
    Reply,
    Request,
    Timed,
    TuneBaseline,
    TunedBaseline,
)

ANSWERS = {Contest: ContestResult, TuneBaseline: TunedBaseline, Describe: Described}

_PARSE: TypeAdapter[Reply] = TypeAdapter(Reply)


def parse(request: Request, line: bytes) -> Reply | str:
    """The reply on this line, or one line saying why it is no answer to `request`.

    Besides the schema: the right kind of reply, one outcome an entry under the names asked for, and
    samples that are times. A child that can't keep to that can't be trusted with the next request.
    """
    try:
        reply = _PARSE.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{first['msg']}{f' at {where}' if where else ''}: {_shown(line)}"
    if isinstance(reply, Broken):
        return reply
    if not isinstance(reply, ANSWERS[type(request)]):
        return f"a {reply.reply!r} reply to a {request.request!r} request"
    fault = _contest_fault(request, reply) if isinstance(request, Contest) else None
    return fault or reply


def _contest_fault(request: Contest, reply: Reply) -> str | None:
    assert isinstance(reply, ContestResult)
    asked, answered = [entry.name for entry in request.entries], [entry.name for entry in reply.entries]
    if sorted(asked) != sorted(answered):
        return f"outcomes for {answered}, asked were {asked}"
    for entry in reply.entries:
        if not isinstance(entry, Timed):
            continue
        if len(entry.samples_us) > request.rounds:
            return f"{len(entry.samples_us)} samples of {entry.name} in {request.rounds} rounds"
        for sample in entry.samples_us:
            if not (math.isfinite(sample) and sample > 0):
                return f"a sample of {sample} us for {entry.name}"
    return None


def _shown(line: bytes, limit: int = 80) -> str:
    """The start of a line, printable."""
    text = line[:limit].decode("utf-8", "replace")
    return repr(text) + (f" ... ({len(line):,} bytes)" if len(line) > limit else "")
