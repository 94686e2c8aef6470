"""Fixtures that every test may use: the shared broker and topics of one's own."""

pytest_plugins = ["headrace.testing.fixtures"]
