"""Live search traffic in a closed loop: what a contender shows is what it learns from.

`python -m experiments.traffic` runs what has no rows yet and writes `reports/traffic.md`.
"""
