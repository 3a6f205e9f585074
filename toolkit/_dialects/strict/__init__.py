"""_dialects/strict."""
