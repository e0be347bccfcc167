"""A pytest plugin: what numba-cuda's tests expect of their own conftest.py, which the wheel does not carry."""

import pytest


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    request.cls._dump_failed_filechecks = False
