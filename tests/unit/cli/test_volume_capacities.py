"""The capacity of a PersistentVolume that the API server would refuse is refused."""

import pytest

from joiner_cli.manifests import read_manifest_set
from joiner_cli.manifests.manifest_documents import read_text

VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {{name: disk}}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {{storage: {storage}}}
  csi: {{driver: ebs.csi.aws.com, volumeHandle: vol-1}}
"""


@pytest.mark.parametrize(
    ("storage", "remedies"),
    [
        ("20Gi", []),
        ("7Ei", []),
        ("0", ["give a quantity above zero"]),
        ("8Ei", ["give a quantity below 8Ei"]),
        ("1e40", ["give a quantity below 8Ei"]),
    ],
)
def test_the_storage_of_a_volume_is_more_than_zero_and_less_than_the_api_server_can_read(
    storage: str, remedies: list[str]
) -> None:
    found = read_manifest_set(read_text(VOLUME.format(storage=storage), "file"))

    assert [error.remedy for error in found.errors if error.field == "spec.capacity[storage]"] == remedies
