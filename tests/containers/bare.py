# SPDX-License-Identifier: Apache-2.0
"""
Containers of a bare runtime, without an engine: `crun run`, with Cordon's hooks in config.json as podman and CRI-O write them
there. Their command is tests/containers/first.c, which attacks before anything else of it runs.
"""
import json
import os
import shutil
import subprocess

from guest import Listener, workdir

BUILD = os.path.abspath(os.path.dirname(os.path.abspath(__file__)) + "/../../build")
FREE, FENCED = "write 0 connect 0 inside 0", "write 30 connect 1 inside 0"  # EROFS, EPERM
RUN_S = 300


def sh(*command, timeout=RUN_S, **kw):
    """Its code, stdout and stderr."""
    kw.setdefault("stdin", subprocess.DEVNULL)
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout, check=False, **kw)
    return p.returncode, p.stdout.strip(), p.stderr.strip()


class Bare:
    """A runtime and its bundle. policies: where the hook looks for policies."""

    def __init__(self, runtime, policies="/etc/cordon/policies"):
        self.name = f"{runtime} alone"
        self.runtime, self.policies = runtime, policies
        self.bundle = workdir(f"bundle-{runtime}")
        self.volume = workdir(f"volume-{runtime}")
        self.listener = Listener()
        self.n = 0
        shutil.copytree("/usr/share/cordon-vm/busybox", f"{self.bundle}/rootfs", symlinks=True)
        subprocess.run([runtime, "spec"], cwd=self.bundle, check=True)
        with open(f"{self.bundle}/config.json", encoding="utf-8") as f:
            self.spec = json.load(f)

    def policy(self, policy, **more):
        return {f"dev.cordon.{key}": value for key, value in {"policy": policy, **more}.items()}

    def start(self, *annotations):
        """A one-shot container: its code, what its command printed, the runtime's words; and whether it got out."""
        self.n += 1
        outside, reached = f"{self.volume}/out-{self.n}", self.listener.accepted()
        spec = json.loads(json.dumps(self.spec))
        spec["process"].update(terminal=False, args=["/t/first", f"/vol/out-{self.n}", str(self.listener.port), f"/work/in-{self.n}"])
        spec["root"]["readonly"] = False
        spec["mounts"] += [{"destination": to, "source": source, "type": "bind", "options": ["bind", "rw"]}
                           for to, source in (("/t", f"{BUILD}/tests/containers"), ("/vol", self.volume))]
        spec["linux"]["namespaces"] = [n for n in spec["linux"]["namespaces"] if n["type"] not in ("network", "user")]
        spec["linux"]["cgroupsPath"] = f"/bare/{self.runtime}-{self.n}"
        if annotations:
            spec["annotations"] = dict(annotations[0])
            spec["hooks"] = {stage: [{"path": f"{BUILD}/cordon", "args": ["cordon", "oci-hook", "--policies", self.policies, stage]}]
                             for stage in ("createRuntime", "poststop")}
        with open(f"{self.bundle}/config.json", "w", encoding="utf-8") as f:
            json.dump(spec, f)
        manager = ["--cgroup-manager=cgroupfs"] if self.runtime == "crun" else []
        got = sh(self.runtime, *manager, "run", "--bundle", self.bundle, f"{self.runtime}-{self.n:056d}")
        return got, os.path.exists(outside) or self.listener.accepted() != reached
