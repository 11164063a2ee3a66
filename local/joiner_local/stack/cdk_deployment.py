"""`cdk deploy` of this repository's app into a local stack, with the real command line and the real template.

Synthesis needs no stack, so it may run while a stack starts.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from joiner_local.stack.stack_processes import Program
from joiner_local.tooling import function_python, toolchains
from joiner_local.tooling.command_progress import Say

SETTINGS: Final = "local"  # clusters/local.yaml
REPORTED_EVERY = 5.0


class DeploymentFailed(RuntimeError):
    """The app could not be synthesised or deployed; the message ends with the CDK's output."""


def _silent(line: str) -> None: ...


@dataclass(slots=True)
class Deployment:
    """One deployment of the app at `repository`; its files go below `root`.

    `synthesised` may have been made by another one. `context` is more context of the app, as of `cdk deploy -c`.
    """

    repository: Path
    root: Path
    say: Say = _silent
    synthesised: Path | None = None
    context: Mapping[str, str] = field(default_factory=dict)
    _synthesis: Program | None = field(default=None, repr=False)

    def begin_synthesis(self) -> None:
        """Start the synthesis and return. It ends with the calling thread. The Python of the functions is prepared
        first.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        named = function_python.named_in(self.repository / "clusters" / f"{SETTINGS}.yaml")
        interpreter = function_python.make_ready(named, self.say).interpreter
        context = {"cluster": SETTINGS, "interpreter": str(interpreter), **self.context}
        env = _environment({}) | {"CDK_OUTDIR": str(self._assembly), "CDK_CONTEXT_JSON": json.dumps(context)}
        self._synthesis = Program.start(
            "synth", [sys.executable, self.repository / "app.py"], log=self._log("synth"), cwd=self.repository, env=env
        )

    def synthesise(self) -> Path:
        """Return the folder of the synthesised app."""
        if self.synthesised is None:
            if self._synthesis is None:
                self.begin_synthesis()
            assert self._synthesis is not None
            self._finish(self._synthesis, "synthesising the app")
            self.synthesised = self._assembly
        return self.synthesised

    def deploy(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Deploy into the account of `environment`; return the outputs of the app's stacks by name."""
        began = time.monotonic()
        assembly = self.synthesise()
        self.say(function_python.of_assembly(assembly))
        outputs = self.root / "outputs.json"
        outputs.unlink(missing_ok=True)
        command = [
            self.repository / "node_modules" / ".bin" / "cdk",
            "deploy",
            "--all",
            "--app",
            assembly,
            "--outputs-file",
            outputs,
        ]
        command += ["--method", "direct", "--require-approval", "never", "--progress", "events", "--ci"]
        program = Program.start(
            "deploy", command, log=self._log("deploy"), cwd=self.repository, env=_environment(environment)
        )
        self._finish(program, "cdk deploy")
        self.say(f"deployed in {time.monotonic() - began:.1f} s")
        stacks: dict[str, dict[str, str]] = json.loads(outputs.read_text())
        return {name: value for values in stacks.values() for name, value in values.items()}

    @property
    def _assembly(self) -> Path:
        return self.root / "cdk.out"

    def _log(self, name: str) -> Path:
        return self.root / "log" / f"{name}.log"

    def _finish(self, program: Program, what: str) -> None:
        """Wait for the program, and report its last output every few seconds."""
        began = reported = time.monotonic()
        while (code := program.process.poll()) is None:
            if time.monotonic() - reported > REPORTED_EVERY:
                reported = time.monotonic()
                last = program.log.read_text(errors="replace").strip().rpartition("\n")[2]
                self.say(f"{what}: {reported - began:.0f} s  {last[:120]}")
            time.sleep(0.05)
        if code:
            output = program.log.read_text(errors="replace")[-6000:]
            raise DeploymentFailed(f"{what} ended with {code}:\n{output}\n(all of it: {program.log})")


def _environment(stack: Mapping[str, str]) -> dict[str, str]:
    """Return the CDK's environment: without the user's AWS settings, telemetry and banners; with Node and Python of
    this checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))}
    node = toolchains.find(toolchains.NODE, Path(sys.prefix))
    path = [str(Path(sys.prefix) / "bin"), *([str(node.parent)] if node else []), kept.get("PATH", "")]
    quiet = {
        "CDK_DISABLE_CLI_TELEMETRY": "1",
        "CDK_VALIDATION": "false",  # `make check` validates; here it would cost two seconds of every start
        "NODE_NO_WARNINGS": "1",
        "NO_COLOR": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    if node:
        major = subprocess.run(
            [node, "-p", "process.versions.node.split('.')[0]"], capture_output=True, text=True, check=True
        ).stdout.strip()
        quiet["JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION"] = major
    return kept | quiet | dict(stack) | {"PATH": os.pathsep.join(path)}
