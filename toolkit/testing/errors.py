"""What a test double says when a test and its script do not fit together."""


class ScriptError(AssertionError):
    """The requests were not those that the script was written for."""
