"""Tests too slow for every run, and the targets of the Makefile that run them instead."""

import os

import pytest


def only_in(target):
    """Skip a test unless the target runs, which sets this variable."""
    elsewhere = f"SIMILIA_TEST_{target.upper()}" not in os.environ
    return pytest.mark.skipif(elsewhere, reason=f"`make {target}` runs it")


#: failures that are waited for
in_clusters = only_in("clusters")
#: what many draws show
in_experiments = only_in("experiments")
