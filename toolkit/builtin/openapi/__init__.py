"""The operations of an HTTP service, as its OpenAPI document tells them, as tools.

    tools = openapi_tools(Path("petstore.yaml"), methods=("GET",), auth={"api_key": key})

How it works: `reading` makes data of a document, `objects` are its parts, `operations` chooses among them. `inputs` and
`bodies` make one flat schema of what an operation needs, in which `translation` says the document's schemas as JSON
Schema 2020-12. `requests` writes arguments by `styles`, to where `servers` and `security` say; `answers` reads what
comes back.

What must stay true: arguments change neither host, nor method, nor the number of a path's segments; keys come from the
caller, go nowhere but to the host that is called, and are in no text that is made here. httpx2 logs each address at
level INFO, with the keys that a document wants in the query.
"""

from toolkit.builtin.openapi.tools import openapi_tools

__all__ = ["openapi_tools"]
