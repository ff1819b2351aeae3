"""``python -m amqp10msg.cli``: the command line."""

import sys

from amqp10msg.cli import main

sys.exit(main())
