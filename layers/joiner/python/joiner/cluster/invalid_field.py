"""The error of readers in this package for a manifest that the API server would not store."""

from typing import Any


class InvalidField(ValueError):
    """One field that cannot be read. The reader of the whole object adds the name of the object, the readers between
    add the path.
    """

    def __init__(self, field: str, value: Any, remedy: str) -> None:
        self.field = field
        self.value = value
        self.remedy = remedy
        super().__init__(f"{field or 'value'} is {value!r}: {remedy}")

    def within(self, parent: str) -> "InvalidField":
        """The same, seen from further up: ``cpu`` within ``resources.requests``."""
        return InvalidField(f"{parent}.{self.field}" if self.field else parent, self.value, self.remedy)
