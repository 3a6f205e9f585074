"""A schema rewritten for a provider without loss, and the arguments of a call decoded.

A rewritten schema is a `SchemaForm`. It is lossless: every document that the tool accepts can be written in it, and
decoding returns the tool's own document, which is then validated against the tool's own schema. If strict rules allow
no such form, the schema is sent almost unchanged, and not enforced.

`rules` has the table of keywords that each provider supports. `rewriter` has one function for each construct of JSON
Schema; it makes the schema that is sent and picks the decoder of its documents.

Files, each importing only those below it:

    rewriter  the form of a schema under a provider's rules: references, objects, arrays, unions, enumerations
    roots     a root without alternatives
    plain     the form of a schema that is sent nearly unchanged
    rules     the keywords of JSON Schema that each provider supports, and its limits
    decoders  conversion of documents from the form that is sent to the tool's own
    matching  matching of documents with schemas, such as the alternatives of a union
"""
