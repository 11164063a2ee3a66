import pytest

pytest.register_assert_rewrite("tests.unit.functions.simulation_invariants")  # its failures show the values
