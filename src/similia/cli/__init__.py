"""The command line: each command parses, calls one library function and prints.

Slow imports happen inside the commands, so that ``similia --help`` is instant.
"""
