"""The kubelets of all instances, from launch to the end: booting, joined, silent, ended.

`node_joining` decides *whether* an instance joins; this module decides when, and what happens to its node when the
instance ends.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

from joiner_local.control_plane.kube_api import ApiError, KubeApi
from joiner_local.delayed_actions import DelayedActions
from joiner_local.knob_client import KnobRefused, turn_knob
from joiner_local.knob_requests import check_fields, read_flag, read_number
from joiner_local.node_agent import cloud_controller
from joiner_local.node_agent.agent_faults import NodeFaults
from joiner_local.node_agent.instance_source import InstanceMetadata, InstanceReader
from joiner_local.node_agent.node_joining import NodeJoining, NotYet
from joiner_local.node_agent.node_objects import FAULT, KUBELET, Ec2Instance
from joiner_local.node_agent.node_registration import Unbootable

log = logging.getLogger(__name__)

HELD_FOR: Final = 0.2  # seconds between two checks of an instance whose boot is paused
AGAIN: Final = 3.0  # seconds until a node that could not join tries again
SETTLED: Final = 2.0  # seconds from Ready until a kubelet with the fault `silent` stops reporting
AT_ONCE: Final = 16


@dataclass(slots=True)
class BootTimes:
    """Seconds: from an instance's launch to its node's registration, from that to Ready, and from the instance's end to
    its node's deletion.

    While boots are `held`, no boot ends, however long ago it began.
    """

    boot: float = 5.0
    ready: float = 0.5
    gone: float = 5.0
    held: bool = False

    def turn(self, asked: dict[str, Any]) -> dict[str, Any]:
        check_fields(asked, {"seconds", "readySeconds", "goneSeconds", "held"}, "boot")
        self.boot = read_number(asked, "seconds", self.boot)
        self.ready = read_number(asked, "readySeconds", self.ready)
        self.gone = read_number(asked, "goneSeconds", self.gone)
        self.held = read_flag(asked, "held", default=self.held)
        return {"seconds": self.boot, "readySeconds": self.ready, "goneSeconds": self.gone, "held": self.held}


@dataclass(slots=True)
class SimulatedKubelet:
    """`phase` is booting, joined, silent, refused (permanently) or ended; `why` is the reason that it has not
    joined.
    """

    instance: Ec2Instance
    metadata: InstanceMetadata
    phase: str = "booting"
    why: str = ""
    fault: str = ""
    boots: int = 0  # counts starts, so that actions of an earlier start are dropped

    def describe(self) -> dict[str, str]:
        known = {"node": self.instance.name, "phase": self.phase, "why": self.why, "fault": self.fault}
        return {name: value for name, value in known.items() if value}


@dataclass(slots=True)
class SimulatedKubelets:
    aws: InstanceReader
    kube: KubeApi
    joining: NodeJoining
    pace: BootTimes = field(default_factory=BootTimes)
    faults: NodeFaults = field(default_factory=NodeFaults)
    _kubelets: dict[str, SimulatedKubelet] = field(default_factory=dict)
    _states: dict[str, str] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _agenda: DelayedActions = field(default_factory=lambda: DelayedActions("kubelets"))
    _work: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(AT_ONCE, "kubelet"))

    def describe(self) -> dict[str, Any]:
        with self._lock:
            return {identity: kubelet.describe() for identity, kubelet in self._kubelets.items()}

    def changed(self, states: Mapping[str, str]) -> None:
        """Handle new states of instances."""
        started = []
        with self._lock:
            self._states |= states
            for instance_id, state in states.items():
                kubelet = self._kubelets.get(instance_id)
                if state == "running":
                    if kubelet is None or kubelet.phase == "ended":
                        started.append(instance_id)
                elif kubelet is not None and state in ("shutting-down", "stopping", "terminated", "stopped"):
                    self._end(kubelet, state)
        if started:
            self._do(lambda: self._begin(started))

    def turn_faults(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Knob: set rules for new instances, and apply them at once to an existing one that is named."""
        choice = self.faults.turn(asked)
        with self._lock:
            kubelet = self._kubelets.get(choice.instance_id) if choice is not None else None
            if kubelet is not None and kubelet.phase in ("joined", "silent"):
                self._strike(kubelet, asked["fault"])
        return {"rules": len(self.faults.rules)}

    # --- start ---

    def _begin(self, ids: Sequence[str]) -> None:
        """Begin the boots of instances: one description for all that started together."""
        described, metadata = {each.id: each for each in self.aws.instances(ids)}, self.aws.metadata(ids)
        for instance_id in ids:
            if instance_id in described and instance_id in metadata:
                self._boot(described[instance_id], metadata[instance_id])
        if hidden := [each for each in ids if each not in described and self._states[each] == "running"]:
            self._later(AGAIN, lambda: self._begin(hidden))

    def _boot(self, instance: Ec2Instance, metadata: InstanceMetadata) -> None:
        with self._lock:
            kubelet = self._kubelets.get(instance.id)
            if self._states[instance.id] != "running" or (kubelet is not None and kubelet.phase != "ended"):
                return
            boots = kubelet.boots + 1 if kubelet else 1
            fault = self.faults.of(instance.instance_type, instance.zone, instance.id)
            kubelet = SimulatedKubelet(instance, metadata, fault=fault.kind, boots=boots)
            self._kubelets[instance.id] = kubelet
            since_launch = time.time() - metadata.launched
            match fault.kind:
                case "never-boots":
                    log.info("%s never boots: a fault that was asked for", instance.id)
                case "stops-while-booting":
                    self._later(self.pace.boot / 2 - since_launch, lambda: self.aws.terminate(instance.id))
                case _:
                    factor = fault.factor if fault.kind == "slow" else 1.0
                    self._later(self.pace.boot * factor - since_launch, lambda: self._join(kubelet, boots))

    def _join(self, kubelet: SimulatedKubelet, boots: int) -> None:
        if kubelet.phase != "booting" or kubelet.boots != boots:
            return
        if self.pace.held:
            self._later(HELD_FOR, lambda: self._join(kubelet, boots))
            return
        try:
            instance = kubelet.instance
            node = self.joining.join(instance, kubelet.metadata, ready_after=self.pace.ready, fault=kubelet.fault)
            cloud_controller.initialize(self.kube, instance, self.aws.zone_ids[instance.zone], node)
        except Unbootable as error:
            self._say(kubelet, str(error))
            with self._lock:
                if kubelet.phase != "ended":
                    kubelet.phase = "refused"
        except NotYet as error:
            self._say(kubelet, str(error))
            self._later(AGAIN, lambda: self._join(kubelet, boots))
        except (ApiError, ClientError, BotoCoreError, HTTPError, OSError) as error:
            self._say(kubelet, f"{type(error).__name__}: {error}")
            self._later(AGAIN, lambda: self._join(kubelet, boots))
        else:
            self._joined(kubelet)

    def _joined(self, kubelet: SimulatedKubelet) -> None:
        log.info("%s joined as %s", kubelet.instance.id, kubelet.instance.name)
        with self._lock:
            kubelet.why = ""
            if kubelet.phase == "ended":  # the instance ended while its node registered
                self._do(lambda: self._label(kubelet, {KUBELET: None}))
                return
            kubelet.phase = "joined"
            if kubelet.boots > 1:
                self._do(lambda: cloud_controller.mark_started(self.kube, kubelet.instance.name))
            if kubelet.fault == "silent":
                self._later(self.pace.ready + SETTLED, lambda: self._strike(kubelet, "silent"))

    def _say(self, kubelet: SimulatedKubelet, why: str) -> None:
        if why != kubelet.why:
            log.warning("%s does not join: %s", kubelet.instance.id, why)
            try:
                turn_knob(self.aws.endpoint, "console", {"instanceId": kubelet.instance.id, "text": f"kubelet: {why}"})
            except KnobRefused as error:  # EC2 forgot the instance
                log.warning("%s has no console: %s", kubelet.instance.id, error)
        kubelet.why = why

    # --- faults ---

    def _strike(self, kubelet: SimulatedKubelet, fault: str) -> None:
        with self._lock:
            if kubelet.phase not in ("joined", "silent"):
                return
            kubelet.fault = "" if fault == "none" else fault
            kubelet.phase = "silent" if fault == "silent" else "joined"
        labels = {KUBELET: None if fault == "silent" else "kwok", FAULT: "not-ready" if fault == "not-ready" else None}
        self._do(lambda: self._label(kubelet, labels))

    def _label(self, kubelet: SimulatedKubelet, labels: dict[str, str | None]) -> None:
        try:
            self.kube.merge(f"/api/v1/nodes/{kubelet.instance.name}", {"metadata": {"labels": labels}})
        except ApiError as error:
            if error.status != 404:
                raise

    # --- end ---

    def _end(self, kubelet: SimulatedKubelet, state: str) -> None:
        had_node = kubelet.phase in ("joined", "silent")
        if kubelet.phase != "ended":
            kubelet.phase = "ended"
            if had_node:
                self._do(lambda: self._label(kubelet, {KUBELET: None}))
        if state == "terminated":
            self._later(self.pace.gone, lambda: self._remove(kubelet))
        elif state == "stopped":
            self._do(lambda: cloud_controller.mark_stopped(self.kube, kubelet.instance.name))

    def _remove(self, kubelet: SimulatedKubelet) -> None:
        if cloud_controller.remove(self.kube, kubelet.instance):
            log.info("%s is gone: node %s deleted", kubelet.instance.id, kubelet.instance.name)

    def node_deleted(self, name: str) -> None:
        """Handle a deleted Node. If its instance is gone, too, its pods are removed.

        An address, and with it a name, is used again: every instance that had the name must be gone.
        """
        with self._lock:
            phases = [kubelet.phase for kubelet in self._kubelets.values() if kubelet.instance.name == name]
        if phases and all(phase == "ended" for phase in phases):
            self._do(lambda: cloud_controller.remove_pods(self.kube, name))

    # --- work ---

    def _do(self, act: Callable[[], None]) -> None:
        self._work.submit(_logged, act)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._agenda.after(seconds, lambda: self._do(act))


def _logged(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception:
        log.exception("a kubelet's work")
