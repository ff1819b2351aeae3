"""The ends of a transfer: sources and targets over AMQP 1.0, AMQP 0-9-1, and in files.

An end knows nothing of routes, retries or translation. The bridge, the Spark sources and sinks and
the replay of quarantined messages are built on these modules:

- `links` opens a source (`open_source`) or a target (`open_target`) for an `Endpoint` of `urls`.
- `terms` has the interface. A `SourceLink` delivers messages to a callback, and can `settle`,
  `stop`, `resume`, `count` and `close`; a `TargetLink` can `send` and `close`, and passes the
  outcomes to a callback.
- `amqp10`, `basic` (AMQP 0-9-1), `files` and `parquet` (a target only) are the implementations.
  `wire` has the connection that the first two share.
- `stream_protocol` reads RabbitMQ's stream protocol in whole chunks, which `stream_chunks` decodes.
  It is request and response, so it has no link: see `amqp10msg.net.stream_ranges`.
"""
