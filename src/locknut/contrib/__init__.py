"""Locks in the frameworks that people use: one module for each, each with an extra of its own."""
