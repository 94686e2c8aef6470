"""Statements done one by one: the catalog, `system` tables, previews, pipelines to start."""
