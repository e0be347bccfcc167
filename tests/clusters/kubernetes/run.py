"""Scenarios in a real cluster; see ../kubernetes.sh."""

import argparse
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import image
from cluster import Cluster, sh, wait

DRIVER = "gpu.openmps.io"
SYSTEM = "openmps-system"
IMAGE = "localhost/openmps:0.2.0"
SAMPLES = "/usr/lib/openmps/samples"
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
CHART = os.path.join(ROOT, "deploy/helm/openmps")
SMS = 8
GPUS = 2

scenarios = []


def scenario(function):
    scenarios.append(function)
    return function


def claim_template(name, requests, config=(), constraints=()):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": devices(requests, config, constraints)},
    }


def devices(requests, config=(), constraints=()):
    """`requests`: name, class, capacities."""
    spec = {
        "devices": {
            "requests": [
                {"name": name, "exactly": {"deviceClassName": of, "capacity": {"requests": capacities}}}
                for name, of, capacities in requests
            ]
        }
    }
    if config:
        spec["devices"]["config"] = [
            {"opaque": {"driver": DRIVER, "parameters": {"apiVersion": f"{DRIVER}/v1alpha1", "kind": "ShareConfig", **fields}}}
            for fields in config
        ]
    if constraints:
        spec["devices"]["constraints"] = list(constraints)
    return spec


def share(sms, memory, of="openmps"):
    return [("gpu", of, {"sms": str(sms), "memory": memory})]


def pod(name, command, template=None, claim=None, user=None):
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    container = {
        "name": "program",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": command,
        "resources": {"claims": [{"name": "gpu"}]},
        # A tenant's pod: no user root, no capability, nothing to write to.
        "securityContext": {
            "runAsUser": user or 1000,
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        "env": [{"name": "HOME", "value": "/tmp"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "resourceClaims": [{"name": "gpu", **source}],
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }


def sample(name, *words):
    return [f"{SAMPLES}/{name}", *words]


class Run:
    def __init__(self, arguments):
        self.arguments = arguments
        self.figures = {}
        directory = tempfile.mkdtemp(prefix="omk.", dir="/tmp")
        self.cluster = Cluster(arguments.programs, directory, arguments.tools, arguments.nodes)
        self.get, self.kubectl = self.cluster.get, self.cluster.kubectl

    def make(self, *objects):
        self.cluster.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def phase(self, name):
        return self.get("pod", name)["status"].get("phase")

    def wait_phase(self, name, *phases, seconds=120):
        try:
            wait(f"pod {name} is {' or '.join(phases)}", lambda: self.phase(name) in phases, seconds)
        except RuntimeError as error:
            raise RuntimeError(f"{error}\n{self.kubectl('describe', 'pod', name, check=False)}") from None

    def result(self, name):
        """The last line of a pod's output, JSON, once it has ended well."""
        self.wait_phase(name, "Succeeded", "Failed", seconds=240)
        text = self.kubectl("logs", name)
        if self.phase(name) != "Succeeded":
            raise RuntimeError(f"pod {name} failed: {text}")
        return json.loads(text.strip().splitlines()[-1])

    def delete(self, kind, *names):
        self.kubectl("delete", kind, *names, "--wait=true", "--timeout=120s")

    def report(self, node=0):
        """What the daemon of a node says."""
        environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": self.cluster.nodes[node].path("pipe")}
        done = subprocess.run(
            [f"{self.arguments.dist}/bin/openmps", "ps", "--json"], capture_output=True, text=True, env=environment
        )
        return json.loads(done.stdout)

    def release(self, node):
        """The chart's release on a node."""
        return "openmps" if node.number == 1 else f"openmps{node.number}"

    def clients(self):
        """The programs of all nodes."""
        reports = [self.report(place) for place in range(len(self.cluster.nodes))]
        return [client for of in reports for server in of["servers"] for client in server["clients"]]

    def limits(self):
        """SMs and MiB of the programs that run, least first."""
        of = [client["limits"] for client in self.clients()]
        return sorted((limits["sms"], (limits["memory_bytes"] or 0) >> 20) for limits in of)

    def left(self):
        """Namespaces, specs and checkpoints of all nodes."""
        counts = [0, 0, 0]
        for node in self.cluster.nodes:
            shares = node.path("pipe/shared")
            places = (shares, node.path("cdi"), node.path(f"kubelet/plugins/{DRIVER}/checkpoints"))
            for place, folder in enumerate(places):
                names = os.listdir(folder) if os.path.isdir(folder) else []
                counts[place] += sum(place > 0 or bool(re.fullmatch("s[0-9a-f]{32}(_[0-9]+)?", of)) for of in names)
        return tuple(counts)

    def wait_empty(self):
        wait("nothing is left", lambda: self.left() == (0, 0, 0), 60)

    def processes(self, program):
        """PIDs of a program of this cluster's pods."""
        found = []
        for pid in [int(of) for of in os.listdir("/proc") if of.isdigit()]:
            try:
                words = open(f"/proc/{pid}/cmdline").read()
            except OSError:
                continue
            if f"/{program}\0" in words and self.cluster.directory in words:
                found.append(pid)
        return found

    def metrics(self):
        """The agents' metrics pages, one after the other."""
        text = ""
        for of in self.agents():
            node = next(node for node in self.cluster.nodes if node.name == of["spec"]["nodeName"])
            url = f"http://{of['status']['podIP']}:9410/metrics"
            at = f"nsenter --net=/run/netns/{node.namespace}"
            text += sh(f"{at} curl -sf {url}")
        return text

    def agents(self):
        return self.get("-n", SYSTEM, "pods", "-l", "app.kubernetes.io/component=agent")["items"]

    def rollout(self, *parts):
        """Waits until the pods of a DaemonSet are ready, those of its last template."""
        names = [f"{self.release(node)}-{part}" for part in parts for node in self.cluster.nodes]
        for name in names:

            def ready():
                of = self.get("-n", SYSTEM, "daemonset", name)
                status = of["status"]
                is_seen = status.get("observedGeneration") == of["metadata"]["generation"]
                counts = [status.get("numberReady", 0), status.get("updatedNumberScheduled", 0)]
                return is_seen and counts == [1, 1]

            try:
                wait(f"{name} is ready", ready, 180)
            except RuntimeError as error:
                told = self.kubectl("-n", SYSTEM, "get", "events", check=False)
                raise RuntimeError(f"{error}\n{told[-3000:]}") from None


def images(run):
    """The image of the installation, agent included, and the pause image."""
    directory = run.cluster.directory
    source = run.cluster.write("pause.c", "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n")
    pause = run.cluster.path("pause")
    sh(f"cc -static -O1 -o {pause} {source}")
    image.write(f"{directory}/pause.tar", "localhost/pause:1", {"/pause": pause}, command=["/pause"])
    archive = run.arguments.image
    if not archive:
        archive = f"{directory}/openmps.tar"
        files, links = image.tree(run.arguments.dist, "/usr")
        files = {inside: path for inside, path in files.items() if not inside.startswith("/usr/share")}
        files["/usr/bin/openmps-k8s"] = run.arguments.agent
        image.write(archive, IMAGE, files, links)
    for node in run.cluster.nodes:
        node.load(f"{directory}/pause.tar")
        node.load(archive)


def install(run):
    """A release of the chart for each node: all nodes are one machine here, and each has directories of its own."""
    began = time.time()
    for node in run.cluster.nodes:
        values = {
            "image": {"repository": "localhost/openmps", "tag": "0.2.0", "pullPolicy": "Never"},
            "provider": "soft",
            "host": {
                "pipeDirectory": node.path("pipe"),
                "libraries": node.path("lib"),
                "kubeletDirectory": node.path("kubelet"),
                "cdiDirectory": node.path("cdi"),
            },
            "server": {
                "nodeSelector": {"kubernetes.io/hostname": node.name},
                "env": [
                    {"name": "OPENMPS_SOFT_SMS", "value": str(SMS)},
                    {"name": "OPENMPS_SOFT_DEVICES", "value": str(GPUS)},
                    {"name": "OPENMPS_SOFT_MEMORY", "value": "1G"},
                ],
            },
            "agent": {
                "nodeSelector": {"kubernetes.io/hostname": node.name},
                "intervalSeconds": 1,
                "logCalls": True,
            },
            "admission": {"latencyNamespaceLabel": "openmps.io/latency"},
        }
        if node.number > 1:
            values["deviceClasses"] = []
        path = run.cluster.write(f"values{node.number}.json", json.dumps(values))
        name = run.release(node)
        run.cluster.helm("install", name, CHART, "-n", SYSTEM, "--create-namespace", "-f", path)
    run.rollout("server", "agent")
    wait("the slices are there", lambda: len(run.get("resourceslices")["items"]) == len(run.cluster.nodes))
    run.figures["installed after helm install, s"] = round(time.time() - began, 1)


@scenario
def unequal_shares(run):
    """Three pods with 2, 5 and 4 of 8 SMs on one GPU (all ask for the first): two run, the third waits for its place."""
    first = run.get("resourceslices")["items"][0]["spec"]["devices"][0]["name"]
    templates = []
    for name, sms, memory in (("small", 2, "128Mi"), ("large", 5, "512Mi"), ("late", 4, "128Mi")):
        template = claim_template(name, share(sms, memory))
        request = template["spec"]["spec"]["devices"]["requests"][0]["exactly"]
        uuid = f"device.attributes['{DRIVER}'].uuid.startsWith('GPU-{first[4:]}')"
        request["selectors"] = [{"cel": {"expression": uuid}}]
        templates.append(template)
    run.make(*templates)
    command = sample("vector_add", "--size", "200000", "--seconds", "15", "--json")
    run.make(pod("small", command, "small"), pod("large", command, "large"))
    run.wait_phase("small", "Running")
    run.wait_phase("large", "Running")
    wait("both are clients", lambda: len(run.clients()) == 2)
    assert run.limits() == [(2, 128), (5, 512)], run.limits()
    run.make(pod("late", command, "late"))

    def told():
        conditions = run.get("pod", "late")["status"].get("conditions", [])
        return any("cannot allocate all claims" in of.get("message", "") for of in conditions)

    wait("the third pod waits for its share", told)
    for name in ("small", "large", "late"):
        assert run.result(name)["verified"] is True
    run.delete("pod", "small", "large", "late")
    run.delete("resourceclaimtemplate", "small", "large", "late")
    run.wait_empty()


@scenario
def the_page_for_operators(run):
    """The file with two pods in docs/kubernetes.md, as it stands but for the registry, and the page's commands."""
    page = open(os.path.join(ROOT, "docs/kubernetes.md")).read()
    block = next(of for of in re.findall(r"```yaml\n(.*?)```", page, re.S) if "kind: Pod" in of)
    run.cluster.apply(block.replace("registry.example.com/openmps:0.2.0", IMAGE))
    run.wait_phase("small", "Running")
    run.wait_phase("large", "Running")
    wait("both are clients", lambda: run.limits() == [(2, 128), (5, 512)])
    command = next(line for line in page.splitlines() if line.startswith("$ kubectl annotate resourceclaim "))
    claim = run.get("pod", "small")["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    annotation = command.split("'")[1]
    run.kubectl("annotate", "resourceclaim", claim, annotation)
    wait("the small one is smaller", lambda: run.limits() == [(1, 64), (5, 512)])
    served = run.kubectl("get", "resourceclaims", "-o", "jsonpath={.items[*].status.devices[*].data}")
    assert '"sms":5' in served, served
    for name in ("small", "large"):
        assert run.result(name)["verified"] is True
    run.delete("pod", "small", "large")
    run.delete("resourceclaimtemplate", "small", "large")
    run.wait_empty()


@scenario
def shares_of_several_nodes(run):
    """Pods that each want a whole GPU are on all GPUs of all nodes; one more waits."""
    if run.cluster.minor < 35:
        # It compares what a share asks for with what the first device of a node has left.
        return "the scheduler of 1.34 gives no share of a second GPU where the first is full"
    count = GPUS * len(run.cluster.nodes)
    run.make(claim_template("whole", [("gpu", "openmps", {})]))
    command = sample("vector_add", "--size", "200000", "--seconds", "20", "--json")
    run.make(*[pod(f"whole{number}", command, "whole") for number in range(count + 1)])

    def running():
        pods = [run.get("pod", f"whole{number}") for number in range(count + 1)]
        return [of for of in pods if of["status"].get("phase") == "Running"]

    wait("all GPUs are in use", lambda: len(running()) == count and len(run.clients()) == count)
    nodes = [of["spec"]["nodeName"] for of in running()]
    assert all(nodes.count(node.name) == GPUS for node in run.cluster.nodes), nodes
    assert run.limits() == [(SMS, 1024)] * count, run.limits()
    for number in range(count + 1):
        assert run.result(f"whole{number}")["verified"] is True
    run.delete("pod", *[f"whole{number}" for number in range(count + 1)])
    run.wait_empty()


@scenario
def memory_is_limited(run):
    """A program takes all the memory that it can get: its share and no more."""
    run.make(claim_template("memory", share(2, "256Mi")))
    run.make(pod("memory", sample("memory", "--way", "cuMemAlloc", "--json"), "memory"))
    got = run.result("memory")["rows"][0]["got_mib"]
    assert 192 < got <= 256, got
    run.figures["memory of a 256 MiB share, MiB"] = got
    run.delete("pod", "memory")
    run.wait_empty()


@scenario
def sms_are_limited(run):
    """The software GPU's own counters: SMs that a program of 2 and one of 6 SMs have used on average while alone."""
    used = {}
    for sms in (2, 6):
        name = f"sms{sms}"
        run.make(claim_template(name, share(sms, "256Mi")))
        run.make(pod(name, sample("spin", "--blocks", "8", "--work", "300000", "--seconds", "10", "--json"), name))
        run.wait_phase(name, "Running")
        works = []

        def has_worked():
            works[:] = [of["work"] for of in run.clients() if of.get("work")]
            return works and works[0]["busy_ns"] > 500_000_000

        wait("it works", has_worked, 60)
        work = works[0]
        used[sms] = work["sm_active_ns"] / work["busy_ns"]
        assert run.result(name)["verified"] is True
        run.delete("pod", name)
    # Eight blocks that each keep an SM busy have all SMs of the share and no other.
    assert 1.5 < used[2] <= 2.01 and 4.5 < used[6] <= 6.01, used
    run.figures["SMs active at once, share of 2 and of 6"] = [round(used[2], 2), round(used[6], 2)]
    run.wait_empty()


@scenario
def two_gpus_in_one_pod(run):
    both = [("one", "openmps", {"sms": "4", "memory": "256Mi"}), ("two", "openmps", {"sms": "2", "memory": "512Mi"})]
    distinct = [{"requests": ["one", "two"], "distinctAttribute": f"{DRIVER}/uuid"}]
    run.make(claim_template("pair", both, constraints=distinct))
    run.make(pod("pair", sample("peers", "--devices", "2", "--json"), "pair"))
    assert run.result("pair")["verified"] is True
    run.delete("pod", "pair")
    run.wait_empty()


@scenario
def one_claim_of_two_pods(run):
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "common"}}
    run.make({**claim, "spec": devices(share(3, "256Mi"))})
    command = sample("vector_add", "--size", "200000", "--seconds", "10", "--json")
    run.make(pod("one", command, claim="common", user=1000), pod("two", command, claim="common", user=2000))
    run.wait_phase("one", "Running")
    run.wait_phase("two", "Running")
    wait("both are clients", lambda: len(run.clients()) == 2)
    assert len({client["mps_namespace"] for client in run.clients()}) == 1
    # With the last pod's end the allocation goes, and with it what was served.
    served = run.get("resourceclaim", "common")["status"].get("devices")
    assert all(run.result(name)["verified"] is True for name in ("one", "two"))
    run.delete("pod", "one", "two")
    run.delete("resourceclaim", "common")
    run.wait_empty()
    assert served and served[0]["data"]["sms"] == 3, served


@scenario
def a_claim_is_resized(run):
    run.make(claim_template("resize", share(6, "512Mi")))
    run.make(pod("resize", sample("vector_add", "--size", "200000", "--seconds", "20", "--json"), "resize"))
    run.wait_phase("resize", "Running")
    wait("it is a client", lambda: run.limits() == [(6, 512)])
    claim = run.get("pod", "resize")["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    run.kubectl("annotate", "resourceclaim", claim, f'{DRIVER}/share={{"sms": 3, "memory": "256Mi"}}')
    began = time.time()
    wait("it has less", lambda: run.limits() == [(3, 256)])
    run.figures["resize by annotation, s"] = round(time.time() - began, 1)
    assert run.result("resize")["verified"] is True
    run.delete("pod", "resize")
    run.wait_empty()


@scenario
def wrong_parameters_are_told(run):
    """Unknown fields and classes: an event of the claim, and the pod does not start."""
    for name, fields, part in (("colour", {"colour": "red"}, '"colour" is no field'), ("urgent", {"class": "urgent"}, '"urgent" is no class')):
        run.make(claim_template(name, share(2, "128Mi"), config=[fields]))
        run.make(pod(name, sample("vector_add"), name))

        def told():
            events = run.get("events", "--field-selector=reason=Refused")["items"]
            return any(part in event["message"] for event in events)

        wait("an event says so", told)
        assert run.phase(name) == "Pending"
        run.delete("pod", name)
    # More than any GPU has.
    run.make(claim_template("beyond", share(9, "128Mi")), pod("beyond", sample("vector_add"), "beyond"))
    time.sleep(3)
    assert run.phase("beyond") == "Pending"
    run.delete("pod", "beyond")
    run.wait_empty()


@scenario
def admission_keeps_to_its_rules(run):
    """Class latency in labelled namespaces only; an agent writes its own node's slice only."""
    latency = json.dumps(claim_template("admitted", share(2, "128Mi", "openmps-latency")))
    try:
        run.cluster.apply(latency)
        raise AssertionError("class latency was taken in a namespace without the label")
    except RuntimeError as error:
        assert "openmps.io/latency=true" in str(error), error
    run.kubectl("label", "namespace", "default", "openmps.io/latency=true")
    run.cluster.apply(latency)
    run.kubectl("label", "namespace", "default", "openmps.io/latency-")
    account = f"system:serviceaccount:{SYSTEM}:openmps-agent"
    slice_name = run.get("resourceslices")["items"][0]["metadata"]["name"]
    for extra in ([], ["--as-user-extra=authentication.kubernetes.io/node-name=node9"]):
        done = run.kubectl("delete", "resourceslice", slice_name, f"--as={account}", *extra, check=False)
        assert "deleted" not in done, done
    assert run.get("resourceslices")["items"][0]["metadata"]["name"] == slice_name


@scenario
def the_agent_and_the_server_are_killed(run):
    """Pods go on, new ones come, nothing is left."""
    run.make(claim_template("kill", share(2, "128Mi")))
    command = sample("vector_add", "--size", "200000", "--seconds", "30", "--json")
    run.make(pod("before", command, "kill"))
    run.wait_phase("before", "Running")
    wait("it is a client", lambda: len(run.clients()) == 1)
    run.make(pod("during", sample("vector_add", "--json"), "kill"))
    for agent in run.processes("openmps-k8s"):
        os.kill(agent, signal.SIGKILL)
    server = run.report()["servers"][0]["pid"]
    sh(f"kill -9 {server}")
    assert run.result("during")["verified"] is True
    assert run.result("before")["verified"] is True
    run.delete("pod", "before", "during")
    run.rollout("agent")
    run.wait_empty()


@scenario
def the_agent_is_replaced(run):
    """A rolling update: the next agent comes before the last one goes."""
    run.make(claim_template("roll", share(2, "128Mi")))
    run.kubectl("-n", SYSTEM, "rollout", "restart", "daemonset/openmps-agent")
    for number in range(6):
        run.make(pod(f"roll{number}", sample("vector_add", "--json"), "roll"))
    assert all(run.result(f"roll{number}")["verified"] is True for number in range(6))
    run.rollout("agent")
    run.delete("pod", *[f"roll{number}" for number in range(6)])
    run.wait_empty()


@scenario
def two_hundred_pods_come_and_go(run):
    run.make(claim_template("churn", share(1, "64Mi")))
    spec = pod("x", sample("vector_add", "--size", "1000", "--json"), "churn")["spec"]
    job = {"parallelism": 8, "completions": run.arguments.pods, "backoffLimit": 5, "template": {"spec": spec}}
    began = time.time()
    run.make({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "churn"}, "spec": job})

    def done():
        return run.get("job", "churn")["status"].get("succeeded", 0) == run.arguments.pods

    def seconds():
        return sum(float(of) for of in re.findall(r"openmps_k8s_prepare_seconds_sum (\S+)", run.metrics()))

    before = seconds()
    wait("all pods have computed", done, 1800)
    run.figures[f"{run.arguments.pods} pods of a job, s"] = round(time.time() - began)
    prepared = seconds() - before
    pods = run.get("pods", "-l", "job-name=churn")["items"]
    pending = sum(started(of) - at(of["metadata"]["creationTimestamp"]) for of in pods)
    run.figures["agent's part of the way from pending to running, %"] = round(100 * prepared / pending, 2)
    assert prepared < 0.1 * pending, (prepared, pending)
    page = run.metrics()
    buckets = re.findall(r'openmps_k8s_prepare_seconds_bucket\{le="([^"]+)"\} (\d+)', page)
    total = int(buckets[-1][1])
    p99 = next(bound for bound, count in buckets if int(count) >= 0.99 * total)
    run.figures["prepare p99 at most, s (with the claim's GET)"] = p99
    run.figures["prepares"] = total
    run.delete("job", "churn")
    run.wait_empty()


def at(stamp):
    """Seconds since 1970 of the API's time."""
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def started(of):
    """When the container of a pod that has ended began."""
    return at(of["status"]["containerStatuses"][0]["state"]["terminated"]["startedAt"])


def normalised(value):
    """UIDs, times and addresses as words, so that two runs are compared."""
    text = json.dumps(value, indent=1, sort_keys=True)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID", text)
    text = re.sub(r'"s[0-9a-f]{32}', '"sID', text)
    text = re.sub(r"=s[0-9a-f]{32}", "=sID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME", text)
    text = re.sub(r'"resourceVersion": "\d+"', '"resourceVersion": "N"', text)
    text = re.sub(r"/tmp/omk\.[^/\"]+", "/RUN", text)
    return re.sub(r"gold-gpu-[a-z0-9]+", "gold-gpu-x", text)


def record(run):
    """Objects and the kubelet's calls, for the simulators."""
    run.make(claim_template("gold", share(2, "128Mi"), config=[{"class": "batch", "limitSms": 4}]))
    run.make(pod("gold", sample("vector_add", "--seconds", "5", "--json"), "gold"))
    run.wait_phase("gold", "Running")
    claim = run.get("pod", "gold")["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    wait("the status is there", lambda: "devices" in run.get("resourceclaim", claim)["status"])
    objects = {"claim": run.get("resourceclaim", claim), "slice": run.get("resourceslices")["items"][0]}
    uid = objects["claim"]["metadata"]["uid"]
    run.result("gold")
    run.delete("pod", "gold")
    run.wait_empty()
    calls = []
    for agent in run.agents():
        for line in run.kubectl("-n", SYSTEM, "logs", agent["metadata"]["name"]).splitlines():
            if '"call"' in line:
                call = json.loads(line[line.index("{") :])
                if uid in line or call["call"] == "GetInfo":
                    calls.append(call)
    objects["calls"] = calls
    minor = ".".join(os.path.basename(run.arguments.programs).split(".")[:2])
    folder = os.path.join(HERE, "golden", minor)
    for name, value in objects.items():
        if isinstance(value, dict):
            value["metadata"].pop("managedFields", None)
        text = normalised(value) + "\n"
        path = os.path.join(folder, f"{name}.json")
        if run.arguments.bless:
            os.makedirs(folder, exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
        elif not os.path.exists(path) or open(path).read() != text:
            print(f"note: {name} is not as in {path}; --bless writes it", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--dist", required=True)
    parser.add_argument("--agent", required=True)
    parser.add_argument("--tools", required=True)
    parser.add_argument("--image", help="archive of cargo xtask package oci")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--pods", type=int, default=200, help="pods that come and go")
    parser.add_argument("--only", default="", help="names of scenarios, with commas")
    parser.add_argument("--bless", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running after the scenarios")
    arguments = parser.parse_args()
    arguments.dist = os.path.realpath(arguments.dist)
    run = Run(arguments)
    failed = []
    wanted = [of for of in arguments.only.split(",") if of]
    try:
        began = time.time()
        run.cluster.start()
        images(run)
        run.cluster.wait_for_nodes()
        run.figures["nodes ready after the start, s"] = round(time.time() - began, 1)
        install(run)
        for function in scenarios:
            if wanted and function.__name__ not in wanted:
                continue
            began = time.time()
            try:
                skipped = function(run)
                word, why = ("skipped", f": {skipped}") if skipped else ("ok     ", "")
                print(f"{word} {function.__name__} ({time.time() - began:.0f} s){why}", flush=True)
            except Exception as error:  # one scenario's end is not the others'
                failed.append(function.__name__)
                print(f"FAILED  {function.__name__}: {error!r}", flush=True)
                run.kubectl("delete", "pods,jobs", "--all", "--force", "--grace-period=0", check=False)
        if not wanted or "record" in wanted:
            record(run)
        print(json.dumps(run.figures, indent=1))
    except (RuntimeError, AssertionError) as error:
        failed.append("the cluster")
        print(f"FAILED  {error}")
    finally:
        if arguments.keep or failed:
            print(f"logs: {run.cluster.directory}/log")
        if arguments.keep:
            at = f"nsenter --net=/run/netns/{run.cluster.prefix}-0 {run.cluster.tools}"
            print(f"{at}/kubectl --kubeconfig={run.cluster.path('admin.conf')} get pods -A; end with Ctrl-C")
            try:
                while True:
                    time.sleep(60)
            except KeyboardInterrupt:
                pass
        run.cluster.stop()
        if not failed:
            shutil.rmtree(run.cluster.directory, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
