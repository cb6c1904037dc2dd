"""What looks like a secret in text that people write, and the text without it, for messages and excerpts.

A secret in a wrong place is refused, and the refusal is printed, kept in logs and pasted into tickets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORDS = re.compile(
    r"passw(or)?d|passphrase|secret|token|credential|(private|api|access)[_-]?key", re.IGNORECASE
)
_LOOKS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?:-----)?((?:(?!-----).)*(?=-----END)|[^\"'-]*)"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bwhsec_[A-Za-z0-9+/=]+|\$ANSIBLE_VAULT;.*",
    re.DOTALL,
)
"""PEM keys (RFC 7468), access key IDs of AWS (IAM User Guide, unique identifiers), secrets of Standard
Webhooks, files of ansible-vault."""
_USER = re.compile(r"(?<!\S)\S+@")
"""What a URL with a user or a password is in: up to the last @, as a password may have one."""
_BEGIN = re.compile(r"\b(?:(?:https?|ftps?|s3):/{1,2}|[a-z][a-z0-9+.-]{0,20}://(?=[^/@]*:))", re.IGNORECASE)
"""How such a URL begins. `oci://BUCKET@NAMESPACE` has no password."""
_PARAMETER = re.compile(r"[?&;]([\w.-]{1,100})=([^\s&;\"'#]+)")
_FIELD = re.compile(r"(?<![\w.-])([\w.-]+)[\"']?\s{0,80}:(?=[\s\"']|\Z)[ \t]*")
_VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[^\n]*", re.DOTALL)
_BELOW = re.compile(r"(?:[|>][-+0-9]*)?[ \t]*(?:#.*)?")
"""What stands behind the name of a field whose value is on the lines below."""


def names_secret(name: str) -> bool:
    """Whether a field of this name holds a secret, as `db_password` does; `password_file` names a file."""
    return _WORDS.search(name) is not None and not name.lower().endswith("file")


def is_elsewhere(value: str) -> bool:
    """Whether a value says where a secret is: a path, an ARN or an expression of Ansible."""
    return not value or value.startswith(("/", "arn:")) or "{{" in value


def looks_secret(value: str) -> bool:
    """Whether a value is a secret by its own looks, whatever it is called."""
    return _LOOKS.search(value) is not None


def masked(text: str) -> str:
    """The text, as long as before, with `*` in place of what looks like a secret: positions stay true.

    Those are values of fields that are called so, users and passwords of URLs, tokens among parameters of
    URLs, and keys that can be told by their looks.
    """
    shown = list(text)
    for start, end in _spans(text):
        shown[start:end] = re.sub(r"\S", "*", text[start:end])
    return "".join(shown)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where secrets begin and end. It takes time in proportion to the text, whatever that is."""
    for found in _LOOKS.finditer(text):
        yield found.span(found.lastindex or 0)
    for found in _USER.finditer(text):
        if begin := _BEGIN.search(found[0]):
            yield found.start() + begin.end(), found.end() - 1
    for found in _PARAMETER.finditer(text):
        if _WORDS.search(found[1]) or found[1].lower().endswith(("sig", "signature")):
            yield found.span(2)
    end = 0
    for found in _FIELD.finditer(text):
        if found.start() >= end and names_secret(found[1]):
            start, end = found.end(), _end_of_value(text, found)
            if not is_elsewhere(text[start:end].strip("\"' \t")):
                yield start, end


def _end_of_value(text: str, field: re.Match[str]) -> int:
    """Where the value of a field ends: with its quote, on its line, or with the indented lines below."""
    start = field.end()
    value = _VALUE.match(text, start)
    end = value.end() if value else start
    if value and value[0][:1] in {'"', "'"} and len(value[0]) > 1 and value[0][0] == value[0][-1]:
        return end
    before = text[text.rfind("\n", 0, start) + 1 : field.start()]
    if before.count("{") > before.count("}"):
        return start + len(re.split(r"[,}]", text[start:end], maxsplit=1)[0])
    if _BELOW.fullmatch(text, start, end):
        indent = len(before) - len(before.lstrip(" -"))
        below = re.compile(rf"(?:\n(?:[ \t]*(?=\n|\Z)| {{{indent + 1},}}[^\n]*))*").match(text, end)
        end = below.end() if below else end
    return end
