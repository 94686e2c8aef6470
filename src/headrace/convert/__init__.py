"""Pipelines from one notation to another, and from other tools' files to ours."""
