"""What Blend learns from simulated clicks, from decisions, through drift and beside other learners.

python -m experiments.blend                     # what has no rows yet, then the report
python -m experiments.blend clicks cranfield cisi       # some parts, and of clicks some sets
"""
