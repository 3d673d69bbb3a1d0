"""A realm of Kerberos on loopback: Hadoop's ``MiniKdc``, driven through Py4J."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.parts import MissingPartError, hadoop_version, maven_jars

#: The library of the system that hdfs-native opens.
_LIBRARY = "libgssapi_krb5.so.2"
#: The user of the realm.
USER = "alice"
_NODES, _PASSWORD = "hdfs/localhost", "password"


def kerberos_jars() -> list[str]:
    """Return the jars of MiniKdc.

    Raises:
        MissingPartError: if they cannot be fetched, or the system has no library of Kerberos.
    """
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise MissingPartError(f"{error}; Debian and Ubuntu have it in libgssapi-krb5-2") from None
    artifact = f"org.apache.hadoop:hadoop-minikdc:{hadoop_version()}"
    return [str(jar) for jar in maven_jars(artifact, ["org.apache.hadoop", "org.apache.kerby"])]


class Realm:
    """A realm with a principal of the nodes of a cluster, and one of a user, ``alice``.

    Attributes:
        configuration: the path of its ``krb5.conf``.
        nodes: the principal of the nodes.
        keytab: the path of their keytab.
    """

    def __init__(self, gateway: Any, kdc: Any, directory: Path) -> None:
        self._jvm = gateway.jvm
        self._directory = directory
        self._name = kdc.getRealm()
        self.configuration: str = kdc.getKrb5conf().getAbsolutePath()
        self.nodes = f"{_NODES}@{self._name}"
        self.keytab = str(directory / "nodes.keytab")
        names = gateway.new_array(gateway.jvm.String, 1)
        names[0] = _NODES
        kdc.createPrincipal(self._file(self.keytab), names)
        kdc.createPrincipal(USER, _PASSWORD)

    def ticket(self, name: str, seconds: int = 3600) -> str:
        """Write a ticket of the user into a cache, as ``kinit`` does, and return the path of the cache."""
        cache = str(self._directory / name)
        kerby = self._jvm.org.apache.kerby
        option = kerby.kerberos.kerb.client.KrbOption
        request = kerby.KOptions()
        request.add(option.CLIENT_PRINCIPAL, f"{USER}@{self._name}")
        request.add(option.USE_PASSWD, True)
        request.add(option.USER_PASSWD, _PASSWORD)
        request.add(option.LIFE_TIME, seconds)
        client = kerby.kerberos.kerb.client.KrbClient(self._file(str(Path(self.configuration).parent)))
        client.init()
        client.storeTicket(client.requestTgt(request), self._file(cache))
        return cache

    def _file(self, path: str) -> Any:
        return self._jvm.java.io.File(path)


@contextmanager
def realm(gateway: Any, directory: str) -> Iterator[Realm]:
    """Run a key distribution center in a Java process that has `kerberos_jars`, and configure that process for it."""
    kdc_class = gateway.jvm.org.apache.hadoop.minikdc.MiniKdc
    conf = kdc_class.createConf()
    # seconds; a test waits for the end of a ticket
    conf.setProperty(kdc_class.MIN_TICKET_LIFETIME, "1")
    kdc = kdc_class(conf, gateway.jvm.java.io.File(directory))
    kdc.start()
    try:
        yield Realm(gateway, kdc, Path(directory))
    finally:
        kdc.stop()
