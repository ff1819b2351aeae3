"""The compiled kernel of `amqp10msg.columns.decode`: one module, `scan`, from parts by subject."""
