"""Validation rules of one's own: functions that check a decoded message.

`rule` decorates such a function. The result is an item for the argument `rules` of
`Profile.derive`, and `load_rules` reads the rules of a Python file.
"""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, get_args

from amqp10msg.message import Message
from amqp10msg.sections import BODY_KINDS, KINDS
from amqp10msg.sections.parts import MessageMap, Section
from amqp10msg.validation import RULES, Profile, Rule, Severity, profile_of
from amqp10msg.validation.rules import Occurrence
from amqp10msg.wire.errors import DecodeError, expect

#: What a check reports about one violation: the reason, or (path, reason). The path is that of
#: `Violation.path`, such as ``properties.to`` or ``application-properties['tenant']``. It begins
#: with the name of a section or with ``body``; it is empty for the message as a whole.
Finding: TypeAlias = str | tuple[str, str]
#: A function that checks a message. It yields or returns its findings; None means no finding.
Check: TypeAlias = Callable[[Message], Iterable[Finding] | Finding | None]

# The form of an id. The ids of the built-in rules have it, too.
_RULE_ID_PATTERN = re.compile(r"[a-z0-9]+(?:[-._][a-z0-9]+)*")
#: The codes of the sections by name, for the offset where a missing section belongs. ``body`` is
#: the body of any kind.
_SECTION_CODES_BY_NAME = {kind.name: (kind.code,) for kind in KINDS} | {
    "body": tuple(kind.code for kind in BODY_KINDS)
}
# Paths that name no section: the message, and its message-format.
_PATHS_OF_WHOLE_MESSAGE = frozenset(("", "message-format"))


def rule(
    id: str,
    *,
    clause: str = "",
    severity: Severity = "error",
) -> Callable[[Check], Rule]:
    """Return a decorator that makes a validation rule of a function.

    The function gets a decoded `Message`, which it must not change. It returns or yields a finding
    for each violation: the reason as a str, or a tuple of path and reason. The first paragraph of
    its docstring is the text of the rule. It is not called for a message that cannot be decoded:
    such a message violates another rule, which a profile must not leave out. An exception that it
    raises is reported as a violation of severity ``error``: the message may be invalid, and the
    other messages are still checked. A finding whose path names no section is reported with
    severity ``error``, too, with the names of the sections.

    Args:
        id: the short name of the rule: lower-case letters and digits, separated by ``-``, ``.`` or
            ``_``.
        clause: the place in a document that requires it, such as ``Acme guide, 2.1``.
        severity: ``error`` or ``warning``; a profile may change it.

    Raises:
        ValueError: `id` has another form or belongs to a built-in rule; or `severity` is unknown.
    """
    expect(id, str, "the id of rule", "a str: write @rule('id') above the function")
    expect(clause, str, "the clause of rule", "a str")
    if not _RULE_ID_PATTERN.fullmatch(id):
        raise ValueError(f"the id of a rule is lower-case letters, digits and -, not {id!r}")
    if id in RULES:
        raise ValueError(f"there is a rule {id!r} already: choose another id")
    if severity not in get_args(Severity):
        raise ValueError(f"a severity is 'error' or 'warning', not {severity!r}")

    def decorate(check: Check) -> Rule:
        if not callable(check):
            raise TypeError(f"rule decorates a function, not {type(check).__name__}")
        text = " ".join((inspect.getdoc(check) or "").partition("\n\n")[0].split())
        return Rule(id, clause, severity, text or id, check=_OwnCheck(check))

    return decorate


class _OwnCheck:
    """The check of a rule of one's own: decodes the message, and finds the offsets of paths."""

    def __init__(self, check: Check) -> None:
        self.check = check

    def __call__(self, view: MessageMap) -> Iterator[Occurrence]:
        if view.decoded is None:
            try:
                view.decoded = Message.decode(view.data, limits=view.limits)
            except DecodeError:
                return  # a violation of another rule
        try:
            findings: Any = self.check(view.decoded)
            if isinstance(findings, bool):
                raise TypeError("yield the reason of a violation, or nothing, instead of a bool")
            for finding in (findings,) if isinstance(findings, str | tuple) else findings or ():
                path, text = ("", finding) if isinstance(finding, str) else finding
                if not isinstance(path, str) or not isinstance(text, str):
                    raise TypeError(f"a finding is a str or (path, str), not {finding!r:.80}")
                if fault := _path_fault(path):
                    text = f"{text}; the check is wrong: {fault}"
                    yield Occurrence(0, path, text, severity="error")
                else:
                    yield Occurrence(_offset_of(view, path), path, text)
        except Exception as error:  # noqa: BLE001  (the code of a user, who reads the report)
            yield Occurrence(0, "", f"the check failed: {_describe(error)}", severity="error")


def _describe(error: BaseException) -> str:
    """Return an exception with the line of the user's code that raised it."""
    text = f"{type(error).__name__}: {error}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    return f"{text} ({Path(frames[0].filename).name}:{frames[0].lineno})" if frames else text


def _path_fault(path: str) -> str:
    """Return why the path of a finding is invalid; empty if it begins with a section's name."""
    name = _section_in(path)
    if name in _SECTION_CODES_BY_NAME or path in _PATHS_OF_WHOLE_MESSAGE:
        return ""
    similar = get_close_matches(name.replace("_", "-"), _SECTION_CODES_BY_NAME, 1)
    hint = f"did you mean {similar[0]}? " if similar else ""
    names = ", ".join(_SECTION_CODES_BY_NAME)
    return f"the path {path!r:.80} names no section; {hint}use one of {names}"


def _section_in(path: str) -> str:
    """Return the first part of a path, which names a section."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _offset_of(view: MessageMap, path: str) -> int:
    """Return the offset of a section, field or entry; 0 for a path of the whole message.

    For a missing field or entry, return the offset of its section; for a missing section, the
    offset where it belongs.
    """
    codes = _SECTION_CODES_BY_NAME.get(_section_in(path))
    if codes is None:
        return 0
    for section in view.sections:
        if section.kind.code in codes:
            return _offset_in(section, path)
        if section.kind.code > codes[-1]:
            return section.offset
    return len(view.data)


def _offset_in(section: Section, path: str) -> int:
    """Return the offset of a field or entry of a section, or that of the section."""
    if section.kind.source == "map":
        for offsets in section.entries():
            entry = section.entry(offsets)
            if entry.path == path:
                return entry.value
        return section.offset
    if section.kind.source == "list":
        field = section.field(path.partition(".")[2])
        return field.value if field else section.offset
    return section.offset


def load_rules(path: str | PathLike[str]) -> tuple[Rule, ...]:
    """Run a Python file, and return the rules that it defines, in their order.

    The file is run with the rights of this process, as any program.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not valid Python, raises an exception, or defines no rule.
    """
    name = fspath(path)
    return rules_of_source(Path(name).read_text(encoding="utf-8"), name)


@lru_cache(maxsize=16)
def rules_of_source(source: str, name: str) -> tuple[Rule, ...]:
    """Run the text of a Python file, and return its rules as `load_rules`.

    The result is kept, so that a process runs the file only once.

    Args:
        source: the text.
        name: the name of the file, for errors.

    Raises:
        ValueError: as in `load_rules`.
    """
    module = ModuleType(Path(name).stem)
    module.__file__ = name
    try:
        code = compile(source, name, "exec")
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise ValueError(f"{name}{line}: not valid Python: {reason}") from None
    try:
        exec(code, module.__dict__)  # noqa: S102  (the user's own file)
    except Exception as error:
        raise ValueError(f"{name}: {_describe(error)}") from error
    rules = {id(value): value for value in vars(module).values() if isinstance(value, Rule)}
    if not rules:
        raise ValueError(f"{name} defines no rule: decorate a function with amqp10msg.rule")
    return tuple(rules.values())


@lru_cache(maxsize=16)
def profile_with_rules(profile: str, source: str, name: str) -> Profile:
    """Return a profile with the rules of a Python file added; its name names the file, too.

    Args:
        profile: the name of the profile.
        source: the text of the file.
        name: the path of the file.

    Raises:
        ValueError: there is no such profile; the file is invalid, as in `load_rules`; or two of its
            rules have the same id.
    """
    base = profile_of(profile)
    new = f"{base.name} + {Path(name).name}"
    try:
        return base.derive(new, base.description, rules=rules_of_source(source, name))
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(name) else f"{name}: {text}") from error
