"""Prometheus as Debian packages it, scraping `openmps web`, and the board for Grafana asked of it."""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

BOARD = Path(__file__).resolve().parents[2] / "docs/observe/grafana.json"
# A scrape asks the daemon twice, and the programs have all processors: one that takes longer than its timeout
# fails, and ends all series until the next one.
CONFIGURATION = """
global: {{ scrape_interval: 5s, scrape_timeout: 5s }}
scrape_configs:
  - job_name: openmps
    authorization: {{ credentials: {token} }}
    static_configs: [{{ targets: ["{target}"] }}]
"""
READY_SECONDS_MAX = 120
ANSWER_SECONDS_MAX = 30


def board_expressions():
    for panel in json.loads(BOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Prometheus:
    """One that runs in a directory of its own; ended on exit."""

    def __init__(self, directory, target, token):
        self.directory, self.port = directory, free_port()
        (directory / "prometheus.yml").write_text(CONFIGURATION.format(target=target, token=token))

    def __enter__(self):
        checked = subprocess.run(["promtool", "check", "config", self.directory / "prometheus.yml"],
                                 capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        self.log = open(self.directory / "prometheus.log", "w")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={self.directory}/prometheus.yml",
             f"--storage.tsdb.path={self.directory}/data", f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=self.log, stderr=subprocess.STDOUT)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def ask(self, path, **query):
        address = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        answer = json.load(urllib.request.urlopen(address, timeout=ANSWER_SECONDS_MAX))
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression):
        return self.ask("query", query=expression)["result"]

    def until(self, what, condition):
        """What `condition` returns once that is true; after a scrape that failed it is not for a while."""
        found, end = None, time.monotonic() + READY_SECONDS_MAX
        while True:
            try:
                found = condition()
                if found:
                    return found
            except OSError as error:
                found = error
            assert self.process.poll() is None, (self.directory / "prometheus.log").read_text()[-2000:]
            assert time.monotonic() < end, f"not within {READY_SECONDS_MAX} s: {what}; {found}"
            time.sleep(0.2)


def is_installed():
    return shutil.which("prometheus") is not None and shutil.which("promtool") is not None


def check_names(text):
    """promtool's own opinion of names and help, in Prometheus' own format; dcgm-exporter's names are not ours."""
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
    said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("DCGM_")]
    assert not said, said


def check_prometheus(directory, target, token, programs):
    """What Prometheus has scraped is what the programs do, and every query of the board has an answer."""
    with Prometheus(directory, target, token) as prometheus:
        prometheus.until("the target is scraped", lambda: prometheus.query("up == 1"))
        prometheus.until("two scrapes make a rate", lambda: [
            row for row in prometheus.query("rate(openmps_client_kernels_total[1m])") if float(row["value"][1]) > 0])
        pids = {str(pid) for pid in programs}
        prometheus.until("all programs have series, and no other has", lambda: pids == {
            row["metric"]["pid"] for row in prometheus.query("openmps_client_kernels_total")})
        util = prometheus.until("GPU-Util", lambda: prometheus.query("DCGM_FI_DEV_GPU_UTIL"))
        assert len(util) == 1 and {"gpu", "UUID", "modelName"} <= set(util[0]["metric"]), util
        asked = 0
        for title, expression in board_expressions():
            expression = re.sub(r"\$\w+|\$\{\w+\}", "1m", expression)
            prometheus.until(f"{title}: {expression}", lambda: prometheus.query(expression))
            asked += 1
        [series] = prometheus.until("series", lambda: prometheus.query('count({job="openmps"})'))
        print(f"prometheus: {len(pids)} clients, {series['value'][1]} series, {asked} queries of the board have answers")


def check_board():
    """The board is what Grafana's own library reads, and names metrics that there are."""
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import Dashboard

    board = json.loads(BOARD.read_text())
    read = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(board)))
    lost = sorted(differences(board, read))
    assert not lost, f"fields that Grafana's schema does not have: {lost}"
    metrics = (BOARD.parents[2] / "crates/observe/src/metrics/mod.rs").read_text()
    for title, expression in board_expressions():
        for name in re.findall(r"(?:openmps|DCGM)_\w+", expression):
            assert f'"{re.sub("_total$", "", name)}"' in metrics, f"{title}: {name} is no metric"
    print(f"board: {len(board['panels'])} panels, as Grafana's schema has them")


def differences(ours, read, path=""):
    """Where what was read says less than, or something else than, what is written."""
    if isinstance(ours, dict) and isinstance(read, dict):
        for key, value in ours.items():
            if key in read:
                yield from differences(value, read[key], f"{path}.{key}")
            elif value not in ({}, [], None, False, 0, ""):
                yield f"{path}.{key}"
    elif isinstance(ours, list) and isinstance(read, list) and len(ours) == len(read):
        for at, (one, other) in enumerate(zip(ours, read)):
            yield from differences(one, other, f"{path}[{at}]")
    elif ours != read:
        yield f"{path}: {ours!r} is read as {read!r}"
