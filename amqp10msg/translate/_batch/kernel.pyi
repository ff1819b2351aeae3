# The kernel of `amqp10msg.translate.batches`, kernel.pyx.

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, overload

from amqp10msg.basic.message import BasicMessage
from amqp10msg.translate.to_amqp10_rules import ToAmqp10Rules
from amqp10msg.translate.to_basic_rules import PlainValues, ToBasicRules

_EncodedT = TypeVar("_EncodedT", bound=tuple[Any, ...])
_Symbol: TypeAlias = Callable[[int, bytes], bool]
# The bytes and the losses.
_Encoded: TypeAlias = tuple[bytes, list[tuple[int, int, int]]]

class ToBasic:
    def __init__(
        self,
        rules: ToBasicRules,
        plain: PlainValues,
        user: bytes | None,
        strict: bool = False,
        /,
    ) -> None: ...
    def run(self, rows: int, wire: tuple[Any, ...] | None) -> tuple[list[int], tuple[Any, ...]]: ...
    @overload
    def translate_one(
        self, wire: bytes, encoded_class: None = None
    ) -> tuple[BasicMessage, int, bool] | None: ...
    @overload
    def translate_one(
        self, wire: bytes, encoded_class: type[_EncodedT]
    ) -> tuple[_EncodedT, int, bool] | None: ...

class ToAmqp10:
    def __init__(
        self,
        rules: ToAmqp10Rules,
        user: bytes | None,
        strict: bool,
        is_symbol: _Symbol,
        field_json: Callable[[bytes], bytes],
        header_path: Callable[[bytes], bytes],
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
    def translate_one(
        self, basic: BasicMessage
    ) -> tuple[_Encoded, tuple[tuple[Any, ...], list[Any]] | None] | None: ...
    def encoded(
        self,
        content_header: bytes,
        body: bytes,
        exchange: str,
        routing_key: str,
        redelivered: object,
    ) -> _Encoded | None: ...
