"""``spark-submit amqp10msg_pipeline.py ARGUMENTS`` runs ``amqp10msg pipeline ARGUMENTS``."""

import sys

from amqp10msg.app.cli import main

if __name__ == "__main__":
    sys.exit(main(["pipeline", *sys.argv[1:]]))
