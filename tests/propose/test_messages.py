"""The Messages API over a loopback server: every way an answer can come, or not come."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from cutlass_tuner.errors import UserError
from cutlass_tuner.ideas import Answer
from cutlass_tuner.options import LlmOptions
from cutlass_tuner.propose.messages import MessagesTransport
from cutlass_tuner.propose.request import MAX_REPLY_BYTES, Request
from cutlass_tuner.propose.streamed import MAX_STREAM_CHARACTERS, MOST_TOKENS
from cutlass_tuner.propose.transport import open_transport
from cutlass_tuner.settings import settings
from propose.server import (
    OUTPUT_TOKENS,
    USAGE,
    Act,
    Server,
    answer,
    block,
    dropped,
    pinging,
    raw,
    refuse,
    serving,
    silent,
    started,
    stopped,
    whole,
)

KEY = "sk-ant-test-0123456789-abcdefghijklmnop"
SCHEMA = {"type": "object", "properties": {"ideas": {"type": "array"}}, "additionalProperties": False}
REQUEST = Request(round=1, system="You tune GEMM.", user="Shapes: 64x64x64.", schema=SCHEMA)
TEXT = '{"ideas": []}'
COST = (USAGE["input_tokens"] + 1.25 * 2000 + 0.1 * 4000) * 4e-6 + OUTPUT_TOKENS * 20e-6
"""USD for one whole answer of the server by claude-opus-5-5."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    """A credential that is nobody's, no profile, no proxy."""
    strip(monkeypatch, tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    settings.cache_clear()
    yield
    settings.cache_clear()


def strip(monkeypatch: pytest.MonkeyPatch, home: Any) -> None:
    for name in list(os.environ):
        if name.startswith("ANTHROPIC_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", "")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's retries, without their delays."""
    import anthropic._base_client as sdk

    monkeypatch.setattr(sdk, "INITIAL_RETRY_DELAY", 0.01)


def transport(server: Server, *, limits: dict[str, Any] | None = None, **options: Any) -> MessagesTransport:
    return MessagesTransport(LlmOptions(**options), base_url=server.url, **(limits or {}))


def ask(act: Act, *more: Act, limits: dict[str, Any] | None = None, **options: Any) -> tuple[Answer, Server]:
    late = threading.Event()
    timer = threading.Timer(10.0, late.set)
    timer.start()
    with serving(act, *more) as server:
        given = transport(server, limits=limits, **options).ask(REQUEST, late)
    timer.cancel()
    assert given is not None
    return given, server


def reason(given: Answer, *, lasting: bool) -> str:
    """Of the failure, which is as lasting as expected."""
    assert given.failure is not None
    assert given.failure.stage == "propose"
    assert given.failure.lasting is lasting
    assert "\n" not in given.failure.reason
    assert KEY not in given.model_dump_json()
    return given.failure.reason


# --- whole answers


def test_a_good_answer_and_what_was_asked() -> None:
    given, server = ask(answer(whole('{"ideas"', ": []}")), max_tokens=8000, effort="low")
    assert given.failure is None
    assert (given.text, given.model, given.stop) == (TEXT, "claude-opus-5-5-20261001", "end_turn")
    assert given.usage is not None
    assert (given.usage.input_tokens, given.usage.output_tokens) == (7000, OUTPUT_TOKENS)
    assert given.usage.cost_usd == pytest.approx(COST)

    (body,) = server.bodies
    cached = {"type": "text", "text": REQUEST.system, "cache_control": {"type": "ephemeral"}}
    assert body == {
        "model": "claude-opus-5-5",
        "max_tokens": 8000,
        "stream": True,
        "system": [cached],
        "messages": [{"role": "user", "content": REQUEST.user}],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"},
    }  # nothing else: no temperature, no tools, no tool_choice


def test_thinking_is_no_part_of_the_text() -> None:
    events = [started(), *block(0, "thinking", ["hm, {"]), *block(1, "text", [TEXT]), *stopped("end_turn")]
    given, _ = ask(answer(events))
    assert given.failure is None
    assert given.text == TEXT


def test_text_is_passed_on_as_it_is() -> None:
    fenced = f"Here you are:\n```json\n{TEXT}\n```\n"
    given, _ = ask(answer(whole(fenced)))
    assert given.failure is None
    assert given.text == fenced


def test_half_a_character_does_not_spoil_the_journal() -> None:
    """JSON may hold half of a surrogate pair, UTF-8 may not."""
    given, _ = ask(answer(whole("a\ud800b")))
    assert given.text == "a?b"
    assert Answer.model_validate_json(given.model_dump_json()) == given


# --- answers that are not whole


def test_an_empty_answer() -> None:
    given, _ = ask(answer(whole(" \n")))
    assert reason(given, lasting=False) == "the model answered without any text"


def test_a_truncated_answer_is_kept() -> None:
    given, _ = ask(answer(whole('{"ideas', stop="max_tokens")), max_tokens=5000)
    assert reason(given, lasting=False) == "the answer was cut off at --llm-max-tokens 5000; raise it"
    assert (given.text, given.stop) == ('{"ideas', "max_tokens")
    assert given.usage is not None and given.usage.cost_usd == pytest.approx(COST)


def test_a_refusal() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "no exploits"}
    given, _ = ask(answer(whole("", stop="refusal", stop_details=details)))
    assert reason(given, lasting=False) == "the model refused to answer"
    assert given.failure is not None and given.failure.detail == "cyber: no exploits"
    assert given.usage is not None and given.usage.output_tokens == OUTPUT_TOKENS


@pytest.mark.parametrize(
    "stop", ["tool_use", "pause_turn", "model_context_window_exceeded", "stop_sequence", "new"]
)
def test_any_other_stop_is_named(stop: str) -> None:
    given, _ = ask(answer(whole(TEXT, stop=stop)))
    assert stop in reason(given, lasting=False)


@pytest.mark.parametrize("megabytes", [5, 40])
def test_more_than_a_megabyte_is_not_read(megabytes: int) -> None:
    with serving(answer(whole(*["x" * 2**20] * megabytes))) as server:
        given = transport(server).ask(REQUEST, threading.Event())
        assert megabytes == 5 or server.hung_up.wait(2.0), "the rest is not even sent"
    assert given is not None
    assert reason(given, lasting=False) == f"the answer is longer than {MAX_REPLY_BYTES} bytes"
    assert given.text == ""


def test_the_longest_answer_is_read() -> None:
    given, _ = ask(answer(whole("x" * (MAX_REPLY_BYTES - 1), "x")))
    assert given.failure is None
    assert len(given.text) == MAX_REPLY_BYTES


@pytest.mark.parametrize("kind", ["thinking", "signature"])
def test_endless_thinking_is_not_read(kind: str) -> None:
    events = [started(), *block(0, kind, ["x" * 2**20] * 40)]
    with serving(answer(events)) as server:
        given = transport(server).ask(REQUEST, threading.Event())
        assert server.hung_up.wait(2.0), "the rest is not even sent"
    assert given is not None
    said = reason(given, lasting=False)
    assert said == f"the model wrote more than {MAX_STREAM_CHARACTERS} characters, its thinking included"


# --- refused questions


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected"),
    [
        (401, "authentication_error", "invalid x-api-key:", "does not accept the credential"),
        (403, "permission_error", "not yours:", "does not allow this"),
        (404, "not_found_error", "model: claude-none", "does not know the model claude-none"),
        (400, "invalid_request_error", "output_config.format.schema: too deep", "does not take the question"),
        (402, "billing_error", "no credit", "does not take the question"),
    ],
)
def test_what_is_refused_for_good(status: int, kind: str, message: str, expected: str) -> None:
    given, server = ask(refuse(status, kind, message, echo=True), model="claude-none")
    said = reason(given, lasting=True)
    assert said.startswith(f"the API {expected} ({status} {kind}): {message}")
    assert len(server.bodies) == 1
    assert given.usage is None
    assert given.failure is not None
    assert "[credential]" in said and "[credential]" in given.failure.detail


def test_a_credential_at_the_edge_of_the_reason_is_not_cut_in_half() -> None:
    """Reasons are cut at 400 characters, details at 2000."""
    for length in (*range(290, 340, 10), *range(1880, 1930, 10)):
        given, _ = ask(refuse(401, "authentication_error", "x" * length, echo=True))
        assert KEY[:4] not in given.model_dump_json()


def test_a_credential_in_the_answer_is_cut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-gateway-token: gateway-secret-1")
    given, server = ask(answer(whole(f"{KEY[:9]}", f"{KEY[9:]} gateway-secret-1")))
    assert server.headers[0]["x-gateway-token"] == "gateway-secret-1"
    assert given.text == "[credential] [credential]"


@pytest.mark.parametrize("name", ["X-Gw-Pass", "x-pwd", "X-Credential", "x-sign", "X-Session", "x-jwt"])
def test_a_credential_in_a_custom_header_is_cut_out(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", f"{name}: gateway-secret-1")
    given, server = ask(answer(whole("said: gateway-secret-1")))
    assert server.headers[0][name.lower()] == "gateway-secret-1"
    assert given.text == "said: [credential]"


def test_a_dummy_key_is_not_cut_out_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    given, _ = ask(answer(whole('{"split": "none"}')))
    assert given.text == '{"split": "none"}'


def test_a_key_that_no_header_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", f"{KEY}\nand-more")
    with serving(answer(whole(TEXT))) as server:
        given = transport(server, limits={"retries": 0}).ask(REQUEST, threading.Event())
    assert given is not None
    assert given.failure is not None
    assert KEY not in given.model_dump_json()
    assert not server.bodies
    assert given.usage is None


# --- retries


def test_a_rate_limit_passes_when_waited_for() -> None:
    limited = refuse(429, "rate_limit_error", "slow down", retry_after="0.3")
    given, server = ask(limited, answer(whole(TEXT)))
    assert given.failure is None
    assert given.text == TEXT
    assert server.times[1] - server.times[0] >= 0.3
    assert given.usage is not None and given.usage.cost_usd == pytest.approx(COST)


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (429, "rate_limit_error", "limits the rate"),
        (529, "overloaded_error", "is overloaded"),
        (500, "api_error", "failed (500"),
    ],
)
def test_what_may_pass_is_retried_and_then_given_up(
    quick: None, status: int, kind: str, expected: str
) -> None:
    given, server = ask(refuse(status, kind, "later"))
    assert expected in reason(given, lasting=False)
    assert len(server.bodies) == 3
    assert given.usage is None


def test_no_server(quick: None) -> None:
    with serving(answer([])) as server:
        pass
    asked = transport(server)
    given = asked.ask(REQUEST, threading.Event())
    assert given is not None
    assert "cannot be reached (ConnectError" in reason(given, lasting=False)
    assert asked.spent_usd == 0


# --- broken connections


def at_most(max_tokens: int = 32_000) -> float:
    """What an answer may cost of which nothing is known."""
    prompt = len((REQUEST.prompt + REQUEST.schema_text).encode())
    return (prompt + 1) // 2 * 1.25 * 4e-6 + max_tokens * 20e-6


def test_dropped_in_mid_stream() -> None:
    """What the prompt cost is known; of the text, the most is counted."""
    with serving(dropped([started(), *block(0, "text", ['{"id'])])) as server:
        asked = transport(server, max_tokens=10_000)
        given = asked.ask(REQUEST, threading.Event())
    assert given is not None
    assert "the connection to the API broke" in reason(given, lasting=False)
    assert len(server.bodies) == 1
    assert asked.spent_usd == pytest.approx(COST + (10_000 - OUTPUT_TOKENS) * 20e-6)
    assert given.usage is not None
    assert (given.usage.input_tokens, given.usage.output_tokens) == (7000, 1)
    assert given.usage.cost_usd == asked.spent_usd


def test_an_end_before_the_last_event() -> None:
    given, _ = ask(answer(whole(TEXT)[:-1]))
    assert reason(given, lasting=False) == "the connection ended before the answer did"


def test_an_error_in_mid_stream() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "too many"}}
    given, server = ask(answer([started(), error]))
    assert reason(given, lasting=False) == "the API failed (mid-stream overloaded_error): too many"
    assert len(server.bodies) == 1


def test_a_lasting_error_in_mid_stream() -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "schema"}}
    given, _ = ask(answer([started(), error]))
    assert "invalid_request_error" in reason(given, lasting=True)


@pytest.mark.parametrize("events", [[], [started()]], ids=["before the status", "in mid-stream"])
def test_silence(events: list[dict[str, Any]]) -> None:
    """Not retried: an answer that was lost may have to be paid."""
    start = time.monotonic()
    with serving(silent(events)) as server:
        asked = transport(server, limits={"silence_s": 0.3})
        given = asked.ask(REQUEST, threading.Event())
    assert given is not None
    assert reason(given, lasting=False) == "the API was silent for 0.3 s"
    assert time.monotonic() - start < 2
    assert len(server.bodies) == 1
    if not events:
        assert asked.spent_usd == pytest.approx(at_most())


def test_never_done() -> None:
    """Pings break the silence, not the limit of the whole."""
    given, _ = ask(pinging(0.05), limits={"silence_s": 5, "total_s": 0.5})
    assert reason(given, lasting=False) == "no whole answer within 0.5 s"
    assert given.usage is not None and given.usage.input_tokens == 7000


def test_a_retry_that_would_take_too_long() -> None:
    start = time.monotonic()
    given, _ = ask(refuse(429, "rate_limit_error", "later", retry_after="3600"), limits={"total_s": 0.5})
    assert reason(given, lasting=False) == "no whole answer within 0.5 s"
    assert time.monotonic() - start < 2
    assert given.usage is None


@pytest.mark.parametrize(
    "act",
    [silent([]), silent([started()]), pinging(0.05), refuse(429, "rate_limit_error", "", retry_after="3600")],
    ids=["no status", "stalled", "pings", "waiting to retry"],
)
def test_cancelled(act: Act, caplog: pytest.LogCaptureFixture) -> None:
    cancelled, done = threading.Event(), threading.Event()
    with serving(act) as server:
        asked = transport(server)

        def run() -> None:
            assert asked.ask(REQUEST, cancelled) is None
            done.set()

        threading.Thread(target=run, daemon=True).start()
        assert not done.wait(0.4)
        cancelled.set()
        assert done.wait(1.0)
        assert len(server.bodies) == 1
        assert asked.ask(REQUEST, cancelled) is None
        assert len(server.bodies) == 1
    gc.collect()
    assert not caplog.records, "no task is left over"


def test_cancelling_hangs_up() -> None:
    cancelled = threading.Event()
    threading.Timer(0.2, cancelled.set).start()
    with serving(pinging(0.05)) as server:
        assert transport(server).ask(REQUEST, cancelled) is None
        assert server.hung_up.wait(1.0)


@pytest.mark.parametrize(
    "act",
    [
        raw(b"<html>Sign in to the network</html>"),
        raw(b'{"type": "message"}', "application/json"),
        raw(b"event: message_start\ndata: {broken\n\n", "text/event-stream"),
        raw(b'event: message_start\ndata: {"type": "message_start", "message": 7}\n\n', "text/event-stream"),
        raw(b"event: message_start\ndata: \xff\xfe\n\n", "text/event-stream"),
        raw(b"event: message_start\ndata: [1, 2]\n\n", "text/event-stream"),
        raw(b"", "text/event-stream"),
        answer([{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}}]),
    ],
)
def test_no_answer_of_the_messages_api(act: Act) -> None:
    given, _ = ask(act)
    assert "no answer of the Messages API" in reason(given, lasting=False)


# --- money


def test_the_cap_is_never_passed() -> None:
    """Answers cost what the server says; the question after which the cap could be passed is not asked."""
    with serving(answer(whole(TEXT))) as server:
        asked = transport(server, max_usd=0.15, max_tokens=6000)
        answers = [asked.ask(REQUEST, threading.Event()) for _ in range(9)]
    given = [one for one in answers if one is not None]
    good, last = given[:-1], given[-1]
    assert len(good) == len(server.bodies) == 3
    assert asked.spent_usd == pytest.approx(3 * COST)
    said = reason(last, lasting=True)
    assert said.startswith(
        f"--llm-max-usd 0.15 is used up: {3 * COST:.2f} USD spent, and one more answer may cost"
    )
    assert answers[len(given) :] == [None] * (9 - len(given))
    # As money runs out answers get shorter, but none of fewer than 4000 tokens is asked for.
    asked_for = [body["max_tokens"] for body in server.bodies]
    assert asked_for[0] == 6000 and asked_for == sorted(asked_for, reverse=True)
    assert 4000 <= asked_for[-1] < 6000
    for n, tokens in enumerate(asked_for):
        assert n * COST + at_most(tokens) <= 0.15 + 1e-9


@pytest.mark.parametrize("told", [10**400, 10**12, float("inf")])
def test_no_count_of_tokens_is_beyond_belief(told: float) -> None:
    events = [started(), *block(0, "text", [TEXT]), *stopped("end_turn", output_tokens=told)]  # type: ignore[arg-type]
    with serving(answer(events)) as server:
        asked = transport(server)
        given = asked.ask(REQUEST, threading.Event())
    assert given is not None and given.usage is not None and given.failure is None
    assert given.usage.output_tokens == MOST_TOKENS
    assert asked.spent_usd == pytest.approx(MOST_TOKENS * 20e-6, rel=1e-4)
    assert given.usage.cost_usd == asked.spent_usd


def test_cut_off_for_want_of_money() -> None:
    given, _ = ask(answer(whole("{", stop="max_tokens")), max_usd=0.1)
    assert "all that --llm-max-usd had money left for" in reason(given, lasting=False)


def test_a_small_limit_of_tokens_is_the_users_choice() -> None:
    given, server = ask(answer(whole(TEXT)), max_tokens=1000)
    assert given.failure is None
    assert server.bodies[0]["max_tokens"] == 1000


def test_an_unknown_model_counts_at_the_dearest_price() -> None:
    with serving(answer(whole(TEXT))) as server:
        asked = transport(server, model="claude-new-1")
        given = asked.ask(REQUEST, threading.Event())
    assert given is not None and given.usage is not None
    assert given.usage.cost_usd is None
    assert asked.spent_usd == pytest.approx(3900 * 10e-6 + OUTPUT_TOKENS * 50e-6)
    assert "10 and 50 USD per million tokens" in asked.introduce()


def test_introduce() -> None:
    assert MessagesTransport(LlmOptions()).introduce() == (
        "language model: claude-opus-5-5 (effort medium), at most 2.00 USD and 6 rounds; "
        "--llm none does without"
    )


def test_nothing_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    import anthropic

    monkeypatch.setenv("ANTHROPIC_LOG", "debug")
    anthropic._utils._logs.setup_logging()  # type: ignore[attr-defined]
    with caplog.at_level(logging.DEBUG):
        ask(refuse(401, "authentication_error", "no", echo=True))
    assert {record.name for record in caplog.records} <= {"asyncio"}
    assert KEY not in caplog.text


def test_an_address_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:port")
    given = MessagesTransport(LlmOptions()).ask(REQUEST, threading.Event())
    assert given is not None
    assert reason(given, lasting=True).startswith("the API cannot be asked (InvalidURL")


# --- which transport


def test_the_environment_names_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(answer(whole(TEXT))) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        opened = open_transport(LlmOptions(model="claude-haiku-5-5"), done=0)
        assert opened is not None and opened.name == "anthropic"
        given = opened.ask(REQUEST, threading.Event())
        opened.close()
    assert given is not None and given.text == TEXT
    assert server.bodies[0]["model"] == "claude-haiku-5-5"
    assert KEY in server.headers[0].get("authorization", server.headers[0].get("x-api-key", ""))


def opened(llm: str | None) -> object:
    return open_transport(LlmOptions(llm=llm), done=0)


def test_by_default_a_credential_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(opened(None), MessagesTransport)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    settings.cache_clear()
    assert opened(None) is None
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    settings.cache_clear()
    assert isinstance(opened(None), MessagesTransport)
    assert opened("none") is None


def test_asked_for_without_a_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    settings.cache_clear()
    with pytest.raises(UserError, match="--llm anthropic: no credential is set"):
        opened("anthropic")


def test_a_profile_is_used_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, write_profile: Callable[[str], None]
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    settings.cache_clear()
    write_profile('{"authentication": {"type": "user_oauth"}}')
    assert opened(None) is None
    asked = opened("anthropic")
    assert isinstance(asked, MessagesTransport)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    given = asked.ask(REQUEST, threading.Event())  # the profile's credentials were never made
    assert given is not None and given.usage is None
    assert reason(given, lasting=True).startswith("the API cannot be asked (CredentialsError")
    write_profile("{broken")
    monkeypatch.setenv("ANTHROPIC_PROFILE", "default")
    with pytest.raises(UserError, match="the credential cannot be used"):
        opened("anthropic")


@pytest.fixture
def write_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Callable[[str], None]:
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))

    def write(text: str) -> None:
        (tmp_path / "configs").mkdir(exist_ok=True)
        (tmp_path / "configs" / "default.json").write_text(text)

    return write
