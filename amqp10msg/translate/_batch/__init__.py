"""The kernel of `amqp10msg.translate.batches`, where it is compiled."""
