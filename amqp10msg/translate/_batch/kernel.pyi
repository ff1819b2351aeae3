# The kernel of `amqp10msg.translate.batches`, kernel.pyx.

from collections.abc import Callable
from typing import Any, TypeAlias

from amqp10msg.basic.message import BasicMessage
from amqp10msg.translate.to_amqp10_rules import ToAmqp10Rules
from amqp10msg.translate.to_basic_rules import PlainValues, ToBasicRules

_Symbol: TypeAlias = Callable[[int, bytes], bool]
_Rewritten: TypeAlias = Callable[[bytes], bytes | None]

class ToBasic:
    def __init__(self, rules: ToBasicRules, plain: PlainValues, user: bytes | None, /) -> None: ...
    def run(self, rows: int, wire: tuple[Any, ...] | None) -> tuple[list[int], tuple[Any, ...]]: ...
    def one(self, wire: bytes, /) -> tuple[BasicMessage, int, bool] | None: ...

class ToAmqp10:
    def __init__(
        self,
        rules: ToAmqp10Rules,
        user: bytes | None,
        strict: bool,
        is_symbol: _Symbol,
        rewritten: _Rewritten,
        told: Callable[[bytes], bytes],
        told_name: Callable[[bytes], bytes],
        proofs: tuple[ToBasic, ToBasic],
        /,
    ) -> None: ...
    def run(
        self,
        rows: int,
        content_header: tuple[Any, ...] | None,
        payload: tuple[Any, ...] | None,
        exchange: tuple[Any, ...] | None,
        routing_key: tuple[Any, ...] | None,
        redelivered: tuple[Any, ...] | None,
    ) -> tuple[list[int], tuple[Any, ...]]: ...
    def one(
        self, basic: BasicMessage
    ) -> (
        tuple[bytes, tuple[list[tuple[int, int, int]], tuple[Any, ...], list[Any]] | None] | None
    ): ...
