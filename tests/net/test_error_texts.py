"""The errors of a peer as texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.delivery import Error
from amqp10msg.net.ends.amqp10 import error_of
from amqp10msg.net.transport import describe_error
from amqp10msg.wire.primitives import Symbol

CONDITIONS = st.sampled_from(["amqp:not-found", "amqp:internal-error", "acme:odd"])


@given(CONDITIONS, st.text(min_size=1))
def test_description_is_shown(condition: str, description: str) -> None:
    error = Error(Symbol(condition), description)

    assert f"{condition}: {description}" == describe_error(error)


@pytest.mark.parametrize("description", [None, ""])
@pytest.mark.parametrize("scope", ["connection", "session", "link"])
def test_error_without_a_description_says_so(description: str | None, scope: str) -> None:
    error = Error(Symbol("acme:odd"), description)

    text = str(error_of(scope, error, "then ", new=False))

    assert "then acme:odd: the peer gave no description" == text
