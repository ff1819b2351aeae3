"""Conversions for systems that define their own conventions on top of AMQP messages.

- `amqp10msg.interop.systems.adapters`: aio-pika, FastStream and kombu
- `amqp10msg.interop.systems.azure`: Azure Service Bus and Event Hubs
- `amqp10msg.interop.systems.cloudevents`: CloudEvents 1.0
- `amqp10msg.interop.systems.rhea`: messages of rhea, the client for Node, in JSON
- `amqp10msg.interop.systems.tracing`: the trace context of W3C and OpenTelemetry
"""
