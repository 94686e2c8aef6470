"""`make chaos`: a pipeline that is killed again and again, and what its readers saw meanwhile.

`run` is the command; `schedule` says from a seed what will happen, `ordeal` does it to the drivers
of `driver` and to the brokers; `reader` writes down what a consumer sees, `history` reads that, and
`checks` judges it. docs/chaos.md tells how to read the report.
"""
