/** Two fronts on nodes of their own: each hears of the markets that somebody on it needs, and misses nothing then. */

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { deserialize } from 'node:v8'
import { createClient } from '#client/client.ts'
import { FRAME, readFrame } from '#cluster/frames.ts'
import { openNodeLine } from '#cluster/node-line.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { StreamClient } from '../stream/stream-fixture.ts'
import { startCluster } from '../support/cluster.ts'
import { onServerDatabase } from '../support/databases.ts'
import { eventually } from '../support/eventually.ts'
import { natsMissing } from '../support/nats.ts'

const TERMS = { outcome: 'YES', side: 'sell', size: '1', ttlSeconds: 3_600 } as const
const BURST = 40

await onServerDatabase('fronts of a cluster', ({ fresh }) => {
  test('a front hears nothing of a market that nobody on it needs, and all of it when somebody does', {
    skip: natsMissing,
  }, async (t) => {
    const cluster = await startCluster(t, fresh, { SIBYL_CLUSTER_DOZE_MS: '1000' })
    const [busy, idle] = await Promise.all([
      cluster.node('busy', 'front'),
      cluster.node('idle', 'front'),
      cluster.node('books', 'market'),
      cluster.node('rest', 'store,chain,prices'),
    ])
    const told = await countEvents(t, cluster.nats.url, ['busy', 'idle'])
    const ann = createClient({ url: busy.url, signer: devnetKey(10), retries: 0 })
    const bob = createClient({ url: idle.url, signer: devnetKey(11), retries: 0 })
    const [market] = await eventually(async () => {
      const markets = await ann.markets()
      assert(markets.length > 0)
      return markets
    })
    const marketId = market!.id
    let price = 500_000
    const place = () => ann.orders.place({ ...TERMS, marketId, price: price++ })
    const burst = async () => {
      for (let count = 0; count < BURST; count++) await place()
    }

    // Nobody has been here for long.
    await eventually(async () => assert.equal(await followedAt(idle.url), 0))
    const before = { ...told }
    const first = await place()
    await burst()
    await eventually(() => assert(told.busy! > before.busy! + BURST))
    assert.equal(told.idle, before.idle)

    // What is read there is not older than what was answered before.
    const book = await bob.orderbook(marketId, 'YES')
    assert.equal(book.seq, first.seq! + BURST)
    assert.equal(book.asks.length, BURST + 1)
    assert.equal(await followedAt(idle.url), 1)
    // A trader there is answered with what he can read at the other front.
    const bought = await bob.orders.place({ ...TERMS, side: 'buy', marketId, price: 500_000 })
    assert.equal(bought.matches, 1)
    assert(bought.seq! > book.seq)
    assert.equal((await ann.orderbook(marketId, 'YES')).asks.length, BURST)
    await eventually(async () => assert.equal(await followedAt(idle.url), 0))

    // A stream that comes under load begins with the book as it is, and has no gap.
    const flowing = burst()
    const stream = await StreamClient.open(`${idle.url.replace('http', 'ws')}/api/v1/stream`)
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
    assert.equal(await followedAt(idle.url), 1)
    assert(told.idle! > before.idle!)
  })
})

/** How many messages with events of markets the nodes of these names were sent so far. */
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
    /** Of each link, what has come of a batch. */
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

/** How many partitions a front follows. */
async function followedAt(url: string): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text()
  const [, count] = /^sibyl_front_partitions_followed\{[^}]*\} (\d+)$/m.exec(metrics) ?? []
  assert(count !== undefined, 'it is counted')
  return Number(count)
}
