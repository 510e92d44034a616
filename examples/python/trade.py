"""An order and the stream from Python: signs by what /api/v1/config tells, places, watches, cancels.

Needs three packages of Debian: python3-websockets, python3-ecdsa and python3-pycryptodome. Elsewhere:
pip install websockets ecdsa pycryptodomex
The key is taken from SIBYL_TRADER_KEY, or from the file that it names.
"""

import asyncio
import hashlib
import json
import os
import secrets
import time
import urllib.error
import urllib.request
import zlib

import websockets
from Cryptodome.Hash import keccak
from ecdsa import SECP256k1, SigningKey, VerifyingKey
from ecdsa.util import sigdecode_string, sigencode_string

URL = os.environ.get("SIBYL_URL", "http://127.0.0.1:8080")
ZERO = "0x" + "00" * 20
BUY, YES = 0, 0


def request(method, path, body=None):
    """The JSON of an answer; what the exchange refuses is raised with its code and field."""
    data = None if body is None else json.dumps(body).encode()
    call = urllib.request.Request(f"{URL}/api/v1{path}", data=data, method=method)
    if data is not None:
        call.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(call, timeout=15) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refusal:
        said = json.load(refusal)
        raise RuntimeError(f"{said['error']} ({said['code']}, {said.get('field')})") from None


def keccak256(data):
    return keccak.new(digest_bits=256, data=data).digest()


class Account:
    """A secp256k1 key and its address."""

    def __init__(self, key):
        self.key = SigningKey.from_string(bytes.fromhex(key[2:]), curve=SECP256k1)
        self.address = "0x" + address_of(self.key.verifying_key).hex()

    def sign(self, digest):
        """The 65 bytes r, s and v; contracts accept only the lower of the two possible values of s."""
        pair = self.key.sign_digest_deterministic(digest, hashfunc=hashlib.sha256)
        r, s = int.from_bytes(pair[:32], "big"), int.from_bytes(pair[32:], "big")
        order = SECP256k1.order
        pair = sigencode_string(r, min(s, order - s), order)
        recovered = VerifyingKey.from_public_key_recovery_with_digest(
            pair, digest, SECP256k1, hashlib.sha256, sigdecode_string
        )
        own = [address_of(key) for key in recovered].index(address_of(self.key.verifying_key))
        return pair + bytes([27 + own])


def address_of(key):
    return keccak256(key.to_string())[12:]


def trader():
    named = os.environ["SIBYL_TRADER_KEY"]
    if not named.startswith("0x"):
        with open(named, encoding="ascii") as file:
            named = file.read().strip()
    return Account(named)


DOMAIN = {
    "name": "string",
    "version": "string",
    "chainId": "uint256",
    "verifyingContract": "address",
}


def word(kind, value):
    """A value as 32 bytes, as EIP-712 encodes the fields of a struct."""
    if kind == "string":
        return keccak256(value.encode())
    if kind == "bytes32":
        return bytes.fromhex(value[2:])
    if kind == "address":
        return bytes.fromhex(value[2:]).rjust(32, b"\0")
    if kind.startswith("uint"):
        return int(value).to_bytes(32, "big")
    raise ValueError(f"no order has a field of the type {kind}")


def struct_hash(name, fields, values):
    typed = ",".join(f"{field['type']} {field['name']}" for field in fields)
    words = [word(field["type"], values[field["name"]]) for field in fields]
    return keccak256(b"".join([keccak256(f"{name}({typed})".encode()), *words]))


def sign(account, scheme, order):
    """The scheme is that of /config: its domain and its types, in the order that they are hashed in."""
    name, domain = scheme["primaryType"], scheme["domain"]
    named = [{"name": key, "type": kind} for key, kind in DOMAIN.items() if key in domain]
    separator = struct_hash("EIP712Domain", named, domain)
    message = struct_hash(name, scheme["types"][name], order)
    return "0x" + account.sign(keccak256(b"\x19\x01" + separator + message)).hex()


def checksum(bids, asks):
    def text(side, best_last):
        best = sorted(side.items(), reverse=best_last)[:10]
        return ",".join(f"{price}:{size}" for price, size in best)

    return zlib.crc32(f"{text(bids, True)}|{text(asks, False)}".encode())


async def next_of(socket, *types):
    """The next message of one of these types; others, such as heartbeats, are passed over."""
    while True:
        message = json.loads(await socket.recv())
        if message["type"] == "error":
            raise RuntimeError(f"{message['error']} ({message['code']})")
        if message["type"] in types:
            return message


async def main():
    account = trader()
    config = request("GET", "/config")
    chain = config["chains"][0]
    market = request("GET", "/markets?status=open&limit=1")["markets"][0]
    print(market["question"])

    order = {
        "marketId": market["id"],
        "trader": account.address,
        "side": BUY,
        "outcome": YES,
        "price": 30_000,  # millionths of a dollar: 0.03
        "size": 2_000_000,  # millionths of a share: 2
        "nonce": time.time_ns() // 1_000_000 << 20 | secrets.randbits(20),
        "expiration": config["serverTime"] + 3_600,
        "makerFeeRecipient": ZERO,
    }
    signed = {
        # JSON contains numbers beyond 2^53 as text, because many parsers would round them.
        "order": {**order, "nonce": str(order["nonce"])},
        "signature": sign(account, chain["signatures"]["order"], order),
    }
    verdict = request("POST", "/orders/validate", signed)
    print("valid:", verdict["valid"], verdict["errors"])

    stream = URL.replace("http", "ws", 1) + "/api/v1/stream"
    async with websockets.connect(stream) as socket:
        book = {"op": "subscribe", "channel": "book", "marketId": market["id"], "outcome": YES}
        await socket.send(json.dumps({**book, "id": 1}))
        message = await next_of(socket, "book.snapshot")
        bids, asks = dict(message["bids"]), dict(message["asks"])
        last = message["seq"]

        placed = request("POST", "/orders", signed)
        print("placed:", placed["status"])
        path = f"/orders/{placed['orderHash']}?marketId={market['id']}&side=buy"
        print("cancelled:", request("DELETE", path)["status"])

        for _ in range(2):
            message = await next_of(socket, "book.delta")
            assert message["prevSeq"] == last, "a change is missing"
            last = message["seq"]
            for side, levels in ((bids, message["bids"]), (asks, message["asks"])):
                for price, size in levels:
                    if size == 0:
                        side.pop(price, None)
                    else:
                        side[price] = size
            fits = checksum(bids, asks) == message["checksum"]
            print(f"change {last}: the checksum {'fits' if fits else 'DIFFERS'}")


asyncio.run(main())
