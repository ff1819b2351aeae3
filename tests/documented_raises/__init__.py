"""One call for each exception that the docstring of a public function documents.

`ROWS` maps the name of a function, as in `tests.public_api`, to the name of each documented
exception and the calls that raise it. The parameters of a call are the names of pytest fixtures.
`tests/project/test_raises.py` makes the calls and checks that no documented exception lacks one.
"""

from __future__ import annotations

from tests.documented_raises import amqp091, data, delivery, interop, messages, net
from tests.documented_raises.calls import Rows

ROWS: Rows = {
    **messages.ROWS,
    **amqp091.ROWS,
    **delivery.ROWS,
    **interop.ROWS,
    **data.ROWS,
    **net.ROWS,
}
