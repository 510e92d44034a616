"""An order and the stream from Python: signs by what /api/v1/config tells, places, watches, cancels.

Needs eth-account and websockets:  pip install eth-account websockets
The key is taken from SIBYL_TRADER_KEY, or from the file that it names.
"""

import asyncio
import json
import os
import secrets
import time
import urllib.error
import urllib.request
import zlib

import websockets
from eth_account import Account
from eth_account.messages import encode_typed_data

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


def trader():
    named = os.environ["SIBYL_TRADER_KEY"]
    if not named.startswith("0x"):
        with open(named, encoding="ascii") as file:
            named = file.read().strip()
    return Account.from_key(named)


def sign(account, scheme, order):
    """The scheme is that of /config: its domain and its types, in the order that they are hashed in."""
    fields = scheme["types"][scheme["primaryType"]]
    values = {
        field["name"]: bytes.fromhex(order[field["name"]][2:])
        if field["type"] == "bytes32"
        else order[field["name"]]
        for field in fields
    }
    types = {scheme["primaryType"]: fields}
    message = encode_typed_data(scheme["domain"], types, values)
    return "0x" + bytes(account.sign_message(message).signature).hex()


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
        # Numbers beyond 2^53 are text in JSON, so that nobody rounds them.
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
