"""serve."""

__all__ = ["agui"]
