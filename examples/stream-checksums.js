/**
 * Keeps an order book up to date from the stream, without the SDK. Opens a WebSocket, reads the snapshot and applies
 * the later changes. Checks the sequence number and the checksum of each change. `CHANGES=5` ends the program after
 * five changes.
 */

import { crc32 } from 'node:zlib'
import { demoTrader, url } from './connect.js'

/** @typedef {[price: number, size: number]} Level */
/**
 * @typedef {{ type: string, sub: string, seq: number, prevSeq?: number, bids: Level[], asks: Level[],
 *   checksum: number }} BookMessage
 */

const most = Number(process.env.CHANGES ?? Number.POSITIVE_INFINITY)
const [market] = await demoTrader(10).markets({ status: 'open' })
if (market === undefined) throw new Error('no market is open')

const bids = new Map()
const asks = new Map()
let lastSeq = 0
let changes = 0

const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/api/v1/stream`)
/** @param {object} frame */
const send = (frame) => socket.send(JSON.stringify(frame))
socket.addEventListener('open', () =>
  send({ op: 'subscribe', id: 1, channel: 'book', marketId: market.id, outcome: 0 }),
)
socket.addEventListener('message', ({ data }) => {
  // `JSON.parse` rounds numbers above 2^53. On a large exchange, sizes may be larger, so a client must read them
  // exactly, as the SDK does.
  /** @type {BookMessage} */
  const message = JSON.parse(String(data))
  if (message.type === 'book.snapshot') {
    bids.clear()
    asks.clear()
  } else if (message.type !== 'book.delta') return
  else if (message.prevSeq !== lastSeq) {
    console.log(`a change is missing after ${lastSeq}: a snapshot repairs it`)
    return send({ op: 'snapshot', sub: message.sub })
  }
  change(bids, message.bids)
  change(asks, message.asks)
  lastSeq = message.seq
  const right = checksum() === message.checksum
  console.log(`${message.type} ${lastSeq}: the checksum ${right ? 'fits' : 'DIFFERS'}`)
  if (!right || (message.type === 'book.delta' && ++changes >= most)) socket.close()
})

/**
 * Sets the new total of each level; a size of 0 removes it.
 * @param {Map<number, number>} side
 * @param {Level[]} levels
 */
function change(side, levels) {
  for (const [price, size] of levels) {
    if (size === 0) side.delete(price)
    else side.set(price, size)
  }
}

/** Returns the checksum of the ten best bids and asks, each `price:size`. */
function checksum() {
  const best = [[...bids].sort(([a], [b]) => b - a), [...asks].sort(([a], [b]) => a - b)]
  const texts = best.map((side) => side.slice(0, 10).map(([price, size]) => `${price}:${size}`))
  return crc32(texts.join('|'))
}
