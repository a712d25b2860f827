"""Experiments that measure the claims of a course, one file a claim."""
