"""The compiled kernels of `amqp10msg.columns`: `scan` for `decode`, and `write` for `encode`."""
