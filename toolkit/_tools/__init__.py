"""_tools."""
