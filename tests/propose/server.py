"""A server on the loopback that speaks the Messages API the way Anthropic's does: events in a chunked stream.

Each request gets the next answer of a script; the last one is repeated. Nothing leaves this machine.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Event = dict[str, Any]
Act = Callable[["Connection"], None]
"""What the server does with one request."""

USAGE = {"input_tokens": 1000, "cache_creation_input_tokens": 2000, "cache_read_input_tokens": 4000}
OUTPUT_TOKENS = 500


def started(model: str = "claude-opus-5-5-20261001") -> Event:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    usage = {**USAGE, "output_tokens": 1}
    return {
        "type": "message_start",
        "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage},
    }


def block(index: int, kind: str, pieces: list[str]) -> list[Event]:
    """A content block, "text" or "thinking", in pieces."""
    delta = f"{kind}_delta"
    return [
        {"type": "content_block_start", "index": index, "content_block": {"type": kind, kind: ""}},
        {"type": "ping"},
        *(
            {"type": "content_block_delta", "index": index, "delta": {"type": delta, kind: piece}}
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": index},
    ]


def stopped(reason: str, output_tokens: int = OUTPUT_TOKENS, **delta: Any) -> list[Event]:
    told = {"stop_reason": reason, "stop_sequence": None, **delta}
    usage = {"output_tokens": output_tokens}
    return [{"type": "message_delta", "delta": told, "usage": usage}, {"type": "message_stop"}]


def whole(*pieces: str, stop: str = "end_turn", **delta: Any) -> list[Event]:
    """All events of an answer whose text comes in these pieces."""
    return [started(), *block(0, "text", list(pieces)), *stopped(stop, **delta)]


@dataclass
class Connection:
    """One request, being answered. `left` is set when the server shuts down, `hung_up` if the client does."""

    handler: BaseHTTPRequestHandler
    left: threading.Event
    hung_up: threading.Event

    def head(self, status: int, **headers: str) -> None:
        self.handler.send_response(status)
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.send_header("request-id", "req_1")
        self.handler.send_header("connection", "close")
        self.handler.end_headers()

    def chunk(self, data: bytes) -> None:
        try:
            self.handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        except OSError:
            self.hung_up.set()
            raise

    def send(self, events: list[Event]) -> None:
        for event in events:
            self.chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def open_stream(self) -> None:
        self.head(200, content_type="text/event-stream", transfer_encoding="chunked")

    def wait(self, seconds: float) -> None:
        self.left.wait(seconds)


def answer(events: list[Event]) -> Act:
    def act(connection: Connection) -> None:
        connection.open_stream()
        connection.send(events)
        connection.chunk(b"")

    return act


def dropped(events: list[Event]) -> Act:
    """The connection ends after these events, without the last chunk."""

    def act(connection: Connection) -> None:
        connection.open_stream()
        connection.send(events)

    return act


def silent(events: list[Event], seconds: float = 30.0) -> Act:
    """These events (with none of them: not even a status), and then nothing."""

    def act(connection: Connection) -> None:
        if events:
            connection.open_stream()
            connection.send(events)
        connection.wait(seconds)

    return act


def pinging(every_s: float) -> Act:
    """Never silent and never done."""

    def act(connection: Connection) -> None:
        connection.open_stream()
        connection.send([started()])
        while not connection.left.is_set():
            connection.send([{"type": "ping"}])
            connection.wait(every_s)

    return act


def refuse(status: int, kind: str, message: str, echo: bool = False, **headers: str) -> Act:
    """An error; with `echo` its message and body repeat the credential that came with the request."""

    def act(connection: Connection) -> None:
        said = connection.handler.headers
        key = (said.get("x-api-key") or said.get("authorization") or "").removeprefix("Bearer ")
        told = f"{message} {key}" if echo else message
        body = json.dumps({"type": "error", "error": {"type": kind, "message": told}}).encode()
        connection.head(status, content_type="application/json", content_length=str(len(body)), **headers)
        connection.handler.wfile.write(body)

    return act


def raw(data: bytes, content_type: str = "text/html") -> Act:
    def act(connection: Connection) -> None:
        connection.head(200, content_type=content_type, content_length=str(len(data)))
        connection.handler.wfile.write(data)

    return act


@dataclass
class Server:
    """`bodies` and `headers` of what was asked, in order, and when (monotonic seconds); `hung_up` is set when
    a client closes the connection before its answer is whole."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    hung_up: threading.Event = field(default_factory=threading.Event)


class _Loopback(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is what some tests are about."""


@contextmanager
def serving(*script: Act) -> Iterator[Server]:
    server, left, turns = Server(), threading.Event(), iter(script)
    last = script[-1]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            server.times.append(time.monotonic())
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.bodies.append(json.loads(body))
            self.close_connection = True
            assert self.path.split("?")[0] == "/v1/messages"
            next(turns, last)(Connection(self, left, server.hung_up))

        def log_message(self, *_: object) -> None:
            pass

    loopback = _Loopback(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{loopback.server_address[1]}"
    thread = threading.Thread(target=loopback.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        left.set()
        loopback.shutdown()
        loopback.server_close()
        thread.join()
