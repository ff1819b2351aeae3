"""Tell what is wrong with bytes that claim to be a message."""

from collections import Counter

from amqp10msg import Message, Properties, Violation, validate

bad = bytes.fromhex("005373c0020141005377a10178")
violations: list[Violation] = list(validate(bad))
for violation in violations:
    print(violation.offset, violation.rule, violation.clause, violation)
counts = Counter(violation.severity for violation in violations)
assert {"error": 1} == counts

good = Message("x", properties=Properties(message_id="m")).encode()
assert [] == list(validate(good))
broker = list(validate(good, "rabbitmq-4"))
assert [] == [one for one in broker if one.severity == "error"]
print(counts)
