"""A schema rewritten for a provider without loss, and the arguments of a call decoded.

A rewritten schema is a `SchemaForm`. It is lossless: every document that the tool accepts can be written in it, and
decoding gives the tool's own document, which is then validated against the tool's own schema. Where strict rules allow
no such form, the schema is sent almost as it is, and not enforced.

`rules` has the table of what each provider understands. `rewriter` has one function for each construct of JSON Schema;
it makes the schema that is sent and picks the decoder that reads it back.

Files, each importing only those below it:

    rewriter  the form of a schema under a provider's rules: references, objects, arrays, unions, enumerations
    plain     the form of a schema that is sent nearly as it is
    rules     what each provider understands of JSON Schema, and how much of it
    decoders  documents in the form that is sent -> the tool's own
    matching  which alternative of a union a document is of
"""
