"""Fuzzing of the decoders and encoders."""
