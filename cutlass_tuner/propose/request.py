"""What a proposer is asked: a prompt in two parts and the JSON schema of the answer."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

MAX_REPLY_BYTES = 2**20
"""A longer reply, in UTF-8, is no answer: a thousand kernels spelled out take a tenth of it."""

_ANSWER = """\
# Your answer

Answer with one JSON document of the schema above and nothing else: no text before or after it, no code fence
around it. Every field that the schema requires must be there, and it allows no others."""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Request:
    """One question. `round` counts from 1 over all runs of a study; `system` says who answers and how, `user`
    what is known by now; `schema` is the JSON schema of the answer."""

    round: int
    system: str
    user: str
    schema: dict[str, Any]

    @property
    def prompt(self) -> str:
        """All that is given to read, as one markdown text."""
        return f"{self.system.strip()}\n\n{self.user.strip()}\n"

    @property
    def digest(self) -> str:
        """Sixteen hex digits naming the prompt."""
        return _digest(self.prompt)

    @property
    def schema_digest(self) -> str:
        """Sixteen hex digits naming the schema, whatever the order of its keys."""
        return _digest(json.dumps(self.schema, sort_keys=True))

    @property
    def schema_text(self) -> str:
        """The schema as JSON, indented for a reader."""
        return json.dumps(self.schema, indent=1)


def as_markdown(request: Request) -> str:
    """The file that a person or another model is given: the prompt, the schema, and how to answer."""
    return f"{request.prompt}\n# Schema of the answer\n\n```json\n{request.schema_text}\n```\n\n{_ANSWER}\n"
