"""The limits of ready tools and sources: public addresses, one directory, checked options.

Files, each importing only those below it:

    http_client  URLs, and the HTTP client: bounded time and bytes, redirects
    network      connections to public addresses, and to other allowed destinations
    redaction    removal of secrets from texts, also escaped or encoded
    hidden_text  escaping of invisible characters in texts of others
    options      checks of the options of factories
    paths        files beneath one directory
    media        image formats by their first bytes
"""

from __future__ import annotations
