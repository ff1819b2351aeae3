"""The benchmark suite: one file per figure, measured next to its peers in the same run.

``python -m bench`` measures and prints; ``python -m bench --check`` also fails if a figure misses
its floor.
"""

from tests.pure_build import follow_the_environment

follow_the_environment()
