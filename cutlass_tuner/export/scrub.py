"""Takes out of free text what must not leave a machine: credentials, addresses, absolute paths.

Texts come from compilers, from servers and from people, so this goes by what such things look like. Names
of machines and people that stand alone look like words, and stay. Repetitions are bounded: a hostile reply
of megabytes must not take hours.
"""

from __future__ import annotations

import re
from typing import Any

REMOVED = "[removed]"

_SECRET = re.compile(
    r"""
      \bsk-[\w-]{8,}                                                 # Anthropic's and others' keys
    | \b(?:gh[a-z]_|github_pat_|hf_|glpat-|xox[a-z]-)[\w-]{8,}       # GitHub, Hugging Face, GitLab, Slack
    | \bAKIA[A-Z0-9]{12,}                                            # Amazon
    | \beyJ[\w-]{8,}(?:\.[\w-]+)*                                    # JSON web tokens
    | -----BEGIN[ ][A-Z ]{0,20}PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]{0,20}PRIVATE[ ]KEY-----|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_NAMED_SECRET = re.compile(
    r"""
    ( \bbearer\s+ (?=[\w.~+/=-]{6})
    | (?: passw(?:or)?d | passphrase | secret | authorization | cookie
        | (?:api|access|secret|private|auth|signing)[_-]?key
        | (?<![^\W_]) (?:auth|creds?|credentials?|pwd)
        | (?<![^\W_]) (?:db|user|login|gw|gateway|proxy|http|smtp)[_-]?pass
        | token (?= \b \\?["']? \s*[:=]\s* (?:\\?["'])? [^\s"'\\]{6} )  # a short one may be a count
        | (?<![\w-]) x-[\w-]{0,40} (?:auth|pass|pwd|cred|sign|key|token|secret|session) [\w-]{0,20}
        | (?-i: (?<![A-Z0-9_]) [A-Z0-9_]{0,40} (?:AUTH|PASS|PWD|CREDS?|KEY|TOKEN) ) (?==)
      ) \b
      \\?["']? \s*[:=]\s* (?:\\?["'])? (?:(?:bearer|basic|digest|token)\s+)?
    )
    (?: [^\s"'\\] | \\\\ | \\(?!["'nrt\\]) )+          # all of it; \" ends a value in JSON
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""What follows a word that announces a secret: Authorization: Bearer …, X-Pass: …, AUTH=…, "token": "…"."""

_ADDRESS = re.compile(
    r"""
      \b[a-z][a-z0-9+.-]{0,20}://[^\s"'<>\\]+            # any URL: host, port, user and path
    | \b[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)*                # user@host
    | \b(?:\d{1,3}\.){3}\d{1,3}:\d+\b                   # IPv4 with a port: without one it may be a version
    | \b(?:10|127)(?:\.\d{1,3}){3}\b                    # private IPv4
    | \b(?:192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2}\b
    """,
    re.VERBOSE | re.IGNORECASE,
)

_PART = r"[^\s/\\\"'`<>|,;:()\[\]{}*?=$&]{1,255}"
_START = r"""
    (?: (?<=\\[nrt])                                  # after a line break in JSON,
      | (?<=\s-[A-Z]) | (?<=^-[A-Z])                  # an option such as -I,
      | (?<![\w/\\.)\]}%]) )                          # or anything that does not make it a relative one
"""
_PATH = re.compile(
    rf"""
      (?<=["'])/[^"'\\\n/]*/[^"'\\\n]+(?=["'])         # quoted, spaces and all
    | {_START} (?: ~[\w-]{{0,32}} )? (?: \\?/ {_PART} )+ (?: \\?/ )?
    | (?<![\w/\\.])/(?:home|Users|root)\b
    """,
    re.VERBOSE,
)
_WINDOWS_PATH = re.compile(
    rf"""
      (?<=["']) (?: [A-Za-z]:[\\/] | \\\\ {_PART} \\ (?!\\) | \\\\\\\\ {_PART} \\\\ )
      [^"'\n]*[^"'\n\\] (?=\\*["'])                    # quoted, spaces and all
    | {_START} [A-Za-z]: (?P<between> \\\\ | [\\/] ) {_PART} (?: (?P=between) {_PART} )+
    | {_START} \\\\ {_PART} (?: \\ {_PART} )+
    | {_START} \\\\\\\\ {_PART} (?: \\\\ {_PART} )+   # the same in JSON
    """,
    re.VERBOSE,
)
"""With a drive, or \\\\host\\share."""
_HOME = re.compile(r"(?:/(?:home|[Uu]sers)(?:/[^/]+)?|/root|~[^/]*)/?")
"""A home folder: its last component is a person."""


def scrubbed(text: str) -> str:
    """`text` without credentials and addresses, and with absolute paths cut to their last component.

    A path has two components or more, or starts at a home: "a / b", "us/call" and "</tag>" are none.
    """
    text = _SECRET.sub(REMOVED, text)
    text = _NAMED_SECRET.sub(rf"\1{REMOVED}", text)
    text = _ADDRESS.sub(REMOVED, text)
    text = _WINDOWS_PATH.sub(lambda found: _last(found[0]), text)
    return _PATH.sub(lambda found: _last(found[0]), text)


def _last(path: str) -> str:
    plain = re.sub(r"[\\/]+", "/", re.sub(r"^[A-Za-z]:", "", path))
    if _HOME.fullmatch(plain):
        return "~"
    if plain.strip("/").count("/") == 0 and not plain.startswith("~"):
        return path
    return plain.rstrip("/").rpartition("/")[2]


def deeply(value: Any) -> Any:
    """A JSON value with every text in it scrubbed. The names of its fields stay."""
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, dict):
        return {name: deeply(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [deeply(one) for one in value]
    return value
