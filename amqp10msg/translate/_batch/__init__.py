"""The compiled kernel of `amqp10msg.translate.batches`, if it was built."""
