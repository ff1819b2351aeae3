"""Profiles derived from others, and adding one to the table, as CONTRIBUTING describes it."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Data, Message
from amqp10msg.basic import BasicMessage, BasicProperties
from amqp10msg.testing import basic_messages, messages
from amqp10msg.translate import (
    LOSSLESS,
    PROFILES,
    EncodedBasic,
    ProfileName,
    TranslationError,
    TranslationProfile,
    encoded_to_amqp10,
    encoded_to_basic,
    explain,
    to_amqp10,
    to_basic,
)
from amqp10msg.wire.errors import AmqpError
from tests.package_copy import copy_package, run_python

UNCHANGED = {
    name: profile.derive(f"{name} unchanged", before=lambda x: x, after=lambda x: x)
    for name, profile in PROFILES.items()
}


@functools.singledispatch
def name_tenant(message: Any) -> Any:
    """Add an application property to messages of 1.0."""
    return message.evolve(application_properties={"tenant": "acme"})


@name_tenant.register
def _(message: BasicMessage) -> Any:
    properties = attrs.evolve(message.properties, app_id="acme")
    return attrs.evolve(message, properties=properties)


def outcome(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the translation's message and losses, or the class and text of its error.

    The losses as text, since NaN differs from itself.
    """
    try:
        translation = call(*arguments, **options)
    except AmqpError as error:
        return type(error), str(error)
    return translation.message, repr(translation.losses)


@pytest.mark.parametrize("base", ["lossless", "rabbitmq-3.10", "rabbitmq-4.3"])
@given(strict=st.booleans(), message=messages(), basic=basic_messages())
def test_profile_with_unchanged_messages_equals_its_base(
    base: str, strict: bool, message: Message, basic: BasicMessage
) -> None:
    calls: list[tuple[Callable[..., Any], Any]] = [
        (to_basic, message),
        (to_amqp10, basic),
        (encoded_to_basic, message.encode()),
    ]
    with contextlib.suppress(AmqpError):  # some drawn messages cannot be encoded
        calls.append((encoded_to_amqp10, EncodedBasic.of(basic)))
    for translate, source in calls:
        expected = outcome(translate, source, PROFILES[base], strict=strict)
        assert expected == outcome(translate, source, UNCHANGED[base], strict=strict)


@pytest.mark.parametrize("base", ["lossless", "rabbitmq-4.3"])
def test_steps_run_around_the_translation(base: ProfileName) -> None:
    seen: list[Any] = []

    def before(message: Any) -> Any:
        seen.append(message)
        return name_tenant(message)

    def after(message: Any) -> Any:
        seen.append(message)
        return message

    profile = PROFILES[base].derive("acme", "For the tests.", before=before, after=after)
    assert ("acme", "For the tests.", False) == (
        profile.name,
        profile.description,
        profile.reversible,
    )
    message, basic = Message(b"x"), BasicMessage(BasicProperties(), b"x")

    translated = to_basic(message, profile).message
    assert [message, translated] == seen
    assert "acme" == (translated.properties.headers or {})["tenant"]

    seen.clear()
    back = to_amqp10(basic, profile).message
    assert [basic, back] == seen
    assert to_amqp10(name_tenant(basic), base).message == back
    assert "acme: to AMQP 1.0" in explain(basic, profile)


def test_steps_of_a_derived_base_run_inside() -> None:
    def appending(text: bytes) -> Callable[[Any], Any]:
        return lambda message: message.evolve(body=message.body.data + text)

    inner = LOSSLESS.derive("inner", before=appending(b"2"))
    outer = inner.derive("outer", before=appending(b"1"))

    assert b"x12" == to_basic(Message(b"x"), outer).message.body


def test_step_may_refuse_a_message() -> None:
    def refuse(_message: Any) -> Any:
        raise TranslationError("properties.subject", "acme takes no subject")

    with pytest.raises(TranslationError, match="acme takes no subject"):
        to_basic(Message(b"x"), LOSSLESS.derive("acme", before=refuse))


@pytest.mark.parametrize("step", ["before", "after"])
@pytest.mark.parametrize(
    "translate, source",
    [(to_basic, Message(b"x")), (to_amqp10, BasicMessage(BasicProperties(), b"x"))],
)
def test_step_without_a_message_is_an_error(step: str, translate: Any, source: Any) -> None:
    steps: dict[str, Any] = {step: lambda _message: None}
    profile = LOSSLESS.derive("acme", **steps)

    with pytest.raises(
        TypeError, match=rf"'{step}' of the profile 'acme' must return a \w*Message, not NoneType"
    ):
        translate(source, profile)


@given(name=st.sampled_from(["", *PROFILES.names]))
def test_name_of_a_profile_of_the_library_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="needs a name of its own"):
        LOSSLESS.derive(name)


def test_profile_with_the_name_of_another_is_used_itself() -> None:
    """The engine is not chosen by the name alone."""
    acme = LOSSLESS.derive("acme", after=name_tenant)
    namesake = TranslationProfile("lossless", "Not the library's.", acme.bridge)

    assert "acme" == to_basic(Message(b"x"), namesake).message.properties.app_id
    assert (
        "acme"
        == encoded_to_basic(Message(b"x").encode(), namesake).message.decode().properties.app_id
    )


ENTRY = """    LOSSLESS.derive(
        "acme",
        "What the bridge of Acme delivers.",
        before=lambda message: attrs.evolve(message, body=message.body + b"!")
        if isinstance(message, BasicMessage)
        else message,
    ),
"""


@pytest.mark.once
def test_profile_is_added_by_one_entry(tmp_path: Path) -> None:
    start = "_PROFILES = (\n    LOSSLESS,\n"
    copy_package(tmp_path, "translate/profiles.py", start, start + ENTRY)

    program = (
        "import json, sys; from amqp10msg.translate import *; from amqp10msg.basic import *\n"
        "basic = BasicMessage(BasicProperties(), b'x')\n"
        "body = to_amqp10(basic, 'acme').message.body.data.decode()\n"
        "json.dump([list(PROFILES), body], sys.stdout)"
    )
    names, body = json.loads(run_python(tmp_path, "-c", program))
    assert ["lossless", "acme", *list(PROFILES)[1:]] == names
    assert "x!" == body
    pytest.importorskip("click")
    command = ("translate", "--to", "1.0", "--profile", "acme", "-o", "translated.jsonl")
    run_python(tmp_path, "-m", "amqp10msg", *command, "003c000000000000000000010000 78")
    translated = run_python(
        tmp_path, "-m", "amqp10msg", "convert", "--out", "hex", "translated.jsonl"
    )
    assert Data(b"x!") == Message.decode(bytes.fromhex(translated)).body
