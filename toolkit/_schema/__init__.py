"""Python types and JSON Schema: from a function to its schema, and from a model's arguments to typed values.

The forms in which providers receive a schema are in `_dialects`, the handlers that receive the values in `_tools`.

Files, each importing only those below it:

    arguments        parsing of a model's raw arguments into typed values, or into an error that the model can act on
    scopes           the names that a function's annotations use, from its classes and the frames around it
    signature        parameters, annotations and documentation of a callable, and passing values to it
    declared_schema  argument and return schemas of declared tools: of a JSON Schema, of a type, of two joined schemas
    function_schema  argument and return schemas of functions, and their base classes
    validation       validation against JSON Schemas written by hand
    core_schema      types as JSON Schema and as pydantic-core's schema, by hand and by pydantic
    generator        pydantic's generator of JSON Schema, with what it leaves out
    json_mode        validators of JSON text, built from pydantic-core's schemas
    python_stubs     tools as Python functions without bodies, for a model that writes code
    error_messages   error messages for a model
    docstrings       descriptions, parameter texts and examples in docstrings, and texts in annotations
    json_schema      JSON Schema as plain data: its parts, references, types and nulls
    json_text        JSON texts as models write them, and text that is safe to show
"""
