/**
 * Keeps a book from the stream without the SDK: a WebSocket, the snapshot, the changes after it, and a
 * check of each by its number and its checksum. `CHANGES=5` ends it after five changes.
 */

import { crc32 } from 'node:zlib'
import { demoTrader, url } from './connect.ts'

type Level = [price: number, size: number]
type BookMessage = {
  readonly type: string
  readonly sub: string
  readonly seq: number
  readonly prevSeq?: number
  readonly bids: readonly Level[]
  readonly asks: readonly Level[]
  readonly checksum: number
}

const most = Number(process.env.CHANGES ?? Number.POSITIVE_INFINITY)
const [market] = await demoTrader(10).markets({ status: 'open' })
if (market === undefined) throw new Error('no market is open')

const bids = new Map<number, number>()
const asks = new Map<number, number>()
let lastSeq = 0
let changes = 0

const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/api/v1/stream`)
const say = (frame: object) => socket.send(JSON.stringify(frame))
socket.addEventListener('open', () =>
  say({ op: 'subscribe', id: 1, channel: 'book', marketId: market.id, outcome: 0 }),
)
socket.addEventListener('message', ({ data }) => {
  // A size may exceed 2^53 on a large exchange: then read it exactly, as the SDK does.
  const message = JSON.parse(String(data)) as BookMessage
  if (message.type === 'book.snapshot') {
    bids.clear()
    asks.clear()
  } else if (message.type !== 'book.delta') return
  else if (message.prevSeq !== lastSeq) {
    console.log(`a change is missing after ${lastSeq}: a snapshot repairs it`)
    return say({ op: 'snapshot', sub: message.sub })
  }
  for (const [side, levels] of [
    [bids, message.bids],
    [asks, message.asks],
  ] as const) {
    for (const [price, size] of levels) {
      if (size === 0) side.delete(price)
      else side.set(price, size)
    }
  }
  lastSeq = message.seq
  const right = checksum() === message.checksum
  console.log(`${message.type} ${lastSeq}: the checksum ${right ? 'fits' : 'DIFFERS'}`)
  if (!right || (message.type === 'book.delta' && ++changes >= most)) socket.close()
})

/** The ten best bids and asks, each `price:size`. */
function checksum(): number {
  const text = (side: Map<number, number>, descending: boolean) =>
    [...side]
      .sort(([a], [b]) => (descending ? b - a : a - b))
      .slice(0, 10)
      .map(([price, size]) => `${price}:${size}`)
      .join(',')
  return crc32(`${text(bids, true)}|${text(asks, false)}`)
}
