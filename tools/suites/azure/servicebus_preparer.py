"""Stands in for the module of this name in the tests of azure-servicebus.

The original creates namespaces and queues in Azure, over HTTP. Here, the namespace is the server
for tests, where every address is a queue; options such as the duration of a lock have no effect.
`pytest -p servicebus_preparer` imports this module before the tests import theirs.
"""

from __future__ import annotations

import functools
import os
import uuid
from types import SimpleNamespace

from azure.servicebus import ServiceBusClient
from devtools_testutils import Arguments, preparer

SERVICEBUS_ENDPOINT_SUFFIX = ""
_KEY_NAME, _KEY = "any", "YW55"
_ADDRESS = os.environ["SERVICEBUS_ADDRESS"]  # HOST:PORT of the server
_CONNECTION = (
    f"Endpoint=sb://{_ADDRESS};SharedAccessKeyName={_KEY_NAME};SharedAccessKey={_KEY};"
    "UseDevelopmentEmulator=true;"
)
# The tests give the client a host name and a credential, for which it uses TLS; only a connection
# string can turn that off.
ServiceBusClient.__init__ = functools.partialmethod(  # type: ignore[assignment, method-assign]
    ServiceBusClient.__init__, use_tls=False
)


def _new_name() -> SimpleNamespace:
    return SimpleNamespace(name=f"test-{uuid.uuid4().hex}")


def _subscription(arguments: Arguments) -> Arguments:
    """Create a subscription of the test's topic: the server does when a receiver attaches."""
    subscription = _new_name()
    topic = arguments["servicebus_topic"].name
    with (
        ServiceBusClient.from_connection_string(_CONNECTION) as client,
        client.get_subscription_receiver(topic, subscription.name),
    ):
        return {"servicebus_subscription": subscription}


# The originals whose names begin with "Cached" share a resource among tests; here each test has
# its own.
CachedServiceBusResourceGroupPreparer = preparer(lambda _: {})
CachedServiceBusNamespacePreparer = ServiceBusNamespacePreparer = preparer(
    lambda _: {
        "servicebus_namespace": SimpleNamespace(name=_ADDRESS),
        "servicebus_namespace_connection_string": _CONNECTION,
        "servicebus_namespace_key_name": _KEY_NAME,
        "servicebus_namespace_primary_key": _KEY,
    }
)
CachedServiceBusQueuePreparer = ServiceBusQueuePreparer = preparer(
    lambda _: {"servicebus_queue": _new_name()}
)
CachedServiceBusTopicPreparer = ServiceBusTopicPreparer = preparer(
    lambda _: {"servicebus_topic": _new_name()}
)
CachedServiceBusSubscriptionPreparer = ServiceBusSubscriptionPreparer = preparer(_subscription)
