"""Validation of documents against JSON Schemas (draft 2020-12) written by hand or by other programs.

A schema is translated into one of pydantic-core's. Types of Python have nothing to do with this room.

Files, each importing only those below it:

    validator    JSON Schema to a validator of JSON text
    keywords     what each keyword means for pydantic-core
    syntax       the values that each keyword may have
    patterns     regular expressions of ECMAScript for the engines there are
    checks       checks in Python, where pydantic-core has none
    pointers     JSON pointers, anchors and references; a part of a schema as a schema of its own
"""
