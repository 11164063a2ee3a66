import pytest

pytest.register_assert_rewrite("tests.unit.functions.invariants")  # its assertions are to tell what they saw
