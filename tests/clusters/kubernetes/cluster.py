"""A Kubernetes cluster of real programs: a control plane and nodes, each in a network namespace of its own."""

import json
import os
import shutil
import signal
import subprocess
import time

PLANE = "10.99.0.1"
SERVICES = "10.96.0.0/24"
API = "10.96.0.1"
PORT = 6443


def sh(command, check=True):
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def runc(programs):
    """The system's, which has seccomp; that of a module build without its C library has not."""
    return shutil.which("runc") or f"{programs}/runc"


class Cluster:
    """Its files are below `directory`, whose path is short: sockets lie there."""

    def __init__(self, programs, directory, tools, nodes=1):
        self.programs, self.directory = os.path.realpath(programs), directory
        self.tools = os.path.realpath(tools)
        self.prefix = f"omk{os.getpid() % 10000}"
        self.processes = []
        # Namespaces of pods are made by containerd, which is not asked to remove them.
        self.others = set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set()
        self.nodes = [Node(self, number) for number in range(1, nodes + 1)]

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def start_process(self, name, namespace, command, environment=None):
        os.makedirs(self.path("log"), exist_ok=True)
        log = open(self.path(f"log/{name}.log"), "ab")
        command = ["nsenter", f"--net=/run/netns/{namespace}"] + command
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}", **(environment or {})},
        )
        self.processes.append((name, process))
        return process

    def kubectl(self, *words, check=True, stdin=None):
        command = ["nsenter", f"--net=/run/netns/{self.prefix}-0", f"{self.tools}/kubectl"]
        command += [f"--kubeconfig={self.path('admin.conf')}", *words]
        done = subprocess.run(command, capture_output=True, text=True, input=stdin)
        if check and done.returncode:
            raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def apply(self, text):
        return self.kubectl("apply", "-f", "-", stdin=text)

    def helm(self, *words):
        command = ["nsenter", f"--net=/run/netns/{self.prefix}-0", f"{self.tools}/helm"]
        command += [f"--kubeconfig={self.path('admin.conf')}", *words]
        home = {key: self.path("helm") for key in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **home})
        if done.returncode:
            raise RuntimeError(f"helm {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def network(self):
        """A bridge in the control plane's namespace; each node is at the end of a veth pair."""
        plane = f"{self.prefix}-0"
        inside = f"nsenter --net=/run/netns/{plane}"
        sh(f"ip netns add {plane}")
        sh(f"{inside} ip link set lo up && {inside} ip link add br0 type bridge")
        sh(f"{inside} ip addr add {PLANE}/24 dev br0 && {inside} ip link set br0 up")
        self.service(plane)
        for node in self.nodes:
            name, link = node.namespace, f"v{node.number}"
            at = f"nsenter --net=/run/netns/{name}"
            sh(f"ip netns add {name} && {at} ip link set lo up")
            sh(f"{inside} ip link add {link} type veth peer name eth0 netns /run/netns/{name}")
            sh(f"{inside} ip link set {link} master br0 up")
            sh(f"{at} ip addr add {node.address}/24 dev eth0 && {at} ip link set eth0 up")
            sh(f"{at} ip route add default via {PLANE}")
            sh(f"{at} sysctl -qw net.ipv4.ip_forward=1", check=False)
            self.service(name)

    def service(self, namespace):
        """There is no kube-proxy: the service of the API server is one rule."""
        at = f"nsenter --net=/run/netns/{namespace} iptables -t nat"
        for chain in ("PREROUTING", "OUTPUT"):
            sh(f"{at} -A {chain} -d {API} -p tcp --dport 443 -j DNAT --to-destination {PLANE}:{PORT}")

    def certificates(self):
        os.makedirs(self.path("pki"), exist_ok=True)
        at = f"cd {self.path('pki')} &&"
        sh(f"{at} openssl genrsa -out sa.key 2048 && openssl rsa -in sa.key -pubout -out sa.pub")
        sh(f"{at} openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=ca -keyout ca.key -out ca.crt")
        self.write("pki/san", f"subjectAltName=IP:127.0.0.1,IP:{API},IP:{PLANE},DNS:localhost,DNS:kubernetes.default.svc")
        for name, subject in (("api", "/CN=apiserver"), ("kubelet-client", "/O=system:masters/CN=apiserver-kubelet")):
            sh(f"{at} openssl req -newkey rsa:2048 -nodes -subj {subject} -keyout {name}.key -out {name}.csr")
            sh(
                f"{at} openssl x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out {name}.crt"
                + (" -extfile san" if name == "api" else "")
            )

    def kubeconfig(self, name):
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "c", "cluster": {"server": f"https://{PLANE}:{PORT}", "certificate-authority": self.path("pki/ca.crt")}}
            ],
            "users": [{"name": "u", "user": {"token": name}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        return self.write(f"{name}.conf", json.dumps(config))

    def start(self):
        self.network()
        self.certificates()
        users = ["admin,admin,1,system:masters", "scheduler,system:kube-scheduler,2", "manager,system:kube-controller-manager,3"]
        users += [f"{node.name},system:node:{node.name},n{node.number},system:nodes" for node in self.nodes]
        self.write("tokens.csv", "\n".join(users) + "\n")
        for name in ["admin", "scheduler", "manager"] + [node.name for node in self.nodes]:
            self.kubeconfig(name)
        plane = f"{self.prefix}-0"
        here, pki = self.programs, self.path("pki")
        etcd = "http://127.0.0.1:2379"
        peers = "http://127.0.0.1:2380"
        self.start_process(
            "etcd",
            plane,
            ["etcd", "--data-dir", self.path("etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd]
            + ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
            + ["--initial-cluster", f"default={peers}", "--unsafe-no-fsync"],
        )
        self.start_process(
            "apiserver",
            plane,
            [f"{here}/kube-apiserver", f"--etcd-servers={etcd}", f"--secure-port={PORT}", f"--bind-address={PLANE}"]
            + [f"--advertise-address={PLANE}", f"--tls-cert-file={pki}/api.crt", f"--tls-private-key-file={pki}/api.key"]
            + [f"--client-ca-file={pki}/ca.crt", f"--token-auth-file={self.path('tokens.csv')}"]
            + [f"--service-account-key-file={pki}/sa.pub", f"--service-account-signing-key-file={pki}/sa.key"]
            + ["--service-account-issuer=https://kubernetes.default.svc", f"--service-cluster-ip-range={SERVICES}"]
            + ["--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true"]
            + [f"--cert-dir={pki}", "--endpoint-reconciler-type=none"]
            + [f"--kubelet-client-certificate={pki}/kubelet-client.crt", f"--kubelet-client-key={pki}/kubelet-client.key"]
            + ["--kubelet-preferred-address-types=InternalIP"]
            + self.gates(),
        )
        wait("the API server is ready", lambda: self.kubectl("get", "--raw", "/readyz", check=False) == "ok", 180)
        self.start_process(
            "manager",
            plane,
            [f"{here}/kube-controller-manager", f"--kubeconfig={self.path('manager.conf')}"]
            + [f"--service-account-private-key-file={pki}/sa.key", f"--root-ca-file={pki}/ca.crt"]
            + ["--use-service-account-credentials=true", "--leader-elect=false", f"--cert-dir={pki}"]
            + [f"--authentication-kubeconfig={self.path('manager.conf')}"]
            + [f"--authorization-kubeconfig={self.path('manager.conf')}"]
            + self.gates(),
        )
        self.start_process(
            "scheduler",
            plane,
            [f"{here}/kube-scheduler", f"--kubeconfig={self.path('scheduler.conf')}", "--leader-elect=false"]
            + [f"--authentication-kubeconfig={self.path('scheduler.conf')}"]
            + [f"--authorization-kubeconfig={self.path('scheduler.conf')}", f"--cert-dir={pki}"]
            + self.gates(),
        )
        for node in self.nodes:
            node.start()

    @property
    def minor(self):
        """N of Kubernetes 1.N."""
        return int(os.path.basename(self.programs).split(".")[1])

    def gates(self):
        """Before 1.36 shares of a device are behind a gate."""
        return [] if self.minor >= 36 else ["--feature-gates=DRAConsumableCapacity=true"]

    def wait_for_nodes(self):
        def ready():
            nodes = self.get("nodes")["items"]
            good = [
                node
                for node in nodes
                for condition in node["status"].get("conditions", [])
                if condition["type"] == "Ready" and condition["status"] == "True"
            ]
            return len(good) == len(self.nodes)

        wait("all nodes are ready", ready, 180)

    def stop(self):
        for _, process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.time() + 5
        for _, process in self.processes:
            try:
                process.wait(max(0.1, deadline - time.time()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        # Containers that are left: their shims have the directory on their command lines.
        for pid in [of for of in os.listdir("/proc") if of.isdigit()]:
            try:
                line = open(f"/proc/{pid}/cmdline").read()
            except OSError:
                continue
            if "containerd-shim-runc-v2" in line and self.directory in line:
                children = sh(f"ps -o pid= --ppid {pid}", check=False).split()
                for child in [*children, pid]:
                    sh(f"kill -9 {child}", check=False)
        time.sleep(0.5)
        for node in self.nodes[1:]:
            for controller in os.listdir("/sys/fs/cgroup"):
                sh(f"find /sys/fs/cgroup/{controller}/{self.prefix}-{node.number} -depth -type d -exec rmdir {{}} +", check=False)
        mounts = [line.split()[1] for line in open("/proc/mounts") if f" {self.directory}/" in line]
        for mount in sorted(mounts, reverse=True):
            sh(f"umount -l {mount}", check=False)
        of_pods = [name for name in set(os.listdir("/run/netns")) - self.others if name.startswith("cni-")]
        for name in [node.namespace for node in self.nodes] + [f"{self.prefix}-0"] + of_pods:
            sh(f"ip netns del {name}", check=False)


class Node:
    def __init__(self, cluster, number):
        self.cluster, self.number = cluster, number
        self.name, self.namespace = f"node{number}", f"{cluster.prefix}-{number}"
        self.address = f"10.99.0.{10 + number}"

    def path(self, name=""):
        return self.cluster.path(f"n{self.number}/{name}").rstrip("/")

    def socket(self):
        return self.path("containerd/sock")

    def start(self):
        cluster = self.cluster
        for folder in ("containerd", "kubelet/pods", "cdi", "cni", "logs"):
            os.makedirs(self.path(folder), exist_ok=True)
        network = {
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "ptp",
                    "ipMasq": True,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": self.path("addresses"),
                        "ranges": [[{"subnet": f"10.88.{self.number}.0/24"}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                }
            ],
        }
        cluster.write(f"n{self.number}/cni/10-pods.conflist", json.dumps(network))
        config = f"""version = 3
root = "{self.path('containerd/root')}"
state = "{self.path('containerd/state')}"
[grpc]
  address = "{self.socket()}"
[ttrpc]
  address = "{self.socket()}.ttrpc"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "localhost/pause:1"
[plugins.'io.containerd.cri.v1.runtime']
  # Who has no CAP_SYS_RESOURCE cannot lower it.
  restrict_oom_score_adj = true
  enable_cdi = true
  cdi_spec_dirs = ["{self.path('cdi')}"]
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{self.path('cni')}"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = "{runc(cluster.programs)}"
      SystemdCgroup = false
"""
        containerd = cluster.write(f"n{self.number}/containerd.toml", config)
        cluster.start_process(f"containerd{self.number}", self.namespace, [f"{cluster.programs}/containerd", "-c", containerd])
        wait("containerd listens", lambda: os.path.exists(self.socket()), 60)
        kubelet = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "enforceNodeAllocatable": [],
            "containerRuntimeEndpoint": f"unix://{self.socket()}",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": cluster.path("pki/ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "failSwapOn": False,
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "resolvConf": "/etc/resolv.conf",
            "clusterDNS": ["10.96.0.10"],
            "podLogsDir": self.path("logs"),
            "maxPods": 250,
            "kubeAPIQPS": 100,
            "kubeAPIBurst": 200,
        }
        if self.number > 1:
            root = f"/{cluster.prefix}-{self.number}"
            for controller in os.listdir("/sys/fs/cgroup"):
                if os.path.isdir(f"/sys/fs/cgroup/{controller}"):
                    os.makedirs(f"/sys/fs/cgroup/{controller}{root}", exist_ok=True)
            kubelet["cgroupRoot"] = root
        gates = cluster.gates()
        if gates:
            kubelet["featureGates"] = {"DRAConsumableCapacity": True}
        config = cluster.write(f"n{self.number}/kubelet.json", json.dumps(kubelet))
        self.config = config
        self.start_kubelet()

    def start_kubelet(self):
        cluster = self.cluster
        self.kubelet = cluster.start_process(
            f"kubelet{self.number}",
            self.namespace,
            [f"{cluster.programs}/kubelet", f"--config={self.config}", f"--kubeconfig={cluster.path(self.name + '.conf')}"]
            + [f"--hostname-override={self.name}", f"--root-dir={self.path('kubelet')}"]
            + [f"--cert-dir={self.path('pki')}", f"--node-ip={self.address}"],
        )

    def load(self, archive):
        """Imports an image."""
        done = subprocess.run(
            [f"{self.cluster.programs}/ctr", "-a", self.socket(), "-n", "k8s.io", "images", "import", archive],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"loading {archive}: {done.stderr}")


def wait(what, condition, seconds=120):
    """Waits until a condition holds, which is not an error meanwhile."""
    deadline = time.time() + seconds
    why = ""
    while time.time() < deadline:
        try:
            if condition():
                return
        except (RuntimeError, KeyError, IndexError, ValueError) as error:
            why = str(error)
        time.sleep(0.2)
    raise RuntimeError(f"in vain for {seconds} s: {what} {why}")
