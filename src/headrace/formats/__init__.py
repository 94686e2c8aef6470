"""Formats: bytes of a message to columns, and columns to bytes. One file each."""
