"""The names of the filter languages, for options that must not import the parsers."""

#: A JMS selector, an SQL filter expression as RabbitMQ or the OASIS draft reads it, a topic
#: pattern, a subject. `amqp10msg.delivery.filters.LANGUAGES` has the parser of each.
FILTER_LANGUAGES = ("selector", "sql", "oasis", "topic", "direct")
