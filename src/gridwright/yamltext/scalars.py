"""What an unquoted scalar of YAML means, and which ones mean different things to different readers."""

from __future__ import annotations

import re

Scalar = str | int | float | bool | None

_NULL = ("", "~", "null", "Null", "NULL")
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
# Python refuses to read integers of more than 4300 digits; nothing that people write has more than 20.
_MAX_DIGITS = 40

_OLD_BOOLEAN = re.compile(r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+", re.ASCII)
_OTHER_BASE = re.compile(r"[-+]?0[obx][0-9a-fA-F_]+", re.ASCII)
_UNDERSCORE = re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?", re.ASCII)
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9]*)?", re.ASCII)


def resolve(text: str) -> Scalar:
    """The value of an unquoted scalar in the core schema of YAML 1.2."""
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if len(text) <= _MAX_DIGITS:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
    return text


def ambiguity(text: str) -> tuple[str, str] | None:
    """What is doubtful in an unquoted scalar, and the remedy; None when all readers agree.

    Readers of YAML 1.1 (most of them) and of YAML 1.2 differ on these, and a file must mean the
    same to Gridwright, to an editor and to a script that reads it.
    """
    if _OLD_BOOLEAN.fullmatch(text):
        return (
            f"{text} without quotes is true or false to some YAML readers and text to others",
            f'write "{text}" in quotes for the text, or true or false',
        )
    if _LEADING_ZERO.fullmatch(text):
        return (
            f"{text} is octal to some YAML readers and decimal to others",
            f"write {text.replace('_', '').lstrip('+-0') or '0'} without leading zeros",
        )
    if _OTHER_BASE.fullmatch(text):
        return f"{text} is a number to some YAML readers and text to others", "write the number in decimal"
    if _UNDERSCORE.fullmatch(text):
        return (
            f"{text} is a number to some YAML readers and text to others",
            f"write {text.replace('_', '')} without the underscore",
        )
    if _SEXAGESIMAL.fullmatch(text):
        return (
            f"{text} is a number in base 60 to some YAML readers and text to others",
            f'write "{text}" in quotes for the text',
        )
    return None
