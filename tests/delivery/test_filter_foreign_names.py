"""Names of other languages in a filter: warnings and errors give the right name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message
from amqp10msg.delivery.filters import ExpressionError, Filter, Selector, SqlFilter, _names
from amqp10msg.delivery.filters.unset_names import UnsetNames
from amqp10msg.testing import messages

pytestmark = pytest.mark.once

JMS = sorted(_names._EVALUATORS_OF_JMS_NAMES)
BASIC = sorted(_names._FIELDS_OF_BASIC_NAMES)
SYSTEM = [f"sys.{name}" for name in _names._FIELDS_OF_SYSTEM_NAMES]
QUALIFIED = [
    *(f"header.{name}" for name in _names._HEADER_FIELDS_BY_NAME),
    *(f"p.{name}" for name in _names._PROPERTIES_FIELDS_BY_NAME),
]
QPID = [f"amqp.{name}" for name in ("subject", "priority", "annotation.x-opt-offset")]


def right_name(message_filter: Filter, name: str) -> str:
    """Return the right name, without the remark about the dialect."""
    return message_filter.right_name(name).partition(" ")[0]


SELECTOR, SQL = Selector("a = 1"), SqlFilter("a = 1")


def test_every_jms_name_means_a_field() -> None:
    assert set(JMS) == set(_names._FIELDS_OF_JMS_NAMES)


@given(messages(), st.sampled_from([*JMS, *BASIC, *SYSTEM, *QUALIFIED, *QPID]))
def test_right_names_of_both_languages_mean_the_same(message: Message, name: str) -> None:
    """A name is set in a message in one language if it is set in the other."""
    in_selector, in_sql = (right_name(one, name) or name for one in (SELECTOR, SQL))

    selector = Selector(f"{in_selector} = 'unset'")
    sql = SqlFilter(f"{in_sql} = 'unset'", dialect="oasis")

    if name in JMS:  # their values are converted, and an expiration has a default
        in_selector = right_name(SELECTOR, SQL.right_name(name).partition(" ")[0])
        selector = Selector(f"{in_selector or name} = 'unset'")
    assert bool(selector.unset_names(message)) == bool(sql.unset_names(message))


@pytest.mark.parametrize(
    "message_filter, text",
    [
        (SqlFilter("JMSPriority > 9"), "JMSPriority, which is header.priority in this language"),
        (SqlFilter("JMSType = 'x'"), "JMSType, which is properties.subject in this language"),
        (
            SqlFilter("JMSDeliveryTime > 1"),
            "JMSDeliveryTime, which is m.[x-opt-delivery-time] (only in the dialect oasis) in ",
        ),
        (SqlFilter("routing_key = 'k'"), "routing_key, which is m.[x-routing-key] (only in the "),
        (Selector("sys.Label = 'x'"), "sys.Label, which is amqp.subject in this language"),
        (Selector("user.color = 'x'"), "user.color, which is color in this language"),
        (Selector("p.subject = 'x'"), "p.subject, which is amqp.subject in this language"),
        (Selector("header.priority > 1"), "header.priority, which is amqp.priority in this "),
        (Selector("routing_key = 'k'"), "routing_key, which is amqp.annotation.x-routing-key in "),
        (Selector("delivery_mode = 2"), "delivery_mode, which is amqp.durable in this language"),
        (Selector("colour = 'x'"), "colour (did you mean color?)"),
    ],
)
def test_name_that_no_message_sets_is_reported_with_the_right_name(
    message_filter: Filter, text: str
) -> None:
    unset = UnsetNames(message_filter)
    unset.add(Message("x", application_properties={"color": "red"}))

    (found,) = unset.texts()

    assert found.startswith(f"no message sets {text}")


@pytest.mark.parametrize("name", ["JMSType", "user.color", "sys.Label", "type", "JMSPriority"])
def test_application_property_of_such_a_name_is_no_mistake(name: str) -> None:
    expression = SqlFilter(f"[{name}] = 'x'") if name in JMS else Selector(f"{name} = 'x'")
    unset = UnsetNames(expression)
    unset.add(Message("x", application_properties={name: "x"}))

    assert [] == unset.texts()


@pytest.mark.parametrize(
    "text, right",
    [
        ("amqp.subject = 'x'", "properties.subject"),
        ("amqp.priority > 1", "header.priority"),
        ("sys.Label = 'x'", "properties.subject"),
        ("sys.MessageId = 'x'", "properties.message_id"),
        ("user.color = 'x'", "color"),
        ("headers.color = 'x'", "color"),
    ],
)
def test_prefix_of_another_language_is_an_error_with_the_right_name(text: str, right: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        SqlFilter(text)

    name = text.partition(" ")[0]
    assert caught.value.problem == f"there is no {name} in this language: use {right}"
