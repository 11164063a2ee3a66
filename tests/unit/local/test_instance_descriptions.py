"""What a description of an instance shows while the local AWS lets moto change the instance."""

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws
from moto.ec2.models import ec2_backends
from moto.ec2.models.instances import Instance

from joiner_local.aws.ec2.instance_lifecycle import EndReason, _terminated

NO_KEY = EndReason("Client.InternalError", "Client.InternalError: Client error on launch")


class ReadAfterEachChange(dict[str, Any]):
    """The associations of profiles, which moto looks up after it has changed the state and the reason: what the
    instance shows then.
    """

    def __init__(self, instance: Instance) -> None:
        super().__init__()
        self.instance = instance
        self.seen: list[tuple[str, str]] = []

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.append((self.instance.state, self.instance.state_reason.code))
        return super().get(key, default)


@pytest.fixture
def instance() -> Iterator[Instance]:
    with mock_aws():
        backend = ec2_backends["123456789012"]["us-east-1"]
        (image, *_) = backend.describe_images()
        reservation = backend.run_instances(
            image.id, 1, None, [], instance_type="m5.large", is_instance_type_default=False, tags={}, nics=[]
        )
        yield reservation.instances[0]


def test_no_description_shows_motos_reason_for_an_end_that_has_another(instance: Instance) -> None:
    seen = ReadAfterEachChange(instance)
    instance.ec2_backend.iam_instance_profile_associations = seen
    before = (instance.state, instance.state_reason.code)

    _terminated(instance, NO_KEY)

    assert seen.seen == [before]
    assert (instance.state, instance.instance_state.code) == ("terminated", 48)
    assert instance.state_transition_reason.startswith("InternalError (")
