"""How many launch templates one launch has at most.

EC2 takes a number of them in one request, and an item of the table of launches holds so many bytes of user data.

An image and a text of user data make one template. Most launches have one text; a kubelet that must know its number of
pods has one for each number.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from joiner.launching.fleet_request import MAXIMUM_TEMPLATES
from joiner.launching.launch_offering import LaunchOffering

Images = tuple[tuple[LaunchOffering, str], ...]
"""Offerings in the order of preference, each with its image."""

MAXIMUM_TEMPLATE_BYTES: Final = 150_000
"""Of user data, in all templates of a launch. In base64, and with the rest of the launch, an item of DynamoDB has at
most 400 KB."""


def limit_templates(images: Sequence[tuple[LaunchOffering, str]], user_data: str, by_type: Mapping[str, str]) -> Images:
    """Return the first offerings whose templates fit one request and one item of the table of launches.

    ``by_type`` has the user data of instance types that do not have ``user_data``. User data may be empty: an image of
    the family Custom may have all that its node needs.
    """
    longest = max(len(text.encode()) for text in (user_data, *by_type.values()))
    most = min(MAXIMUM_TEMPLATES, max(MAXIMUM_TEMPLATE_BYTES // max(longest, 1), 1))
    kept: list[tuple[LaunchOffering, str]] = []
    templates: set[tuple[str, str]] = set()
    for offer, image in images:
        own = (image, by_type.get(offer.instance_type, user_data))
        if own in templates or len(templates) < most:
            templates.add(own)
            kept.append((offer, image))
    return tuple(kept)
