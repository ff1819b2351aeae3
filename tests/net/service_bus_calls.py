"""The calls of Azure's client for Python, and what becomes of each, as JSON.

    python service_bus_calls.py MODULE PORT

MODULE is ``azure.servicebus``, or ``azure.servicebus.aio``, whose sockets end with this process.
"""

from __future__ import annotations

import asyncio
import datetime
import importlib
import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)

__all__ = ["CONNECTION"]

#: As the emulator has it: without TLS.
CONNECTION = (
    "Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=all;SharedAccessKey=c2VjcmV0;"
    "UseDevelopmentEmulator=true;"
)
#: Seconds that a receiver waits.
_WAIT = 5


async def _get(found: Any) -> Any:
    return await found if inspect.isawaitable(found) else found


async def _texts(messages: Any) -> list[str]:
    return [str(message) for message in await _get(messages)]


class _Calls:
    def __init__(self, cls: Any, port: int) -> None:
        text = CONNECTION.format(port=port)
        self.client = cls.from_connection_string(text, retry_total=0)
        self.found: dict[str, str] = {}

    async def call(self, name: str, make: Callable[[], Any]) -> Any:
        try:
            made = await _get(make())
        except Exception as error:  # noqa: BLE001  (told)
            words = f"{type(error).__name__}: {error}"
            self.found[name] = "501" if "does not implement the operation" in words else words
            return None
        self.found[name] = "yes"
        return made

    async def same(self, wanted: Any, messages: Any) -> Any:
        found = await _get(messages)
        assert wanted == [str(message) for message in found]
        return found

    async def made(self) -> dict[str, str]:
        client, call, same = self.client, self.call, self.same
        one = ServiceBusMessage
        sender = client.get_queue_sender("orders")
        receiver = client.get_queue_receiver("orders", max_wait_time=_WAIT)
        await call("send a message", lambda: sender.send_messages(one("a")))
        await call("send several", lambda: sender.send_messages([one("b"), one("c")]))

        async def batch() -> None:
            made = await _get(sender.create_message_batch())
            made.add_message(one("d"))
            await _get(sender.send_messages(made))

        await call("send a batch", batch)
        texts = ["a", "b", "c", "d"]
        await call("peek", lambda: same(texts, receiver.peek_messages(9)))
        got = await call("receive", lambda: same(texts, receiver.receive_messages(4)))
        await call("renew a lock", lambda: receiver.renew_message_lock(got[0]))
        await call("complete", lambda: receiver.complete_message(got[0]))

        async def abandon() -> None:
            await _get(receiver.abandon_message(got[1]))
            (again,) = await _get(receiver.receive_messages(1))
            assert ("b", 1) == (str(again), again.delivery_count)
            await _get(receiver.complete_message(again))

        await call("abandon", abandon)
        await call("defer", lambda: receiver.defer_message(got[2]))

        async def deferred() -> None:
            number = got[2].sequence_number
            (found,) = await same(["c"], receiver.receive_deferred_messages(number))
            await _get(receiver.complete_message(found))

        await call("receive deferred", deferred)
        why = {"reason": "bad", "error_description": "worse"}
        await call("dead-letter", lambda: receiver.dead_letter_message(got[3], **why))

        async def letters() -> None:
            dead = client.get_queue_receiver("orders", sub_queue=ServiceBusSubQueue.DEAD_LETTER)
            (found,) = await same(["d"], dead.receive_messages(1, max_wait_time=_WAIT))
            told = (found.dead_letter_reason, found.dead_letter_error_description)
            assert ("bad", "worse") == told
            await _get(dead.close())

        await call("receive dead letters", letters)
        later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
        numbers = await call("schedule", lambda: sender.schedule_messages(one("later"), later))
        await call("cancel what is scheduled", lambda: sender.cancel_scheduled_messages(numbers))

        async def delete() -> None:
            await _get(sender.send_messages(one("gone")))
            mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
            taker = client.get_queue_receiver("orders", receive_mode=mode)
            await same(["gone"], taker.receive_messages(1, max_wait_time=_WAIT))
            await _get(taker.close())

        await call("receive and delete", delete)
        await self.sessions(sender)

        async def subscription() -> None:
            await _get(client.get_topic_sender("news").send_messages(one("n")))
            from_ann = client.get_subscription_receiver("news", "ann", max_wait_time=_WAIT)
            await same(["n"], from_ann.receive_messages(1))

        await call("receive from a subscription", subscription)
        await _get(client.close())
        return self.found

    async def sessions(self, sender: Any) -> None:
        client, call = self.client, self.call
        of_two = client.get_queue_receiver("orders", session_id="two", max_wait_time=_WAIT)

        async def session() -> None:
            for text, name in (("s", "one"), ("t", "two")):
                await _get(sender.send_messages(ServiceBusMessage(text, session_id=name)))
            await self.same(["t"], of_two.receive_messages(1))

        await call("receive a session", session)

        async def state() -> None:
            await _get(of_two.session.set_state(b"half"))
            assert b"half" == await _get(of_two.session.get_state())

        await call("keep the state of a session", state)
        await call("renew the lock of a session", of_two.session.renew_lock)

        async def following() -> None:
            any_one = client.get_queue_receiver(
                "orders", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=_WAIT
            )
            await self.same(["s"], any_one.receive_messages(1))
            assert "one" == any_one.session.session_id
            await _get(any_one.close())

        await call("receive the next session", following)

        async def listed() -> None:
            found = client.list_queue_sessions("orders")
            if hasattr(found, "__aiter__"):
                assert ["one", "two"] == sorted([name async for name in found])
            else:
                assert ["one", "two"] == sorted(found)

        await call("list sessions", listed)


if __name__ == "__main__":
    _made = _Calls(importlib.import_module(sys.argv[1]).ServiceBusClient, int(sys.argv[2])).made()
    sys.stdout.write(json.dumps(asyncio.run(_made)))
