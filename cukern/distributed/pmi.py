"""A PMI-1 server, which MPICH asks at its start, over a socket that each rank inherits: nothing listens.

Source: PMI-1, the wire protocol of MPICH's process managers (Balaji et al., "PMI: A Scalable Parallel
Process-Management Interface for Extreme-Scale Systems", EuroMPI 2010). Ranks put texts, wait for each other, and read
what others put; the launcher adds that all ranks are on this machine.
"""

from __future__ import annotations

import contextlib
import secrets
import socket

_LONGEST = 1 << 16


class Exchange:
    """The texts that the ranks of one job exchange.

    Args:
        size: the number of ranks.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        #: MPICH names shared memory after the job.
        self._name = f"cukern_{secrets.token_hex(8)}"
        self._texts = {"PMI_process_mapping": f"(vector,(0,1,{size}))"}
        self._waiting: list[socket.socket] = []
        self._rest: dict[socket.socket, bytes] = {}

    def read(self, connection: socket.socket) -> bool:
        """Answer what a rank has sent; False once it has closed its side."""
        try:
            data = connection.recv(_LONGEST)
        except OSError:
            data = b""
        rest = self._rest.pop(connection, b"") + data
        if not data or len(rest) > _LONGEST:
            return False
        *lines, self._rest[connection] = rest.split(b"\n")
        for line in lines:
            fields = dict(part.split("=", 1) for part in line.decode(errors="replace").split() if "=" in part)
            self._answer(connection, fields)
        return True

    def _answer(self, connection: socket.socket, fields: dict[str, str]) -> None:
        command = fields.get("cmd", "")
        if command == "barrier_in":
            self._waiting.append(connection)
            if len(self._waiting) == self._size:
                for one in self._waiting:
                    _send(one, "cmd=barrier_out")
                self._waiting.clear()
        elif command == "put":
            self._texts[fields.get("key", "")] = fields.get("value", "")
            _send(connection, "cmd=put_result rc=0 msg=success")
        elif command == "get":
            text = self._texts.get(fields.get("key", ""))
            told = (
                "rc=-1 msg=key_not_found value=unknown" if text is None else f"rc=0 msg=success value={text}"
            )
            _send(connection, f"cmd=get_result {told}")
        else:
            answers = {
                "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
                "get_maxes": "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=1024",
                "get_appnum": "cmd=appnum appnum=0",
                "get_my_kvsname": f"cmd=my_kvsname kvsname={self._name}",
                "get_universe_size": f"cmd=universe_size size={self._size}",
                "finalize": "cmd=finalize_ack rc=0",
            }
            if command in answers:
                _send(connection, answers[command])


def _send(connection: socket.socket, line: str) -> None:
    with contextlib.suppress(OSError):  # its rank is gone, which the launcher sees by itself
        connection.sendall(f"{line}\n".encode())
