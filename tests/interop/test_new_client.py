"""A client that is added by one record, as the recipe in CONTRIBUTING.md describes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from amqp10msg import EncodeError, Message
from amqp10msg.interop import clients, from_client, lost_in_client, to_client


@attrs.define
class Letter:
    """A message of a client that only has text."""

    text: str


class Postcard(Letter):
    """A subclass by an application."""


def _lost(message: Message, converted: Letter) -> Iterator[tuple[str, str]]:
    if message.properties is not None:
        yield "properties", f"a letter has only the text {converted.text!r}"


@pytest.fixture(autouse=True)
def _post(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    record = clients.Client(
        accepts="a letter of the post",
        classes=(f"{Letter.__module__}:Letter",),
        read=lambda letter: Message(letter.text),
        write=lambda message: Letter(message.text()),
        lost=_lost,
    )
    table: dict[Any, clients.Client] = {**clients.CLIENTS, "post": record}
    clients._find_client_of_class.cache_clear()
    with monkeypatch.context() as context:
        context.setattr(clients, "CLIENTS", table)
        yield
    clients._find_client_of_class.cache_clear()


def test_messages_of_the_client_are_converted() -> None:
    for letter in (Letter("hello"), Postcard("hello")):
        assert Message("hello") == from_client(letter)
        assert Letter("hello") == to_client(Message("hello"), like=letter)
    for like in ("post", Letter, Postcard):
        assert Letter("hello") == to_client(Message("hello"), like=like)


def test_losses_of_the_client_are_refused() -> None:
    message: Any = Message("hello", subject="s")

    assert ["properties: a letter has only the text 'hello'"] == lost_in_client(message, "post")
    with pytest.raises(EncodeError, match="properties: a letter has only the text"):
        to_client(message, like=Letter)
    assert Letter("hello") == to_client(message, like=Letter, lossy=True)


def test_errors_name_the_client() -> None:
    with pytest.raises(TypeError, match="rhea in JSON or a letter of the post, not int"):
        from_client(5)
    with pytest.raises(ValueError, match=r"use one of proton, .*, post"):
        to_client(Message("x"), like="stomp")
