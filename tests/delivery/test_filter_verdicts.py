"""What brokers made of filters, recorded in ``vectors/filters.jsonl``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import Described, Message, Symbol
from amqp10msg.delivery.filters import EvaluationError, ExpressionError, parse

VECTORS = Path(__file__).parents[1] / "vectors" / "filters.jsonl"
CASES = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]


def verdict(case: dict[str, Any]) -> str:
    described = Described(Symbol(case["filter"]), case["value"])
    message = Message.decode(bytes.fromhex(case["message"]))
    filters = parse({"f": described}, strict=False, dialect="rabbitmq-4.3")
    if "f" in filters.unsupported:
        return "refused"
    try:
        return "passes" if filters.matches(message) else "stopped"
    except EvaluationError:
        return "session ends"


@pytest.mark.parametrize("case", CASES, ids=[case["value"][:40] for case in CASES])
def test_the_verdict_is_that_of_the_brokers(case: dict[str, Any]) -> None:
    assert case["verdict"] == verdict(case)


@pytest.mark.parametrize("case", CASES, ids=[case["value"][:40] for case in CASES])
def test_both_dialects_of_rabbitmq_accept_the_same_expressions(case: dict[str, Any]) -> None:
    described = Described(Symbol(case["filter"]), case["value"])
    for dialect in ("rabbitmq", "rabbitmq-4.3"):
        filters = parse({"f": described}, strict=False, dialect=dialect)
        assert (case["verdict"] == "refused") == bool(filters.unsupported)


def test_a_name_in_brackets_after_a_section_is_refused_with_a_way_out() -> None:
    described = Described(Symbol("amqp:sql-filter"), "a.[i] = 1")

    assert isinstance(parse(described, dialect="oasis").matches(Message()), bool)
    with pytest.raises(ValueError, match=r"write \[name\].* use the dialect oasis") as caught:
        parse(described)
    assert isinstance(caught.value.__cause__, ExpressionError)
