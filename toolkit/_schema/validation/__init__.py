"""Validation of documents against JSON Schemas (draft 2020-12) written by hand or by other programs.

A schema is translated into one of pydantic-core's. Schemas of Python types are built in `core_schema`.

Files, each importing only those below it:

    validator    JSON Schema to a validator of JSON text
    keywords     translation of each keyword into pydantic-core's schema
    syntax       the values that each keyword may have
    patterns     regular expressions of ECMAScript, translated for pydantic-core's engine
    checks       checks in Python that pydantic-core lacks
    pointers     JSON pointers, anchors and references; bundling a part of a schema as a schema of its own
"""
