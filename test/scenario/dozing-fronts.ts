/** Tests two fronts on separate nodes. Each must receive all events of the markets that its clients need. */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { deserialize } from 'node:v8'
import { type Client, createClient } from '#client/client.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { FRAME, readFrame } from '#services/node/frames.ts'
import { openNodeLine } from '#services/node/node-line.ts'
import { StreamClient } from '../stream/stream-fixture.ts'
import { eventually } from '../support/eventually.ts'
import type { NatsServer } from '../support/nats.ts'

const TERMS = { outcome: 'YES', side: 'sell', size: '1', ttlSeconds: 3_600 } as const
const BURST = 40

export type Fronts = {
  readonly nats: NatsServer
  /** Names of the two nodes. Until now, no client of the node `idle` has requested a book. */
  readonly names: readonly [busy: string, idle: string]
  readonly urls: readonly [busy: string, idle: string]
  /** A market that no other test trades in. */
  readonly marketId: string
}

/**
 * Checks that a front receives no events of a market while its clients do not need the market, and all events once a
 * client does.
 */
export async function dozeAndWake(t: TestContext, fronts: Fronts): Promise<void> {
  const { nats, names, urls, marketId } = fronts
  const [busy, idle] = urls
  const told = await countEvents(t, nats.url, names)
  const toldTo = { busy: () => told[names[0]]!, idle: () => told[names[1]]! }
  const ann = createClient({ url: busy, signer: devnetKey(10), retries: 0 })
  const bob = createClient({ url: idle, signer: devnetKey(11), retries: 0 })
  let price = 500_000
  const place = () => ann.orders.place({ ...TERMS, marketId, price: price++ })
  const burst = async () => {
    for (let count = 0; count < BURST; count++) await place()
  }

  // No client of the front `idle` needs a market. After a while this front follows no partition any more.
  await eventually(async () => assert.equal(await followedAt(idle), 0))
  const before = { busy: toldTo.busy(), idle: toldTo.idle() }
  const first = await place()
  await burst()
  await eventually(() => assert(toldTo.busy() > before.busy + BURST))
  assert.equal(toldTo.idle(), before.idle)

  // A read at the idle front shows all orders that were accepted before it through the busy front.
  const book = await bob.orderbook(marketId, 'YES')
  assert.equal(book.seq, first.seq! + BURST)
  assert.equal(book.asks.length, BURST + 1)
  // On a busy machine the partition may become idle again before the test reads its state, so the test repeats the read
  // and the check.
  await eventually(async () => {
    await bob.orderbook(marketId, 'YES')
    assert.equal(await followedAt(idle), 1)
  })
  // A trade through the idle front soon shows at the other front.
  const bought = await bob.orders.place({ ...TERMS, side: 'buy', marketId, price: 500_000 })
  assert.equal(bought.matches, 1)
  assert(bought.seq! > book.seq)
  await eventually(async () => {
    assert.equal((await ann.orderbook(marketId, 'YES')).asks.length, BURST)
  })
  await settled(ann, marketId)
  await eventually(async () => assert.equal(await followedAt(idle), 0))

  // A subscription during load begins with the current book, and has no gap.
  const flowing = burst()
  const stream = await StreamClient.open(`${idle.replace('http', 'ws')}/api/v1/stream`)
  t.after(() => stream.close())
  const subscription = { op: 'subscribe', channel: 'book', marketId, outcome: 0 }
  const snapshot = await stream.ask(subscription, 'book.snapshot')
  let last = snapshot.seq
  await flowing
  const final = (await ann.orderbook(marketId, 'YES')).seq
  assert((snapshot.asks as unknown[]).length >= BURST)
  while (last !== final) {
    const delta = await stream.next('book.delta')
    assert.equal(delta.prevSeq, last)
    last = delta.seq
  }
  assert.equal(await followedAt(idle), 1)
  assert(toldTo.idle() > before.idle)
}

/** Waits until the newest trade is confirmed, after which it no longer changes the book. */
async function settled(client: Client, marketId: string): Promise<void> {
  await eventually(async () => {
    const [trade] = await client.trades(marketId)
    assert.equal(trade?.status, 'confirmed')
  })
}

/** Counts the messages with market events that were sent to each of these nodes. */
async function countEvents(
  t: TestContext,
  url: string,
  nodes: readonly string[],
): Promise<Record<string, number>> {
  const line = await openNodeLine({ url, credsFile: '', name: 'observer', lost() {}, back() {} })
  t.after(() => line.close())
  const counts: Record<string, number> = {}
  for (const node of nodes) {
    counts[node] = 0
    /** Received bytes of a batch, by link. */
    const pieces = new Map<string, Buffer[]>()
    line.subscribe(`sibyl.data.${node}`, (bytes) => {
      const { link, kind, body } = readFrame(bytes)!
      if (kind !== FRAME.last && kind !== FRAME.more) return
      const batch = [...(pieces.get(link) ?? []), Buffer.from(body)]
      pieces.set(link, kind === FRAME.more ? batch : [])
      if (kind === FRAME.more) return
      const messages = deserialize(Buffer.concat(batch)) as unknown[]
      counts[node]! += messages.filter((each) => each === 'MarketEvents').length
    })
  }
  return counts
}

/** Returns the number of partitions that a front follows. */
async function followedAt(url: string): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text()
  const [, count] = /^sibyl_front_partitions_followed\{[^}]*\} (\d+)$/m.exec(metrics) ?? []
  assert(count !== undefined, 'it is counted')
  return Number(count)
}
