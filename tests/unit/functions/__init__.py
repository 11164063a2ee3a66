import pytest

pytest.register_assert_rewrite("tests.unit.functions.invariants")  # its failures show the values
