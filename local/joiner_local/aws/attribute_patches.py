"""Replace attributes of moto and botocore for the whole process, and record each replacement.

Every module of the local AWS that changes moto or botocore does so through these functions; `installation` calls these
modules and lists what they change. Two patches of one attribute that exclude each other are an error, so the order of
calls never decides silently.
"""

from collections.abc import Mapping
from typing import Any, Final

PATCHED: Final[list[str]] = []  # "Owner.attribute", in the order of the patches; a name occurs once for each patch


class PatchConflict(RuntimeError):
    """A patch would discard another patch of the same attribute."""


def replace_attribute(owner: Any, name: str, new: Any) -> None:
    """Set an attribute of a class or module of moto or botocore to a value that does not use the original.

    Raises `PatchConflict` if the attribute was patched before.

    >>> class Backend: pass
    >>> replace_attribute(Backend, "describe", len)
    >>> replace_attribute(Backend, "describe", max)
    Traceback (most recent call last):
    joiner_local.aws.attribute_patches.PatchConflict: Backend.describe is patched already
    >>> PATCHED.remove("Backend.describe")
    """
    label = _label(owner, name)
    if label in PATCHED:
        raise PatchConflict(f"{label} is patched already")
    _patch(owner, name, new)


def wrap_attribute(owner: Any, name: str, new: Any, original: Any) -> None:
    """Set an attribute of a class or module of moto or botocore to a value that calls `original`, the attribute until
    now.

    The attribute may have been patched before. Raises `PatchConflict` if it is no longer `original`, because the patch
    in between would be discarded.
    """
    if getattr(owner, name) is not original:
        raise PatchConflict(f"{_label(owner, name)} was patched after the wrapper read it")
    _patch(owner, name, new)


def add_items(owner: Any, name: str, items: Mapping[str, Any]) -> None:
    """Add items to a dictionary of moto that is an attribute of a module; items with the same keys are replaced."""
    getattr(owner, name).update(items)
    PATCHED.append(_label(owner, name))


def _patch(owner: Any, name: str, new: Any) -> None:
    setattr(owner, name, new)
    PATCHED.append(_label(owner, name))


def _label(owner: Any, name: str) -> str:
    """
    >>> import json, collections
    >>> _label(collections.OrderedDict, "pop"), _label(json.decoder, "scan")
    ('OrderedDict.pop', 'json.decoder.scan')
    """
    return f"{owner.__qualname__ if isinstance(owner, type) else owner.__name__}.{name}"
