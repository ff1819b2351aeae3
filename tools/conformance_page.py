"""Hold every implementation that can be installed here to the corpus, and write the reference page.

    python tools/conformance_page.py FOLDER

FOLDER gets the scoreboard and the results; docs/reference/conformance.md gets the findings. What
cannot be installed is named, and left out.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from amqp10msg import conformance, corpus

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "conformance.md"
HEAD = """\
# Conformance of implementations

`make conformance` held these to the {count:,} cases of corpus 1.0.0, each in processes of its own,
and wrote this page. What is not asked of an implementation is blank: it has no public function for
it. [Hold an implementation to the corpus](../how-to/conformance.md) says what the columns mean;
*typed* and *identical* are no requirement. These are facts about the versions named, as far as the
drivers in `amqp10msg/corpus/drivers` reach; a finding that is wrong is a fault of the driver or of
the corpus, so please report it.

Of many cases of one clause the smallest is shown, with its bytes.

"""


def main(folder: Path) -> None:
    """Run the command, and write what it found."""
    command = [sys.executable, "-m", "amqp10msg", "conformance", "run", "-o", str(folder)]
    subprocess.run(command, check=False)  # it ends with status 1 where a case failed
    peers = conformance.load(folder / "results.json")
    cases = corpus.load()
    text = HEAD.format(count=len(cases)) + conformance.markdown(peers, cases)
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE}, {folder}/index.html")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
