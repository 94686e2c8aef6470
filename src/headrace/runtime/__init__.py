"""Spark does it: a plan run as a stream or a batch, with positions, reports and failures."""
