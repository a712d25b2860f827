"""Tensors in, tensors out: the parts of which every model is made.

One legend for all shapes:

    B batch   T queries   S keys   D model width   H heads   G key/value heads   K head width
    F feed-forward width   L layers   V vocabulary   R rank or width of a score

Values have words for names (`hidden`, `query`, `scores`); a capital is a size in scope.
"""
