"""Plots that the report and the figures share: a style, and what is drawn in it."""
