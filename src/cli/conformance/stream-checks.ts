/** Checks of the stream: the hello message, the handling of requests, and book updates without gaps. */

import { type LevelPair, LocalBook } from '#client/local-book.ts'
import type { Check } from './check.ts'
import { demand, demandEqual } from './mismatch.ts'
import { BYTES32, demandShape, LIST, NATURAL, SUM, TEXT } from './shape.ts'
import { type Frame, openStream, type StreamProbe } from './stream-probe.ts'
import { cancel, place, traderOf, type World } from './world.ts'

const CLOCK_SEC_MAX = 5
const PLACED = 3

type BookFrame = {
  readonly seq: number
  readonly prevSeq: number
  readonly bids: readonly LevelPair[]
  readonly asks: readonly LevelPair[]
  readonly checksum: number
}

/** Opens a socket, waits for hello, and runs a check with the socket. */
async function withStream(
  { url }: World,
  check: (stream: StreamProbe, hello: Frame) => Promise<void>,
): Promise<void> {
  const stream = await openStream(url)
  try {
    await check(stream, await stream.next('a hello', ({ type }) => type === 'hello'))
  } finally {
    stream.close()
  }
}

const answers = (id: number) => (frame: Frame) => frame.id === id

async function subscribe(stream: StreamProbe, id: number, request: object): Promise<string> {
  stream.say({ op: 'subscribe', id, ...request })
  const frame = await stream.next(`an answer to subscribe ${JSON.stringify(request)}`, answers(id))
  demandEqual('type', frame.type, 'subscribed')
  demandShape('subscribed', frame, { sub: TEXT })
  return frame.sub as string
}

const of = (type: string, sub: string) => (frame: Frame) => frame.type === type && frame.sub === sub

/** Checks that the socket is open and answers. */
async function demandAlive(stream: StreamProbe, id: number): Promise<void> {
  stream.say({ op: 'ping', id })
  const pong = await stream.next('a pong', answers(id))
  demandEqual('type', pong.type, 'pong')
  demandShape('pong', pong, { ts: NATURAL })
}

function demandChecksum(book: LocalBook, frame: BookFrame): void {
  demandEqual(`checksum at seq ${frame.seq} to be`, frame.checksum, book.checksum())
}

export const STREAM_CHECKS: readonly Check[] = [
  {
    id: 'stream.hello',
    says: 'hello has the heartbeat interval and a server time that agrees with GET /config',
    async run(world) {
      await withStream(world, async (_stream, hello) => {
        demandShape('hello', hello, { session: TEXT, heartbeatMs: NATURAL, serverTime: NATURAL })
        const { body } = await world.ask('/config')
        const { serverTime } = body as { serverTime: number }
        const apart = Math.abs(serverTime - (hello.serverTime as number) / 1_000)
        demand(
          apart <= CLOCK_SEC_MAX,
          `serverTime in hello and in GET /config to differ by at most ${CLOCK_SEC_MAX} seconds`,
          apart,
        )
      })
    },
  },
  {
    id: 'stream.ping',
    says: 'the answer to a ping has the id of the ping',
    run: (world) => withStream(world, (stream) => demandAlive(stream, 1)),
  },
  {
    id: 'stream.rubbish',
    says: 'malformed frames are answered with an error and do not end the connection',
    async run(world) {
      await withStream(world, async (stream) => {
        const rubbish = ['{', '[]', 'null', '{"op":"dance","id":7}', '{"op":"ping","id":8,"x":1}']
        for (const frame of rubbish) {
          stream.say(frame)
          const error = await stream.next(`an error for ${frame}`, ({ type }) => type === 'error')
          demandShape('the error', error, { code: TEXT, error: TEXT })
        }
        await demandAlive(stream, 9)
      })
    },
  },
  {
    id: 'stream.refusals',
    says: 'the error for an unknown channel or market has the id of the request and the name of the wrong field',
    async run(world) {
      await withStream(world, async (stream) => {
        const nothing = `0x${'1'.repeat(64)}`
        for (const [id, request, field] of [
          [1, { channel: 'gossip' }, 'channel'],
          [2, { channel: 'book', marketId: '0x12', outcome: 0 }, 'marketId'],
          [3, { channel: 'book', marketId: nothing, outcome: 0 }, 'marketId'],
        ] as const) {
          stream.say({ op: 'subscribe', id, ...request })
          const error = await stream.next(`an error with id ${id}`, answers(id))
          demandEqual('type and field', [error.type, error.field], ['error', field])
        }
      })
    },
  },
  {
    id: 'stream.book-snapshot',
    says: 'a book begins with a snapshot that has a correct checksum',
    async run(world) {
      const { id: marketId } = await world.openMarket()
      await withStream(world, async (stream) => {
        const sub = await subscribe(stream, 1, { channel: 'book', marketId, outcome: 0 })
        const frame = await stream.next('a book.snapshot', of('book.snapshot', sub))
        demandShape('the snapshot', frame, {
          ...{
            marketId: BYTES32,
            seq: NATURAL,
            bids: LIST,
            asks: LIST,
            checksum: SUM,
            ts: NATURAL,
          },
        })
        const { seq, bids, asks } = frame as unknown as BookFrame
        const book = new LocalBook()
        book.load(seq, bids, asks)
        demandChecksum(book, frame as unknown as BookFrame)
      })
    },
  },
  {
    id: 'stream.channels',
    says: 'the channels trades, market, ticker and orders begin with a snapshot, and can be unsubscribed',
    async run(world) {
      const { id: marketId } = await world.openMarket()
      await withStream(world, async (stream) => {
        const requests = [
          { channel: 'trades', marketId },
          { channel: 'market', marketId },
          { channel: 'ticker', marketIds: [marketId] },
          { channel: 'orders', trader: `0x${'1'.repeat(40)}` },
        ]
        for (const [at, request] of requests.entries()) {
          const sub = await subscribe(stream, 2 * at, request)
          const snapshot = `${request.channel}.snapshot`
          await stream.next(`a ${snapshot}`, of(snapshot, sub))
          stream.say({ op: 'unsubscribe', sub, id: 2 * at + 1 })
          const left = await stream.next('an answer to unsubscribe', answers(2 * at + 1))
          demandEqual('type', left.type, 'unsubscribed')
        }
      })
    },
  },
  {
    id: 'stream.book-deltas',
    says: 'every change of a book has the seq of the previous change and a correct checksum',
    async run(world) {
      const { sign } = traderOf(world)
      const { id: marketId } = await world.openMarket()
      await withStream(world, async (stream) => {
        const sub = await subscribe(stream, 1, { channel: 'book', marketId, outcome: 0 })
        const first = await stream.next('a book.snapshot', of('book.snapshot', sub))
        const book = new LocalBook()
        const { seq, bids, asks } = first as unknown as BookFrame
        book.load(seq, bids, asks)
        const changes: number[] = []
        const placed: string[] = []
        try {
          for (let at = 0; at < PLACED; at++) {
            const { body } = await place(world, await sign({ marketId }))
            const { orderHash, seq: placedAt = 0 } = body as { orderHash: string; seq?: number }
            placed.push(orderHash)
            changes.push(placedAt)
          }
        } finally {
          for (const orderHash of placed) {
            const { body } = await cancel(world, orderHash, marketId)
            changes.push((body as { seq?: number }).seq ?? 0)
          }
        }
        // Other clients may trade at the same time. So the check ends at the update of this client's last change.
        const lastSeq = Math.max(...changes)
        demand(lastSeq > book.seq, `answers with a seq above ${book.seq}`, changes)
        while (book.seq < lastSeq) {
          const frame = await stream.next(`a change up to seq ${lastSeq}`, of('book.delta', sub))
          const delta = frame as unknown as BookFrame
          demandEqual('prevSeq', delta.prevSeq, book.seq)
          demand(delta.seq > delta.prevSeq, `a seq above ${delta.prevSeq}`, delta.seq)
          book.apply(delta.seq, delta.bids, delta.asks)
          demandChecksum(book, delta)
        }
      })
    },
  },
  {
    id: 'stream.orders',
    says: 'the orders channel reports each accepted and cancelled order, in sequence',
    async run(world) {
      const { sign, address } = traderOf(world)
      const { id: marketId } = await world.openMarket()
      await withStream(world, async (stream) => {
        const sub = await subscribe(stream, 1, { channel: 'orders', trader: address })
        const snapshot = await stream.next('an orders.snapshot', of('orders.snapshot', sub))
        const { body } = await place(world, await sign({ marketId }))
        const { orderHash } = body as { orderHash: string }
        await cancel(world, orderHash, marketId)
        const mine = (frame: Frame) => frame.sub === sub && frame.orderHash === orderHash
        const accepted = await stream.next('a message that the order was accepted', mine)
        const cancelled = await stream.next('a message that the order was cancelled', mine)
        demandEqual('statuses', [accepted.status, cancelled.status], ['accepted', 'cancelled'])
        demandEqual('prevCursor', cancelled.prevCursor, accepted.cursor)
        demandShape('snapshot', snapshot, { cursor: TEXT, orders: LIST, count: NATURAL })
      })
    },
  },
  {
    id: 'stream.since',
    says: 'a subscription with since receives the changes after that sequence number, or a new snapshot',
    async run(world) {
      const { sign } = traderOf(world)
      const { id: marketId } = await world.openMarket()
      const request = { channel: 'book', marketId, outcome: 0 }
      await withStream(world, async (stream) => {
        const sub = await subscribe(stream, 1, request)
        const { seq: since } = await stream.next('a snapshot', of('book.snapshot', sub))
        const { body } = await place(world, await sign({ marketId }))
        await cancel(world, (body as { orderHash: string }).orderHash, marketId)
        await withStream(world, async (second) => {
          const again = await subscribe(second, 1, { ...request, since })
          const frame = await second.next(
            'a message that follows the subscription',
            (each) => each.sub === again && each.type !== 'subscribed',
          )
          const startsOver = frame.type === 'book.snapshot' && frame.reset === true
          if (!startsOver) demandEqual('prevSeq of the first change to be', frame.prevSeq, since)
        })
      })
    },
  },
]
