"""Python types and JSON Schema: from a function to its schema, and from a model's arguments to typed values.

What providers are shown of a schema is not here, but in `_dialects`; what runs with the values, in `_tools`.

Files, each importing only those below it:

    arguments        raw arguments of a model to typed values, or to an error that the model can act on
    signature        parameters, annotations and documentation of a callable, and passing values to it
    return_schema    JSON Schema of a tool's value, by its return annotation
    argument_schema  JSON Schema and validator of what a tool accepts: of parameters, a JSON Schema, a type
    validation       validation against JSON Schemas written by hand
    core_schema      types as JSON Schema and as pydantic-core's schema
    collisions       sets and dicts whose keys were chosen to have one hash
    python_stubs     tools as Python functions without bodies, for a model that writes code
    error_messages   error messages for a model
    json_schema      JSON Schema as plain data, and which alternative of a union a document matches
    json_text        JSON texts as models write them, and text that is safe to show
    examples         arguments in the examples of a docstring
    docstrings       descriptions, parameter texts and examples in docstrings
"""
