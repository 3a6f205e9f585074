"""_schema."""
