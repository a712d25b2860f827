"""Numbers that say how good a model is, by the definitions that others use."""
