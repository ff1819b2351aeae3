"""Test an application against a server in the process, with pytest."""

from proton.utils import BlockingConnection

from amqp10msg import Message, Properties
from amqp10msg.interop.proton import sendable
from amqp10msg.net.serve import Server

pytest_plugins = ["amqp10msg.testing.fixtures"]


def send_an_order(url: str) -> None:
    """Stand in for the application under test."""
    connection = BlockingConnection(url, timeout=10)
    order = Message("66", properties=Properties(subject="order"))
    connection.create_sender("orders").send(sendable(order))
    connection.close()


def test_orders_are_sent(amqp_server: Server) -> None:
    send_an_order(amqp_server.url)
    (order,) = amqp_server.messages("orders")
    assert "order" == order.subject
    assert 1 == amqp_server.counts("orders").available
