"""The migration of queues from one RabbitMQ to another: declare, move, count, compare, report."""
