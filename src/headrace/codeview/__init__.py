"""The code view: a plan as a standalone PySpark script."""
