/**
 * Attacks on the stream from one address. Each attack stays within the default limits, and ends after the
 * given number of seconds. The attackers discard all answers, so that they use less CPU time than the
 * exchange under attack.
 */

import { randomInt } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { firstMarket, readMarkets } from './hostile-setup.ts'

export type AttackFigures = {
  readonly sockets: number
  readonly framesSent: number
  readonly mebibytesRead: number
}

const TICKER_SOCKETS = 100
const TICKERS_PER_SECOND = 500
const TICKER_SUBSCRIPTIONS = 200
const TICKER_MARKETS = 200
const SNAPSHOT_SOCKETS = 20
const SNAPSHOTS_PER_SECOND = 480
const PULSE_MS = 50

/** Subscribes each of 100 sockets to 200 different sets of up to 200 markets each, and continues to read. */
export async function tickerTopics(
  url: string,
  address: string,
  seconds = 60,
): Promise<AttackFigures> {
  const ids: string[] = await readMarkets(url)
  const size = Math.min(TICKER_MARKETS, Math.max(1, ids.length - 1))
  const frame = (): string => {
    // Replaces some of the first `size` markets, so that each subscription has a different set.
    for (let count = 0; count < 8; count++) {
      const [one, other] = [randomInt(size), randomInt(ids.length)]
      const id = ids[one]!
      ids[one] = ids[other]!
      ids[other] = id
    }
    const marketIds = ids.slice(0, size).join('","')
    return `{"op":"subscribe","channel":"ticker","marketIds":["${marketIds}"]}`
  }
  return attack(url, address, {
    seconds,
    sockets: TICKER_SOCKETS,
    perSecond: TICKERS_PER_SECOND,
    framesPerSocketMax: TICKER_SUBSCRIPTIONS,
    frame,
  })
}

/** Requests the snapshot of the deepest book 480 times a second, in the conflated mode, which merges changes. */
export async function conflatedSnapshots(
  url: string,
  address: string,
  seconds = 60,
): Promise<AttackFigures> {
  const marketId = await firstMarket(url)
  const sub = `book:${marketId}:0:20`
  return attack(url, address, {
    seconds,
    sockets: SNAPSHOT_SOCKETS,
    perSecond: SNAPSHOTS_PER_SECOND,
    first: JSON.stringify({
      ...{ op: 'subscribe', channel: 'book', marketId, outcome: 0 },
      ...{ mode: 'conflate', maxHz: 20 },
    }),
    frame: () => JSON.stringify({ op: 'snapshot', sub }),
  })
}

type Plan = {
  readonly seconds: number
  readonly sockets: number
  /** Frames of all sockets together. */
  readonly perSecond: number
  readonly framesPerSocketMax?: number
  /** Frame that each socket sends once, right after it has opened. */
  readonly first?: string
  readonly frame: () => string
}

async function attack(url: string, address: string, plan: Plan): Promise<AttackFigures> {
  const { hostname, port } = new URL(url)
  const open = new Map<Socket, number>()
  let bytesRead = 0
  let framesSent = 0
  let isOver = false

  function join(): void {
    const socket = connect({ host: hostname, port: Number(port), localAddress: address })
    let isUpgraded = false
    socket.on('data', (chunk) => {
      bytesRead += chunk.length
      if (isUpgraded || !chunk.includes('HTTP/1.1 101')) return
      isUpgraded = true
      open.set(socket, 0)
      if (plan.first !== undefined) socket.write(textFrame(plan.first))
    })
    socket.on('error', () => undefined)
    socket.on('close', () => {
      open.delete(socket)
      if (!isOver) setTimeout(join, 1_000)
    })
    socket.write(
      `GET /api/v1/stream HTTP/1.1\r\nHost: ${hostname}:${port}\r\nConnection: Upgrade\r\n` +
        'Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n' +
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
    )
  }

  for (let count = 0; count < plan.sockets; count++) join()
  const endMs = performance.now() + plan.seconds * 1_000
  let due = 0
  while (performance.now() < endMs) {
    await new Promise((resolve) => setTimeout(resolve, PULSE_MS))
    due += (plan.perSecond * PULSE_MS) / 1_000
    for (const [socket, sent] of [...open]) {
      const share = Math.ceil((plan.perSecond * PULSE_MS) / 1_000 / plan.sockets)
      for (let count = 0; count < share && due >= 1; count++) {
        if (sent + count >= (plan.framesPerSocketMax ?? Number.POSITIVE_INFINITY)) break
        socket.write(textFrame(plan.frame()))
        open.set(socket, sent + count + 1)
        framesSent++
        due--
      }
    }
    due = Math.min(due, plan.perSecond)
  }
  isOver = true
  const sockets = open.size
  for (const socket of [...open.keys()]) socket.destroy()
  return { sockets, framesSent, mebibytesRead: Math.round(bytesRead / 1_048_576) }
}

/** Returns a client's frame with this text. Such frames are masked; a mask of zeros leaves the payload as it is. */
function textFrame(text: string): Buffer {
  const payload = Buffer.from(text)
  const head = Buffer.alloc(payload.length < 126 ? 6 : 8)
  head[0] = 0x81
  if (payload.length < 126) head[1] = 0x80 | payload.length
  else {
    head[1] = 0x80 | 126
    head.writeUInt16BE(payload.length, 2)
  }
  return Buffer.concat([head, payload])
}
