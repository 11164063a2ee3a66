"""What AWS answers about one node class. Lookups that need no other answer run at the same time, and those that several
classes have in common are sent once. What changes with each launch, the free addresses of subnets and the free
instances of capacity reservations, is always asked anew. So are the account's EBS defaults, by which a class may be
refused, and security groups and placement groups, whose answers do not show whether one is still missing. Other answers
may be a minute old, if they have all that was asked for.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from datetime import datetime
from itertools import chain
from typing import Any

from aws_lambda_powertools import Logger

from joiner.adapters.ec2_client import Ec2, Parameters
from joiner.adapters.ec2_errors import Ec2Error, Ec2Throttled, NoAnswer
from joiner.adapters.instance_profiles import InstanceProfiles
from joiner.adapters.shared_calls import SharedCalls
from joiner.launching.block_devices import EbsDefaults
from joiner.launching.node_class_answers import NodeClassAnswers
from joiner.launching.node_class_queries import NodeClassQueries, query_parameter_images
from joiner.launching.placement_group_matching import CLUSTER
from joiner.pools import NodeClass

logger = Logger(child=True)

Answers = Iterable[Future[list[Mapping[str, Any]]]]


class ClassLookups:
    """The lookups of all classes of one invocation. `image_owners` are the accounts whose images classes may use."""

    def __init__(
        self,
        ec2: Ec2,
        parameters: Parameters,
        profiles: InstanceProfiles,
        calls: SharedCalls,
        *,
        image_owners: tuple[str, ...],
    ) -> None:
        self._ec2 = ec2
        self._parameters = parameters
        self._profiles = profiles
        self._calls = calls
        self._image_owners = image_owners

    def look_up(self, node_class: NodeClass, asked: NodeClassQueries, now: datetime) -> NodeClassAnswers:
        """Return the answers to the questions of one class. Raises Ec2Error."""
        start, remembered, ec2 = self._calls.start, self._calls.start_or_remember, self._ec2
        names = (*asked.parameters, *asked.image_parameters)
        values = remembered(self._parameters.values, names, complete=_has(names)) if names else None
        group = asked.placement_group
        groups = start(ec2.placement_group, group.name, group.id) if group else None
        profiles = remembered(self._profiles.roles, (asked.instance_profile,)) if asked.instance_profile else None
        subnets = [start(ec2.subnets, filters) for filters in asked.subnets]
        security_groups = [start(ec2.security_groups, filters) for filters in asked.security_groups]
        images = [remembered(ec2.images, question.filters, question.owners) for question in asked.images]
        snapshots = remembered(ec2.snapshots, asked.snapshots, complete=_has(asked.snapshots))
        defaults = start(self._ebs_defaults)
        reservations = [
            start(ec2.capacity_reservations, question.filters, question.ids) for question in asked.reservations
        ]
        parameters = values.result() if values else {}
        named = [parameters[name] for name in asked.image_parameters if name in parameters]
        images += [
            remembered(ec2.images, question.filters, question.owners, complete=_has(set(named)))
            for question in query_parameter_images(named, self._image_owners)
        ]
        described = self._describe(node_class, (parameters[name] for name in asked.parameters if name in parameters))
        found = groups.result() if groups else []
        zones = [
            start(ec2.zones_of_placement_group, each["GroupName"]) for each in found if each["Strategy"] == CLUSTER
        ]
        return NodeClassAnswers(
            subnets=_joined(subnets),
            security_groups=_joined(security_groups),
            parameters=parameters,
            images=_joined(images),
            profile_roles=profiles.result() if profiles else {},
            asked_at=f"{now:%Y-%m-%dT%H:%M:%S}.000Z",  # the format of EC2's deprecation times
            parameter_images=_joined(described),
            snapshots=snapshots.result(),
            ebs_defaults=defaults.result(),
            placement_groups=found,
            group_zones=[zone for each in zones for zone in each.result()],
            reservations=_joined(reservations),
        )

    def _ebs_defaults(self) -> EbsDefaults | None:
        """Return the account's EBS defaults; None if the role has no permission to read them: then they are not
        checked.
        """
        try:
            return EbsDefaults(*self._ec2.ebs_defaults())
        except (NoAnswer, Ec2Throttled):
            raise
        except Ec2Error as refusal:
            logger.warning("the account's default EBS encryption key could not be read", reason=str(refusal))
            return None

    def _describe(self, node_class: NodeClass, ids: Iterable[str]) -> Answers:
        """Start the description of the images behind parameters: volume sizes matter only if a class has its own
        volumes."""
        wanted = sorted(set(ids)) if node_class.block_devices else []
        asked = [{"Name": "image-id", "Values": wanted}]
        return [self._calls.start_or_remember(self._ec2.images, asked, complete=_has(wanted))] if wanted else []


def _has(asked: Collection[str]) -> Callable[[Collection[Any]], bool]:
    """Return whether an answer has an entry for each of these names or ids."""
    wanted = len(set(asked))
    return lambda answer: len(answer) >= wanted


def _joined(answers: Answers) -> list[Mapping[str, Any]]:
    return list(chain.from_iterable(each.result() for each in answers))
