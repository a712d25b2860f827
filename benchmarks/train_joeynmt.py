"""Training against JoeyNMT."""
