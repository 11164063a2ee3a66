"""Handlers by the name of their folder, for tests that run the function that a state machine names."""

import importlib
from pathlib import Path
from types import ModuleType

FUNCTIONS = Path(__file__).parents[3] / "functions"


def load(name: str) -> ModuleType:
    """Import the handler of a function."""
    return importlib.import_module(f"functions.{name}.handler")
