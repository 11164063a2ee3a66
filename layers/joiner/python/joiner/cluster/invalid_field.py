"""The error for a field that the API server would not store, raised by the readers of this package."""

from typing import Any


class InvalidField(ValueError):
    """One field that is not valid.

    Each reader adds its part of the path. The reader of the whole object adds the object's name.
    """

    def __init__(self, field: str, value: Any, remedy: str) -> None:
        self.field = field
        self.value = value
        self.remedy = remedy
        super().__init__(f"{field or 'value'} is {value!r}: {remedy}")

    def within(self, parent: str) -> "InvalidField":
        """Return the error with the parent's path in front: ``cpu`` within ``resources.requests``."""
        return InvalidField(f"{parent}.{self.field}" if self.field else parent, self.value, self.remedy)
