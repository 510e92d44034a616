/**
 * Tests an exchange of several nodes that reserves funds. A trade involves three nodes, nodes are lost, and a node is
 * stopped as planned.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { registerApiKey } from '#client/api-keys.ts'
import { type Client, createClient } from '#client/client.ts'
import { withApiKey } from '#client/tokens.ts'
import { devnetAccount, devnetKey } from '#devnet/accounts.ts'
import { claimPort } from '#http/port.ts'
import { StreamClient } from '../stream/stream-fixture.ts'
import { startTestChain } from '../support/chain.ts'
import { startCluster } from '../support/cluster.ts'
import { openCollector } from '../support/collector.ts'
import { onServerDatabase } from '../support/databases.ts'
import { eventually } from '../support/eventually.ts'
import { natsMissing } from '../support/nats.ts'
import { randomFrom } from '../support/random.ts'
import { WHOLE } from '../support/sample.ts'
import { dozeAndWake } from './dozing-fronts.ts'

/**
 * Ways in which the node with the books fails, after it was first stopped as planned. A run tests a random one of them.
 * `npm run test:whole` tests both.
 */
const WAYS = ['killed', 'paused'] as const
const TERMS = { outcome: 'YES', size: '1', ttlSeconds: 3_600 } as const

type Levels = readonly { readonly price: number; readonly size: unknown }[]
const prices = (levels: Levels): number[] => levels.map(({ price }) => price)

await onServerDatabase('a cluster of several nodes runs one exchange', ({ fresh }) => {
  test('a cluster continues to trade when the node with the markets is stopped, killed or paused', {
    skip: natsMissing,
  }, async (t) => {
    const chain = await startTestChain(t, { seed: true })
    const collector = await openCollector()
    t.after(collector.close)
    const cluster = await startCluster(t, fresh, {
      ...chain.environment,
      SIBYL_SETTLEMENT_BATCH_WAIT_MS: '50',
      SIBYL_FEEDS_LIVE: 'false',
      SIBYL_RISK_FUNDS: 'reserve',
      SIBYL_TRACES_URL: collector.url,
      SIBYL_TRACES_EVERY: '1',
      // A front stops following a partition that its clients have not needed for this time.
      SIBYL_CLUSTER_DOZE_MS: '1000',
      // The rate limits have almost no refill, so that the test can count spent units.
      SIBYL_LIMITS: 'true',
      SIBYL_LIMIT_IP_BURST: '10000000',
      SIBYL_LIMIT_IP_PER_SECOND: '1',
    })
    const adminPort = await claimPort('127.0.0.1', 0)
    const [front, other, books, rest] = await Promise.all([
      cluster.node('front-a', 'front'),
      cluster.node('front-b', 'front'),
      cluster.node('books-a', 'market', { SIBYL_ADMIN_PORT: String(adminPort) }),
      cluster.node('rest', 'store,chain,prices'),
    ])
    const ann = createClient({ url: front.url, signer: devnetKey(10), retries: 0 })
    const bob = createClient({ url: other.url, signer: devnetKey(11), retries: 0 })
    // The indexer finds the markets on the chain, and the market node opens them.
    const [marketId, another] = await eventually(async () => {
      const listed = (await ann.markets()).map(({ id }) => id)
      assert.equal(listed.length, chain.demoMarkets.length)
      assert.deepEqual(new Set((await bob.markets()).map(({ id }) => id)), new Set(listed))
      return [listed[0]!, listed[1]!]
    })
    await t.test(
      'a front receives no events of a market until a client needs the market, and then receives all of its events',
      (nested) =>
        dozeAndWake(nested, {
          ...{ nats: cluster.nats, names: ['front-a', 'front-b'], marketId: another },
          urls: [front.url, other.url],
        }),
    )

    const stream = await StreamClient.open(`${front.url.replace('http', 'ws')}/api/v1/stream`)
    t.after(() => stream.close())
    const BOOK = { op: 'subscribe', channel: 'book', marketId, outcome: 0 }
    const snapshot = await stream.ask(BOOK, 'book.snapshot')

    await assert.rejects(
      cluster.node('books-a', 'market'),
      /^Error: the exchange ended with code 1[\s\S]*SIBYL_NODE: another node of the cluster is called books-a/,
    )

    // A node that serves no clients has the same health checks on its admin port.
    const health = `http://127.0.0.1:${adminPort}`
    assert.equal((await fetch(`${health}/healthz`)).status, 200)
    const ready = await fetch(`${health}/readyz`)
    assert.equal(ready.status, 200)
    assert.match(await ready.text(), /"market-0"/)
    const counted = await (await fetch(`${health}/metrics`)).text()
    assert.match(counted, /sibyl_cluster_slot_epoch\{slot="market-0",thread="bridge"\} \d/)
    for (const line of [
      /sibyl_cluster_slot_served\{slot="market-0",node="books-a",thread="bridge"\} 1/,
      /sibyl_cluster_takeovers_total\{slot="market-0",thread="bridge"\} 0/,
      /sibyl_log_copy_lag_seconds\{thread="log-copy"\} \d/,
      /sibyl_log_copy_behind_events\{thread="log-copy"\} \d/,
    ]) {
      assert.match(counted, line)
    }
    assert.equal((await fetch(`${health}/api/v1/markets`)).status, 404)

    // Two orders, each through another front, match in a book on a third machine.
    const sold = await ann.orders.place({ ...TERMS, marketId, side: 'sell', price: '0.4' })
    const rested = await stream.next('book.delta')
    assert.equal(rested.prevSeq, snapshot.seq)
    assert.equal(rested.seq, sold.seq)
    // The answer arrives after the events of the order, so the book at this front already has it.
    assert.deepEqual(prices((await ann.orderbook(marketId, 'YES')).asks), [400_000])
    const bought = await bob.orders.place({ ...TERMS, marketId, side: 'buy', price: '0.5' })
    assert.equal(bought.matches, 1)
    assert.deepEqual(prices((await bob.orderbook(marketId, 'YES')).asks), [])
    const matched = await stream.next('book.delta')
    assert.equal(matched.prevSeq, rested.seq)
    // A third machine stores the trade and settles it on the chain; the market and both fronts are notified.
    const settled = await eventually(async () => {
      const [trade] = await ann.trades(marketId)
      assert.equal(trade?.status, 'confirmed')
      return trade
    })
    // One trace leads over NATS from the front to the transaction.
    await eventually(() => {
      const confirmed = collector.spans.find(
        ({ name, attributes }) =>
          name === 'confirm' && attributes['sibyl.transaction.hash'] === settled.txHash,
      )
      const same = collector.spans.filter(({ traceId }) => traceId === confirmed?.traceId)
      assert.deepEqual(
        new Set(same.map(({ thread }) => thread)),
        new Set(['front-0', 'store', 'settlement']),
      )
    })

    // Units that an IP address has spent at one front are spent at the other front, too.
    const spare = await leftAt(other.url)
    for (let times = 0; times < 5; times++) await leftAt(front.url, 'POST', '/api/v1/api-keys')
    let looks = 0
    await eventually(async () => {
      looks++
      assert((await leftAt(other.url)) <= spare - 250 - looks)
    })

    // Under load, the node with the books is lost in several ways, and each time a standby node takes over.
    const seed = Number(process.env.TEST_SEED ?? Date.now() % 1_000_000)
    t.diagnostic(`TEST_SEED=${seed}`)
    let serving = books
    let standing = await cluster.node('books-b', 'market')
    const accepted: number[] = []
    const silent = await silentTrader(front.url, another)
    for (const way of ['stopped', ...(WHOLE ? WAYS : [randomFrom(seed).pick(WAYS)])]) {
      t.diagnostic(`the machine with the books is ${way}`)
      if (standing.pid === 0) await standing.start()
      await eventually(() => assert.match(standing.output(), /the node is in the cluster/))
      await eventually(() => assert.match(serving.output(), /this node serves market-0/))
      // During a planned stop no order may be refused.
      const flow = startFlow([ann, bob], marketId, {
        refusals: way === 'stopped' ? 'told' : 'healed',
      })
      await eventually(() => assert(flow.accepted.length >= 20))
      await silent.falls()
      // In a planned stop both fronts stay ready for a load balancer. A node that dies hands nothing over, so readiness
      // is checked only in a planned stop.
      const watch = way === 'stopped' ? watchReadiness([front.url, other.url]) : undefined
      if (watch !== undefined) await eventually(() => assert(watch.answers() >= 10))
      if (way === 'killed') await serving.kill()
      else if (way === 'stopped') await serving.stop()
      else serving.signal('SIGSTOP')
      const goneAtMs = performance.now()
      const before = flow.accepted.length
      await eventually(() => assert(flow.accepted.length > before + 20))
      t.diagnostic(`served again after ${Math.round(performance.now() - goneAtMs)} ms`)
      if (watch !== undefined) {
        // The market's new node has taken over and confirmed that it owns the log, so reads are no longer marked as
        // stale.
        for (const { url } of [front, other]) {
          await eventually(async () =>
            assert.equal((await fetch(`${url}/api/v1/markets`)).headers.get('sibyl-stale'), null),
          )
        }
        const after = watch.answers()
        await eventually(() => assert(watch.answers() >= after + 10))
        assert.deepEqual(await watch.end(), [])
      }
      if (way === 'paused') {
        // While the node was paused, the cluster counted it as dead. When the node resumes, it cannot write to the log,
        // and releases `market-0`.
        serving.signal('SIGCONT')
        const paused = serving
        await eventually(() =>
          assert.match(paused.output(), /this node no longer runs market-0|releases market-0/),
        )
        const after = flow.accepted.length
        await eventually(() => assert(flow.accepted.length > after + 20))
      }
      accepted.push(...(await flow.end()))
      assert.deepEqual(flow.refused, [])
      t.diagnostic(`the longest order waited ${Math.round(flow.longestMs())} ms for the move`)
      await sameAt([ann, bob], marketId, accepted)
      // The dead-man switch came due while the books moved to the other node. It still cancelled its trader's orders.
      await silent.isCancelled(other.url)
      ;[serving, standing] = [standing, serving]
    }
    // Unsubscribes, subscribes again, and receives a snapshot of the current book.
    const anew = await stream.ask({ op: 'unsubscribe', sub: snapshot.sub }, 'unsubscribed')
    assert.equal(anew.sub, snapshot.sub)
    const { seq } = await stream.ask(BOOK, 'book.snapshot')
    assert.equal(seq, (await ann.orderbook(marketId, 'YES')).seq)

    // The accounts node is killed. Another one restores the reservations from the log, and orders are accepted again.
    const reserved = await reservedOf(ann)
    assert(reserved.length > 0)
    const successor = await cluster.node('rest-b', 'store,chain,prices', {
      // The new accounts node waits for twice this deadline before it grants reservations. During this time, orders
      // with reservations from the killed node may still be in transit.
      SIBYL_REQUEST_DEADLINE_MS: '1000',
    })
    await rest.kill()
    await eventually(() => assert.match(successor.output(), /this node serves accounts-0/))
    await eventually(async () => assert.deepEqual(await reservedOf(ann), reserved))

    // One more trade must settle. This shows that the threads on the new node `rest-b` have found the node of the
    // market.
    const empty = createClient({ url: other.url, signer: devnetKey(40), retries: 0 })
    const sale = { ...TERMS, marketId, side: 'sell', price: 990_000 } as const
    await eventually(() => assert.rejects(empty.orders.place(sale), { code: 'INSUFFICIENT_FUNDS' }))
    await bob.orders.place({ ...TERMS, marketId, side: 'buy', price: 500_000 })
    await eventually(async () => {
      const [trade] = await ann.trades(marketId)
      assert.deepEqual([trade?.price, trade?.status], [500_000, 'confirmed'])
    })

    // A dead-man switch also fires if the front through which it was set is killed.
    await silent.falls()
    await front.kill()
    await silent.isCancelled(other.url)

    // Without a node for the books, a front is not ready.
    await Promise.all([serving.kill(), standing.kill()])
    await eventually(async () => assert.equal((await fetch(`${other.url}/readyz`)).status, 503))
  })
})

/** Returns a trader whose dead-man switch fires after one second: `falls` places an order and sets the switch. */
async function silentTrader(url: string, marketId: string) {
  const signer = devnetKey(12)
  const key = await registerApiKey({ url }, signer)
  const client = createClient(withApiKey({ url, signer }, key))
  const trader = devnetAccount(12).address
  return {
    async falls(): Promise<void> {
      await client.orders.place({ ...TERMS, marketId, side: 'buy', price: '0.1' })
      await client.orders.deadman(1_000)
    },
    async isCancelled(at: string): Promise<void> {
      const reader = createClient({ url: at })
      await eventually(async () => assert.deepEqual(await reader.orders.list({ trader }), []))
    },
  }
}

/**
 * Places resting orders through each client until `end` is called, one after the other and each at its own price.
 * Retries failed orders. With `refusals: 'told'`, also records each error.
 */
function startFlow(
  clients: readonly Client[],
  marketId: string,
  { refusals = 'healed' }: { refusals?: 'healed' | 'told' } = {},
) {
  const accepted: number[] = []
  const refused: string[] = []
  let ended = false
  let longestMs = 0
  const place = async (client: Client): Promise<void> => {
    while (!ended) {
      const price = nextPrice++
      const signed = await client.orders.sign({ ...TERMS, marketId, side: 'sell', price })
      const begunMs = performance.now()
      await eventually(async () => {
        try {
          await client.orders.submit(signed)
        } catch (error) {
          if (refusals === 'told') refused.push(String(error))
          throw error
        }
      })
      longestMs = Math.max(longestMs, performance.now() - begunMs)
      accepted.push(price)
      // The pause leaves CPU time to the nodes that are taking over.
      await new Promise((resolve) => setTimeout(resolve, 25))
    }
  }
  const done = Promise.all(clients.map(place))
  return {
    accepted,
    refused,
    longestMs: () => longestMs,
    async end(): Promise<readonly number[]> {
      ended = true
      await done
      return accepted
    },
  }
}

/**
 * Returns the units that this machine's IP address may still spend at a front; reading costs 1, requesting a key 100.
 */
async function leftAt(url: string, method = 'GET', path = '/api/v1/markets'): Promise<number> {
  const response = await fetch(`${url}${path}`, { method })
  await response.body?.cancel()
  const left = response.headers.get('ratelimit-remaining')
  assert(left !== null, 'requests are limited')
  return Number(left)
}

/** Returns the funds that are reserved for a trader's open orders, by token. */
async function reservedOf(client: Client): Promise<string[]> {
  const { tokens } = await client.funds()
  return tokens
    .map(({ token, marketId = '', reservedForOrders }) => [token, marketId, reservedForOrders])
    .map((each) => each.join(' '))
    .toSorted()
}

/** Each order has its own price, so the book shows which orders were accepted. */
let nextPrice = 500_000

async function sameAt(
  clients: readonly Client[],
  marketId: string,
  accepted: readonly number[],
): Promise<void> {
  const wanted = [...accepted].sort((a, b) => a - b)
  for (const client of clients) {
    await eventually(async () => {
      const { asks } = await client.orderbook(marketId, 'YES')
      assert.deepEqual(prices(asks), wanted)
    })
  }
}

/** Requests readiness from every front repeatedly, like a load balancer, and records the answers other than 200. */
function watchReadiness(urls: readonly string[]) {
  const unready: string[] = []
  let answers = 0
  let ended = false
  const watch = async (url: string): Promise<void> => {
    while (!ended) {
      const response = await fetch(`${url}/readyz`)
      const body = await response.text()
      if (response.status !== 200) unready.push(body)
      answers++
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  const done = Promise.all(urls.map(watch))
  return {
    answers: () => answers,
    async end(): Promise<readonly string[]> {
      ended = true
      await done
      return unready
    },
  }
}
