"""Headrace: Kafka pipelines on Spark, described in YAML.

>>> import headrace
>>> pipeline = headrace.load("orders.yaml")      # doctest: +SKIP
>>> pipeline.run()                               # doctest: +SKIP
"""

__version__ = "0.1.0"
