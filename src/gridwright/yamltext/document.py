"""Turns YAML text into a tree of nodes with positions: safe on any input, and all problems at once.

Works on the parser's events instead of its objects: no tag constructs anything, nothing recurses, and depth,
nodes and expanded aliases stay within small budgets. A scalar that readers of YAML take for different things
is a problem, and what the parser says of broken YAML is turned into what the user should do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gridwright.errors import Problem
from gridwright.yamltext.source import FileFormat, SourceText, show
from gridwright.yamltext.structure import FieldPath

MAX_DEPTH = 24
"""Levels of nesting; no file that people write has half of it."""


@dataclass(slots=True, eq=False)
class YamlNode:
    """A value and where it starts.

    `doubtful`: a problem was reported about the value; `incomplete`: one about an entry of it,
    which was left out.
    """

    index: int
    value: _Scalar | list[YamlNode] | dict[str, Entry]
    doubtful: bool = False
    incomplete: bool = False
    weight: int = 1
    is_open: bool = False

    def entry(self, part: str | int) -> Entry | None:
        """The entry of that name of a mapping, or of that number of a list."""
        if isinstance(self.value, dict):
            return self.value.get(str(part))
        if isinstance(self.value, list) and str(part).isdecimal() and int(part) < len(self.value):
            node = self.value[int(part)]
            return Entry(node.index, node)
        return None

    def plain(self) -> Any:  # noqa: ANN401 - what YAML can hold
        """The value as dicts, lists and scalars; the depth limit makes the recursion safe."""
        if isinstance(self.value, dict):
            return {key: entry.node.plain() for key, entry in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


@dataclass(slots=True, eq=False)
class Entry:
    """A value of a mapping, and where its key starts."""

    key_index: int
    node: YamlNode


@dataclass(slots=True)
class Document:
    """What was read: the root, or None when there is none, and all that is wrong so far."""

    root: YamlNode | None
    problems: list[Problem]

    def entries(self, path: FieldPath) -> Iterator[Entry]:
        """The entries along `path`, as far as the document goes; one of a list begins with its value."""
        node = self.root
        for part in path:
            entry = node.entry(part) if node else None
            if entry is None:
                return
            yield entry
            node = entry.node


@dataclass(slots=True)
class _Frame:
    """A mapping or list that is being read."""

    node: YamlNode
    anchor: str | None
    key: str | None = None
    key_index: int = 0
    expects_key: bool = True


class _TooMuchError(Exception):
    """Reading stops: the problem that says why is recorded."""


@dataclass(slots=True)
class _Composer:
    source: SourceText
    of: FileFormat
    problems: list[Problem] = field(default_factory=list)
    frames: list[_Frame] = field(default_factory=list)
    anchors: dict[str, YamlNode] = field(default_factory=dict)
    root: YamlNode | None = None
    count: int = 0
    last_index: int = 0

    def report(self, index: int, what: str, remedy: str) -> None:
        self.problems.append(self.source.problem(index, what, remedy))

    def stop(self, index: int, what: str, remedy: str) -> None:
        self.report(index, what, remedy)
        raise _TooMuchError

    def take(self, event: Any) -> None:  # noqa: ANN401 - ruamel's events share no useful type
        """Handle one event of the parser."""
        kind = type(event).__name__
        index = self.last_index = max(self.last_index, event.start_mark.index)
        if kind == "DocumentStartEvent":
            self.start_document(event, index)
        elif kind == "ScalarEvent":
            self.scalar(event, index)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            node = YamlNode(index, {} if kind[0] == "M" else [], self.refuse_tag(event, index), is_open=True)
            self.budget(index, 1)
            if len(self.frames) >= MAX_DEPTH:
                remedy = f"a {self.of.name} needs {self.of.levels}; remove some"
                self.stop(index, f"more than {MAX_DEPTH} levels of nesting", remedy)
            self.frames.append(_Frame(node, event.anchor))
            if event.anchor:
                self.anchors[event.anchor] = node
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            frame = self.frames.pop()
            frame.node.is_open = False
            self.place(frame.node, frame.node.index)
        elif kind == "AliasEvent":
            self.alias(event.anchor, index)

    def start_document(self, event: Any, index: int) -> None:  # noqa: ANN401
        if self.root is not None:
            self.stop(
                index,
                "a second YAML document begins here",
                f"keep one {self.of.name} in a file; remove the --- line",
            )
        if event.version or event.tags:
            remedy = f"remove it; a {self.of.name} is YAML 1.2"
            self.report(0, "a %YAML or %TAG directive is not used here", remedy)

    def refuse_tag(self, event: Any, index: int) -> bool:  # noqa: ANN401
        if event.tag is not None:
            tag = str(event.tag).replace("tag:yaml.org,2002:", "!!")
            self.report(index, f"the YAML tag {show(tag)} is not used here", "remove the tag")
        return event.tag is not None

    def scalar(self, event: Any, index: int) -> None:  # noqa: ANN401
        self.budget(index, 1)
        is_plain = event.style in (None, "")
        text: str = event.value
        node = YamlNode(index, resolve(text) if is_plain else text, self.refuse_tag(event, index))
        if is_plain and text == "<<" and self.at_key():
            self.report(index, "the merge key << is not used here", "write the fields out")
            node.doubtful = True
        elif is_plain and (doubt := _ambiguity(text)):
            self.report(index, *doubt)
            node.value, node.doubtful = text, True
        if event.anchor:
            self.anchors[event.anchor] = node
        self.place(node, index)

    def alias(self, anchor: str, index: int) -> None:
        target = self.anchors.get(anchor)
        if target is None or target.is_open:
            what = f"the alias {show('*' + anchor)} " + (
                "names no anchor" if target is None else "contains itself"
            )
            self.report(index, what, "write the value out")
            self.place(YamlNode(index, None, doubtful=True), index)
            return
        self.budget(index, target.weight)
        self.place(target, index)

    def budget(self, index: int, nodes: int) -> None:
        self.count += nodes
        if self.count > self.of.max_values:
            what = f"more than {self.of.max_values} values, counting aliases"
            self.stop(index, what, f"a {self.of.name} is small; remove some")

    def at_key(self) -> bool:
        return (
            bool(self.frames) and isinstance(self.frames[-1].node.value, dict) and self.frames[-1].expects_key
        )

    def place(self, node: YamlNode, index: int) -> None:
        """Put a complete node, used at `index`, where it belongs: root, list item, key or value."""
        if not self.frames:
            self.root = node
            return
        frame = self.frames[-1]
        frame.node.weight += node.weight
        container = frame.node.value
        if isinstance(container, list):
            container.append(node)
        elif isinstance(container, dict) and frame.expects_key:
            frame.key, frame.key_index, frame.expects_key = self.key_of(node, index), index, False
        elif isinstance(container, dict):
            frame.expects_key = True
            if frame.key is None:
                frame.node.incomplete = True
                return
            if frame.key in container:
                line, _ = self.source.position(container[frame.key].key_index)
                what = f"{show(frame.key)} is given twice; the first is on line {line}"
                self.report(frame.key_index, what, "keep one of the two")
            else:
                container[frame.key] = Entry(frame.key_index, node)

    def key_of(self, node: YamlNode, index: int) -> str | None:
        """The key as text; None, and its value is left out, when it is none or was reported."""
        if isinstance(node.value, (dict, list)):
            self.report(index, "a field name must be text", "write a name and a colon")
            return None
        if isinstance(node.value, str) and not node.doubtful:
            return node.value
        if self.of.numbers_name and type(node.value) is int:
            return str(node.value)
        if not node.doubtful:
            what = "a field has no name" if node.value is None else f"{show(node.value)} cannot be a name"
            self.report(index, what, "write a name that begins with a letter")
        return None


# What YAML allows in a text, without the line breaks that no editor shows.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def compose(source: SourceText, of: FileFormat) -> Document:
    """Read `source`, which is to be a file of that format; never raises on its content.

    A problem that ends the reading (broken syntax, a limit) leaves the root None, since what was
    read so far would only give misleading problems.
    """
    if found := _FORBIDDEN.search(source.text):
        what = f"the character U+{ord(found[0]):04X} is not allowed in a {of.name}"
        return Document(
            None,
            [source.problem(found.start(), what, "is this the right file? remove it or retype the line")],
        )
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    composer = _Composer(source, of)
    try:
        for event in YAML(typ="safe", pure=True).parse(source.text):
            composer.take(event)
    except _TooMuchError:
        return Document(None, composer.problems)
    except YAMLError as error:
        return Document(None, [*composer.problems, *_syntax_problems(source, error, composer.last_index)])
    except (ValueError, OverflowError, LookupError, TypeError, AttributeError, AssertionError):
        # The parser's own slips on odd escapes and tags; the text is wrong all the same.
        problem = source.problem(
            composer.last_index, "this is not valid YAML", "look at this line and the next"
        )
        return Document(None, [*composer.problems, problem])
    return Document(composer.root, composer.problems)


_Scalar = str | int | float | bool | None

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


def resolve(text: str) -> _Scalar:
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


def _ambiguity(text: str) -> tuple[str, str] | None:
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


_TAB_INDENT = re.compile(r"^ *\t[ \t]*(?=[^\s#])", re.MULTILINE)

# Parts of the parser's messages, what they mean to a user, and what to do. The first match wins.
_MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        "mapping values are not allowed",
        "a second colon, or an indentation that does not fit the line above",
        "begin each field on a line of its own, or put a text that contains a colon in quotes",
    ),
    ("while scanning a quoted scalar", "a quote is opened here and never closed", "add the closing quote"),
    ("expected ',' or ']'", "the [ opened here is not closed", "add ] or a comma"),
    ("expected ',' or '}'", "the { opened here is not closed", "add } or a comma"),
    (
        "expected <block end>",
        "the indentation does not fit the lines above",
        "give fields of the same level the same indentation",
    ),
    ("could not find expected ':'", "a field name without a colon", "write name: value"),
    ("unknown escape character", "a backslash in double quotes begins no known escape", "use single quotes"),
    ("expected the node content", "a value is expected here", "write a value, or put the text in quotes"),
    (
        "expected '<document start>'",
        "the text goes on where it should have ended",
        "write every field as name: value",
    ),
    ("anchor", "this anchor or alias cannot be read", "write the value out"),
    ("tag", "this tag cannot be read", "remove the tag"),
    ("directive", "this directive cannot be read", "remove the line that begins with %"),
)
# For these the place where the construct began helps more than where the parser gave up.
_SHOW_START = ("while scanning a quoted scalar", "expected ',' or ']'", "expected ',' or '}'")


def _syntax_problems(source: SourceText, error: Exception, last_index: int) -> list[Problem]:
    """All that can be said about a text the YAML parser gave up on.

    Tabs in the indentation are reported each, since one is seldom alone.
    """
    tabs = [
        source.problem(found.end() - 1, "a tab in the indentation", "indent with spaces")
        for found in _TAB_INDENT.finditer(source.text)
    ]
    return tabs or [_explained(source, error, last_index)]


def _explained(source: SourceText, error: Exception, last_index: int) -> Problem:
    words = " ".join(str(getattr(error, name, None) or "") for name in ("context", "problem"))
    index = _index(error, "problem_mark", last_index)
    if any(part in words for part in _SHOW_START):
        index = _index(error, "context_mark", index)
    if "cannot start any token" in words:
        char = source.text[index : index + 1]
        what = (
            "a tab where a value is expected" if char == "\t" else f"a value cannot begin with {show(char)}"
        )
        return source.problem(index, what, "use spaces" if char == "\t" else "put the value in quotes")
    for part, what, remedy in _MEANINGS:
        if part in words:
            return source.problem(index, what, remedy)
    return source.problem(index, "this is not valid YAML", "look at this line and the one above")


def _index(error: Exception, mark: str, default: int) -> int:
    found = getattr(getattr(error, mark, None), "index", None)
    return found if isinstance(found, int) else default
