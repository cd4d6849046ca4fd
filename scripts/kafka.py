"""One Kafka broker (KRaft) on loopback, from Maven's jars: what the Kafka tests run on, and `python scripts/kafka.py`.

The jars are fetched once into .kafka/ by Spark's own resolver and checked against scripts/kafka.lock
(`--lock` writes it anew). A broker keeps its data in a folder of its own, listens on a free port of
loopback and is ended by its process id. Must never listen beyond loopback, nor touch a broker not its own.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from scripts.fetch_jars import differences, lock_text  # noqa: E402

WANTED = ("org.apache.kafka:kafka_2.13:4.4.0", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.5")
KEPT = ROOT / ".kafka"
LOCK = Path(__file__).with_name("kafka.lock")
HOST = "127.0.0.1"
CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
UP_WITHIN_S = 90.0
HEAP = "-Xmx320m"
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=500
"""
LOGGING = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="OFF"><Appenders><Console name="out"><PatternLayout pattern="%p %c: %m%n"/></Console></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker: where clients find it, its data's folder and its process."""

    servers: str
    folder: Path
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End it, by its id; returns when it is gone."""
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def jars() -> list[Path]:
    """The broker's class path, fetched at the first call. Raises RuntimeError where a jar is not the locked one."""
    if not (KEPT / "complete").exists():
        subprocess.run([sys.executable, __file__, "--fetch"], check=True)
    import pyspark  # the resolver leaves out Scala's library, which Spark has

    scala = (Path(pyspark.__file__).parent / "jars").glob("scala-library-2.13*.jar")
    return [*sorted(KEPT.glob("*.jar")), *scala]


@contextlib.contextmanager
def broker() -> Iterator[Broker]:
    """A broker with an empty folder of its own, stopped and removed at the end."""
    with tempfile.TemporaryDirectory(prefix="headrace-kafka-") as folder:
        started = start(Path(folder))
        try:
            yield started
        finally:
            started.stop()


def start(folder: Path) -> Broker:
    """Start a broker on its data in `folder`; returns when it answers."""
    port, controller = _free_ports(2)
    settings = folder / "server.properties"
    fresh = not settings.exists()
    settings.write_text(PROPERTIES.format(host=HOST, port=port, controller=controller, folder=folder))
    (folder / "log4j2.xml").write_text(LOGGING)
    java = ["java", HEAP, "-cp", ":".join(str(jar) for jar in jars())]
    java.append(f"-Dlog4j2.configurationFile={folder}/log4j2.xml")
    with (folder / "broker.log").open("ab") as log:
        if fresh:
            tool = [
                *java,
                "kafka.tools.StorageTool",
                "format",
                "--standalone",
                "-t",
                CLUSTER,
                "-c",
                str(settings),
            ]
            text = settings.read_text().replace(f"controller.quorum.voters=1@{HOST}:{controller}\n", "")
            settings.write_text(text + f"controller.quorum.bootstrap.servers={HOST}:{controller}\n")
            subprocess.run(tool, check=True, stdout=log, stderr=log)
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(settings)], stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    started = Broker(f"{HOST}:{port}", folder, process)
    try:
        _wait(started)
    except BaseException:
        started.stop()
        raise
    return started


def _wait(started: Broker) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": started.servers, "log_level": 0})
    until = time.monotonic() + UP_WITHIN_S
    while time.monotonic() < until and started.process.poll() is None:
        with contextlib.suppress(KafkaException):
            if admin.list_topics(timeout=2).brokers:
                return
    tail = (started.folder / "broker.log").read_text(errors="replace").splitlines()[-15:]
    raise RuntimeError("\n".join(["the Kafka broker did not come up:", *tail]))


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]


# ---- the jars ----------------------------------------------------------------------------------
def fetch(lock: bool = False) -> int:
    """Resolve WANTED in this process (it starts a Spark of its own), check, and put the jars in their place."""
    from pyspark.sql import SparkSession

    ivy = KEPT / "ivy"
    settings: dict[str, str | bool | int | float | None] = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": HOST,
        "spark.driver.host": HOST,
        "spark.jars.packages": ",".join(WANTED),
        "spark.jars.ivy": str(ivy),
    }
    SparkSession.builder.master("local[1]").config(map=settings).getOrCreate().stop()
    found = {path.name.split("_", 1)[1]: path for path in sorted((ivy / "jars").glob("*.jar"))}
    text = lock_text(found)
    if lock:
        LOCK.write_text(text)
    elif wrong := differences(LOCK.read_text(), text):
        shutil.rmtree(ivy)
        print("\n".join(["the jars differ from scripts/kafka.lock:", *wrong]), file=sys.stderr)
        return 1
    for name, path in found.items():
        shutil.copyfile(path, KEPT / name)
    shutil.rmtree(ivy)
    (KEPT / "complete").touch()
    return 0


def main() -> int:
    """`--fetch`, `--lock`, or without a word: run a broker until Ctrl-C."""
    if sys.argv[1:] in (["--fetch"], ["--lock"]):
        return fetch(lock=sys.argv[1] == "--lock")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with broker() as started, contextlib.suppress(KeyboardInterrupt):
        print(f"Kafka listens at {started.servers}; Ctrl-C stops it", flush=True)
        started.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
