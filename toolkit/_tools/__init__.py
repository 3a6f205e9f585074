"""Tools: their declaration, their options, and the handlers that execute them.

Schemas come from `_schema`, the forms of providers from `_dialects`. Gates, retries and timeouts are in `_execution`.

Files, each importing only those below it:

    check            findings about the tools of a toolbox
    definitions      the definitions of tools, compared with a file or with another process
    addable          items that a toolbox can be made of, and the tools of each
    bindings         functions bound to tools, and the choice between them
    delegation       tools that a module executes: a runner or a function of its own
    decorator        `@tool`
    tool             Tool
    from_schema      declarations by a JSON Schema or by types
    invocation       parse arguments, call the handler, make the result
    handlers         bound functions, latent tools, tools without a function; and the values that an `undo` takes
    functions        Python functions, called with the values of a call
    results          values and exceptions as results: text, images and files
    library_values   values of other packages, as data, text or a picture
    options          the options of a tool
    shared_values    values that the calls of a run share, by path, and what a call may see of them
"""
