"""Formats: bytes of a record to columns, and columns to bytes. One file each."""
