"""Functions as Lambda loads them: the folder is the root of imports, and `handler` is a module of its own in each."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

FUNCTIONS = Path(__file__).parents[3] / "functions"


@cache
def load(name: str) -> ModuleType:
    """The handler module of a function; the modules beside it belong to it alone."""
    folder = FUNCTIONS / name
    specification = importlib.util.spec_from_file_location(f"functions_{name}", folder / "handler.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    beside = {path.stem for path in folder.glob("*.py")}
    sys.path.insert(0, str(folder))
    try:
        specification.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
        for name_ in beside:
            sys.modules.pop(name_, None)
    return module
