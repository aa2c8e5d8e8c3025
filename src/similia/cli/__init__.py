"""The command line: each command parses, calls the library and prints.

Whatever is slow to import is imported inside the commands, so that ``similia --help`` is instant.
"""
