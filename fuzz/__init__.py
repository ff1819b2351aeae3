"""Fuzzing of the decoders and encoders."""

from tests.pure_build import follow_the_environment

follow_the_environment()
