"""The benchmark suite: one file per figure, each side by side with its peers in one run.

``python -m bench`` measures and prints; ``python -m bench --check`` also fails where a figure
misses its floor.
"""

from tests.pure_build import follow_the_environment

follow_the_environment()
