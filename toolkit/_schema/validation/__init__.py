"""Validation of documents against JSON Schemas written by hand or by other programs."""
