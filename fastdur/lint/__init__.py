"""The linter: finds, in the source of workflows, what breaks their durability. Nothing that it reads is run.

`fastdur lint` and `pytest --fastdur-lint` are its two entrances.
"""
