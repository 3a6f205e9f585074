"""The bounds of ready tools and sources: public addresses, one directory, checked options.

Files, each importing only those below it:

    http_client  URLs, and the HTTP client: bounded time and bytes, redirects
    network      connections to public addresses and to what is allowed besides
    redaction    secrets in texts, escaped or encoded
    hidden_text  texts of others, in which a person does not see all
    options      checks of the options of factories
    paths        files beneath one directory
    media        image formats by their first bytes
"""

from __future__ import annotations
