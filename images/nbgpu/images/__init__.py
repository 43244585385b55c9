"""The image catalogue (`images/<slug>/image.toml`), the builder, and what is really built.

Importing this package, or its catalogue, needs no Docker; only `builder` and `debian` talk to the engine.
"""
