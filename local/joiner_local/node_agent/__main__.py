"""`python -m joiner_local.node_agent --aws URL --kubeconfig ADMIN --cluster NAME`: the kubelets of one local cluster.

It prints one line on stdout, `ready http://127.0.0.1:PORT`, the address of its knobs: `boot`, `faults`, and
`instances`, which answers the state of each instance. SIGTERM ends it; the nodes stay, and a new agent continues with
them.
"""

import argparse
import base64
import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from joiner_local.aws.local_aws import REGION
from joiner_local.control_plane.kube_api import KubeApi
from joiner_local.control_plane.kubeconfig import ApiServerEndpoint
from joiner_local.control_plane.pki import KeyPair
from joiner_local.node_agent.agent_knobs import serve
from joiner_local.node_agent.instance_source import InstanceChange, InstanceReader
from joiner_local.node_agent.kubelet_pods import KubeletPods
from joiner_local.node_agent.kubelets import BootTimes, SimulatedKubelets
from joiner_local.node_agent.node_joining import NodeJoining

WATCHES = 4  # connections of watches


def identity(kubeconfig: Path, folder: Path) -> tuple[ApiServerEndpoint, KeyPair]:
    """Return the API server and the client's identity from a kubeconfig with embedded data; TLS libraries need
    files.
    """
    config: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    data = {
        "ca.crt": cluster["certificate-authority-data"],
        "admin.crt": user["client-certificate-data"],
        "admin.key": user["client-key-data"],
    }
    for name, encoded in data.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_bytes(base64.b64decode(encoded))
    return ApiServerEndpoint(cluster["server"], folder / "ca.crt"), KeyPair(folder / "admin.crt", folder / "admin.key")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m joiner_local.node_agent", description="simulates the kubelets of launched instances"
    )
    parser.add_argument("--aws", required=True, help="the local AWS")
    parser.add_argument(
        "--kubeconfig", type=Path, required=True, help="of an administrator, with embedded certificates"
    )
    parser.add_argument("--cluster", required=True)
    parser.add_argument(
        "--boot-seconds",
        type=float,
        default=BootTimes().boot,
        help="from the launch to the node's registration (default %(default)s)",
    )
    parser.add_argument(
        "--ready-seconds", type=float, default=BootTimes().ready, help="from that to Ready (default %(default)s)"
    )
    parser.add_argument(
        "--gone-seconds",
        type=float,
        default=BootTimes().gone,
        help="from an instance's end to its node's (default %(default)s)",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    aws = InstanceReader(options.aws.rstrip("/"), REGION)
    folder = (
        options.kubeconfig.resolve().parent / "node-agent"
    )  # beside its secret, where a crashed stack is cleaned up
    folder.mkdir(mode=0o700, exist_ok=True)
    joining = NodeJoining(aws, options.cluster, folder)
    endpoint, pair = identity(options.kubeconfig, folder)
    admin = KubeApi(endpoint, pair=pair, connections=32)
    pace = BootTimes(options.boot_seconds, options.ready_seconds, options.gone_seconds)
    kubelets = SimulatedKubelets(aws, admin, joining, pace)
    KubeletPods(admin, KubeApi(endpoint, pair=pair, connections=WATCHES), kubelets.node_deleted).start()
    InstanceChange(aws, kubelets.changed).start()
    address = serve({"boot": pace.turn, "faults": kubelets.turn_faults, "instances": lambda _: kubelets.describe()})
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    print(f"ready {address}", flush=True)
    ended.wait()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # threads may wait for an API server that has ended


if __name__ == "__main__":
    main()
