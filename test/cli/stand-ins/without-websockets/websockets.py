"""Takes the place of websockets where Python has none: text frames over a plain connection."""

import asyncio
import base64
import os
import struct
from urllib.parse import urlsplit

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class connect:
    def __init__(self, uri):
        self._uri = urlsplit(uri)

    async def __aenter__(self):
        host, port = self._uri.hostname, self._uri.port
        self._reader, self._writer = await asyncio.open_connection(host, port)
        key = base64.b64encode(os.urandom(16)).decode()
        self._writer.write(
            (
                f"GET {self._uri.path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
                f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
            ).encode()
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise ConnectionError(head.decode())
        return self

    async def __aexit__(self, *_):
        await self._frame(CLOSE, struct.pack("!H", 1000))
        self._writer.close()

    async def send(self, text):
        await self._frame(TEXT, text.encode())

    async def recv(self):
        while True:
            first, second = await self._reader.readexactly(2)
            length = second & 127
            if length == 126:
                (length,) = struct.unpack("!H", await self._reader.readexactly(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", await self._reader.readexactly(8))
            data = await self._reader.readexactly(length)
            opcode = first & 15
            if opcode == PING:
                await self._frame(PONG, data)
            elif opcode == CLOSE:
                raise ConnectionError("closed")
            elif opcode == TEXT:
                return data.decode()

    async def _frame(self, opcode, data):
        mask = os.urandom(4)
        length = len(data)
        size = bytes([128 | length]) if length < 126 else bytes([254]) + struct.pack("!H", length)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        self._writer.write(bytes([128 | opcode]) + size + mask + masked)
        await self._writer.drain()
