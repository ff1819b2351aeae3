"""Test other implementations of AMQP with a corpus, and convert messages of other libraries."""
