"""Limits and waits of launches (CreateFleet) and of the registration of their nodes, in scale-ups and disruptions.

Times are in seconds. The limits of functions are in `function_configuration.py`; waits that a user may choose are in
`settings.py`.
"""

from typing import Final

GROUPS_OF_ONE_INVOCATION: Final = 16
"""Groups that one invocation of launch_instances launches at the same time, in its threads, if a plan has no more of
them: the start of a second sandbox takes longer than the requests of 16 groups. EC2's bucket for requests that change
something holds about 50 and gets 5 a second, and a call takes some seconds. A throttled group is launched by the next
round."""

CONCURRENT_INVOCATIONS: Final = 2
"""Invocations of launch_instances at the same time if a plan has more groups. One with a slow CreateFleet takes up to
40 seconds; meanwhile the others continue."""

GROUPS_OF_CONCURRENT_INVOCATIONS: Final = GROUPS_OF_ONE_INVOCATION // CONCURRENT_INVOCATIONS
"""Groups of each of these invocations."""

FIRST_RECORD_SECONDS: Final = 2
"""Wait before launches are recorded: most CreateFleet calls are answered by then."""

FREQUENT_RECORDS: Final = 20
SECONDS_BETWEEN_FREQUENT_RECORDS: Final = 1
SECONDS_BETWEEN_LATER_RECORDS: Final = 15
MAX_RECORDS: Final = 40
"""Records of one round that are written while its launches run. A history ends at 25,000 events, and each record with
its check is about 20 of them. A launch that still runs after these is throttled or does not answer."""

CHECK_DURING_LAUNCHES_SECONDS: Final = 5
"""A check that runs while launches run starts no call after this time: the next round waits for both branches."""

GATHER_SECONDS: Final = 0.3
"""After a call of the doorbell, `check_registration` waits until the change is stored, and other nodes have called that
are Ready at the same time. It finds later ones in its next passes."""

SETTLING_SECONDS: Final = 1
"""Nodes that got their pods in a check are opened this much later."""

BOOT_CHECK_SECONDS: Final = 15
"""Longest wait for a check while instances boot, since a call of the doorbell may be lost. No instance boots in less,
and each check is three state transitions."""

REGISTRATION_CHECK_SECONDS: Final = 5
"""The same while a node exists that is not registered, or does not take pods yet."""
