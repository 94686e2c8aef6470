"""Pipelines in SQL: statements with places, the dialect, and the way to the same tree as YAML's."""
