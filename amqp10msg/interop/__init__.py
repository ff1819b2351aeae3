"""Other implementations: the corpus, conformance to it, and messages of other libraries."""
