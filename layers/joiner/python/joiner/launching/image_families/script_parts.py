"""The user data of Linux nodes that cloud-init divides into parts: what none of the families can read.

Source: cloud-init, "User data formats": a part with the type of a shell script is executed, so that the kernel must
find its interpreter in the first line.
"""

from collections.abc import Iterator

from joiner.launching.image_families.image_family import refuse, warn
from joiner.launching.image_families.mime_parts import SHELL_SCRIPT, MimePart, read_user_parts
from joiner.launching.image_families.node_settings import UserDataRefused
from joiner.pools import NodeClass, NodeClassProblem

NO_INTERPRETER = (
    "cloud-init cannot run a script whose first line does not begin with #!: write #!/bin/bash there (and other "
    "formats of cloud-init, such as #cloud-config, as MIME parts with their own Content-Type)"
)


def read_readable_parts(node_class: NodeClass) -> list[tuple[MimePart, str]]:
    """Return the parts of a class's user data, each with its decoded text; raises UserDataRefused."""
    return [(part, part.decode()) for part in read_user_parts(node_class.user_data or "")]


def count_lines_before(node_class: NodeClass, text: str) -> int:
    """Return the number of lines of a class's user data before the text of a part; 0 for a part with an encoding, whose
    lines are no lines of the user data.
    """
    return (node_class.user_data or "").partition(text)[0].count("\n") if text in (node_class.user_data or "") else 0


def find_part_problems(node_class: NodeClass) -> Iterator[NodeClassProblem]:
    """Yield the problem of malformed MIME, which no node can read, and a warning for a script that is not run."""
    try:
        parts = read_readable_parts(node_class)
    except UserDataRefused as refused:
        yield refuse(node_class, "userData", refused.reason, str(refused))
        return
    if any(part.media_type == SHELL_SCRIPT and not text.startswith("#!") for part, text in parts):
        yield warn(node_class, "userData", "WithoutEffect", NO_INTERPRETER)
