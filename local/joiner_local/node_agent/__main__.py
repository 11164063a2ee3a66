"""`python -m joiner_local.node_agent --aws URL --kubeconfig ADMIN --cluster NAME`: the kubelets of one local cluster.

It prints one line on stdout, `ready http://127.0.0.1:PORT`, where its knobs are: `boot`, `faults`, and `instances`, which tells what has
become of each. SIGTERM ends it; the nodes stay, and a new agent goes on with them.
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
from joiner_local.kube_api import KubeApi
from joiner_local.kubeconfig import Endpoint
from joiner_local.node_agent.ec2 import Ec2, InstanceNews
from joiner_local.node_agent.joining import Joining
from joiner_local.node_agent.knobs import serve
from joiner_local.node_agent.kubelets import Kubelets, Pace
from joiner_local.node_agent.pods import Pods
from joiner_local.pki import Pair

WATCHES = 4  # connections that watches hold


def identity(kubeconfig: Path, folder: Path) -> tuple[Endpoint, Pair]:
    """Where and as whom, from a kubeconfig with embedded data; TLS libraries want files."""
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
    return Endpoint(cluster["server"], folder / "ca.crt"), Pair(folder / "admin.crt", folder / "admin.key")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m joiner_local.node_agent", description="plays the kubelets of launched instances")
    parser.add_argument("--aws", required=True, help="the local AWS")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="of an administrator, with embedded certificates")
    parser.add_argument("--cluster", required=True)
    parser.add_argument(
        "--boot-seconds", type=float, default=Pace().boot, help="from running to the node's first sign (default %(default)s)"
    )
    parser.add_argument("--ready-seconds", type=float, default=Pace().ready, help="from that to Ready (default %(default)s)")
    parser.add_argument(
        "--gone-seconds", type=float, default=Pace().gone, help="from an instance's end to its node's (default %(default)s)"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    aws = Ec2(options.aws.rstrip("/"), REGION)
    folder = options.kubeconfig.resolve().parent / "node-agent"  # beside its secret, not where it would outlive a crashed stack
    folder.mkdir(mode=0o700, exist_ok=True)
    joining = Joining(aws, options.cluster, folder)
    endpoint, pair = identity(options.kubeconfig, folder)
    admin = KubeApi(endpoint, pair=pair, connections=32)
    pace = Pace(options.boot_seconds, options.ready_seconds, options.gone_seconds)
    kubelets = Kubelets(aws, admin, joining, pace)
    Pods(admin, KubeApi(endpoint, pair=pair, connections=WATCHES), kubelets.node_deleted).start()
    InstanceNews(aws, kubelets.changed).start()
    address = serve({"boot": pace.turn, "faults": kubelets.turn_faults, "instances": lambda _: kubelets.told()})
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    print(f"ready {address}", flush=True)
    ended.wait()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # threads may wait for an API server that is gone


if __name__ == "__main__":
    main()
