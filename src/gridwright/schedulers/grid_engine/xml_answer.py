"""Reads the XML that qstat and qhost print, with nothing in it that XML could do beyond that."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from gridwright.errors import GridwrightError, environment_error

_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def parse_answer(printed: bytes, command: str) -> ElementTree.Element:
    """The root of what a command printed. Raises GridwrightError (ENVIRONMENT) where it is no plain XML."""
    text = _NOT_IN_XML.sub("?", printed.decode("utf-8", errors="replace"))
    if "<!DOCTYPE" in text.upper() or "<!ENTITY" in text.upper():
        raise _unreadable(command, "it declares a document type")
    # As text it has one encoding, whatever its first line says.
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", text)
    try:
        return ElementTree.fromstring(text)  # noqa: S314 - without a document type there are no entities
    except ElementTree.ParseError as error:
        raise _unreadable(command, str(error)) from error


def _unreadable(command: str, why: str) -> GridwrightError:
    return environment_error(
        f"what {command} prints cannot be read as XML: {why}",
        remedy=f"run {command} -xml by hand, and see whether it is that of Grid Engine 6.2 or newer",
    )


def text_of(element: ElementTree.Element, path: str) -> str:
    """The text below an element; empty where there is none."""
    return (element.findtext(path) or "").strip()
