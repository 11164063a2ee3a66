"""What a reader of this room raises for a manifest that the API server would not have stored."""

from typing import Any


class InvalidField(ValueError):
    """One field that cannot be read; whoever reads the whole object adds its name, readers on the way its path."""

    def __init__(self, field: str, value: Any, remedy: str) -> None:
        self.field = field
        self.value = value
        self.remedy = remedy
        super().__init__(f"{field or 'value'} is {value!r}: {remedy}")

    def within(self, parent: str) -> "InvalidField":
        """The same, seen from further up: ``cpu`` within ``resources.requests``."""
        return InvalidField(f"{parent}.{self.field}" if self.field else parent, self.value, self.remedy)
