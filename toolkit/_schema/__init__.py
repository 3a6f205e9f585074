"""Python types and JSON Schema: from a function to its schema, and from a model's arguments to typed values.

What providers are shown of a schema is not here, but in `_dialects`; what runs with the values, in `_tools`.

Files, each importing only those below it:

    arguments        raw arguments of a model to typed values, or to an error that the model can act on
    signature        parameters, annotations and documentation of a callable, and passing values to it
    declared_schema  what a declared tool takes and gives: a JSON Schema, a type, others combined
    function_schema  what a function takes and gives: JSON Schema and validator of its parameters and its value
    validation       validation against JSON Schemas written by hand
    core_schema      types as JSON Schema and as pydantic-core's schema, by hand and by pydantic
    json_mode        validators of JSON text, of pydantic-core's schemas
    python_stubs     tools as Python functions without bodies, for a model that writes code
    error_messages   error messages for a model
    json_schema      JSON Schema as plain data: its parts, references, types and nulls
    json_text        JSON texts as models write them, and text that is safe to show
    docstrings       descriptions, parameter texts and examples in docstrings, and the arguments in these
"""
