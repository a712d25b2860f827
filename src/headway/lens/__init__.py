"""What looks inside a model, and the pictures of what it saw."""
