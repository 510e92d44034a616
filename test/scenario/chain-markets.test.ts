/**
 * An exchange on a real chain behind an unreliable provider. Its markets and positions equal the chain's: before and
 * after a kill, while the provider is unreachable, and after a reorg.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestChain } from '../support/chain.ts'
import { chainRefusal } from '../support/chain-refusal.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'
import { startRpcProxy } from '../support/rpc-proxy.ts'
import { fundForSync, syncBeforeConfirmations, syncWithoutConfirmations } from './position-sync.ts'

type Listed = {
  id: string
  question: string
  resolved: boolean
  chainId: number
  createdAt: number
}
type Page = { markets: Listed[]; count: number; nextCursor: string | null }

test('an exchange lists the markets of its chain', async (t) => {
  const chain = await startTestChain(t)
  const proxy = await startRpcProxy(chain.url)
  t.after(() => proxy.close())
  const first = await chain.createMarket()
  await fundForSync({ chain, marketId: first.id })
  const environment = {
    SIBYL_CHAINS: JSON.stringify([chain.settings]),
    SIBYL_CHAIN_RPC: proxy.url,
    // Nothing is settled or relayed here.
    SIBYL_SETTLEMENT: 'false',
    SIBYL_RELAYER_KEYS: '',
    SIBYL_READ_CACHE_MS: '0',
    SIBYL_INDEXER_POLL_MS: '50',
    SIBYL_INDEXER_RPC_TIMEOUT_MS: '1000',
    SIBYL_REQUEST_DEADLINE_MS: '8000',
    SIBYL_HEALTH_INTERVAL_MS: '1000',
  }

  await t.test(
    'an exchange refuses to start with a chain that does not match its settings',
    async () => {
      const withSettings = (changed: object) => ({
        ...environment,
        SIBYL_CHAINS: JSON.stringify([{ ...chain.settings, ...changed }]),
      })
      assert.match(
        await chainRefusal(withSettings({ chainId: 137 })),
        /^SIBYL_CHAIN_RPC: .* serves chain 31337, but the settings require chain 137$/,
      )
      const nothing = `0x${'12'.repeat(20)}`
      const contracts = { ...chain.settings.contracts, settlement: nothing }
      assert.match(
        await chainRefusal(withSettings({ contracts })),
        new RegExp(`^SIBYL_CHAINS: chain 31337 has no contract at ${nothing}$`),
      )
    },
  )

  // An unreachable chain does not stop the start: the exchange retries.
  proxy.faults = { down: true }
  const exchange = await startExchange(t, { environment })
  assert.equal((await fetch(`${exchange.url}/healthz`)).status, 200)
  proxy.faults = {}
  const place = { chain, proxy, exchange, marketId: first.id }
  const get = async (path: string): Promise<Response> => fetch(`${exchange.url}${path}`)
  const page = async (query = ''): Promise<Page> =>
    (await get(`/api/v1/markets${query}`)).json() as Promise<Page>
  const ids = async (query = '') => (await page(query)).markets.map(({ id }) => id)
  /** Waits until exactly these markets are listed, oldest first; markets of the same second are ordered by id. */
  const lists = (expected: readonly string[]) =>
    eventually(async () => {
      const { markets } = await page()
      const order = markets.toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
      assert.deepEqual(markets, order)
      assert.deepEqual(markets.map(({ id }) => id).sort(), expected.toSorted())
    })

  await t.test('markets that exist on the chain are listed, and new ones are opened', async () => {
    await eventually(async () => assert.deepEqual(await ids(), [first.id]))
    const second = await chain.createMarket()
    await lists([first.id, second.id])
    const market = (await page()).markets.find(({ id }) => id === second.id)
    assert.equal(market?.chainId, chain.settings.chainId)
    await eventually(async () => {
      // A book with seq 1 shows that the market thread serves the market: the opening was the book's first change.
      const book = (await (await get(`/api/v1/orderbook/${second.id}`)).json()) as { seq: number }
      assert.equal(book.seq, 1)
    })
  })

  await t.test(
    'if no confirmations are required, a sync of positions includes the newest block',
    (nested) => syncWithoutConfirmations(nested, place),
  )

  await t.test('the list of markets can be filtered and read page by page', async () => {
    const all = await ids()
    const one = await page('?limit=1')
    assert.deepEqual([one.markets[0]?.id, one.count], [all[0], 1])
    const two = await page(`?limit=1&cursor=${one.nextCursor}`)
    const next = await page(`?limit=1&cursor=${two.nextCursor}`)
    assert.deepEqual([next.count, next.nextCursor], [0, null])
    assert.equal(two.markets[0]?.id, all[1])
    assert.deepEqual(await ids('?search=RAIN'), all)
    assert.deepEqual(await ids('?search=snow'), [])
    assert.deepEqual(await ids('?category=defi'), [])
    assert.deepEqual(await ids('?category=general&resolved=false'), all)
    assert.deepEqual(await ids('?resolved=true'), [])
    assert.deepEqual(await ids(`?chain_id=${chain.settings.chainId}`), all)
    assert.deepEqual(await ids('?chain_id=1'), [])
    for (const bad of ['cursor=nonsense', 'limit=0', 'category=sports', 'search=']) {
      assert.equal((await get(`/api/v1/markets?${bad}`)).status, 400, bad)
    }
  })

  await t.test(
    'an unreachable chain is reported, and the exchange catches up when the chain is back',
    async () => {
      proxy.faults = { down: true }
      await eventually(async () => {
        const ready = await get('/readyz')
        // Trading needs no chain: the exchange is ready without one, and reports the unreachable chain.
        assert.equal(ready.status, 200)
        const { checks } = (await ready.json()) as {
          checks: Record<string, { ok: boolean; why: string; optional?: boolean }>
        }
        assert.equal(checks.indexer?.ok, false)
        assert.equal(checks.indexer.optional, true)
        assert.match(checks.indexer.why, /chain 31337/)
      })
      const third = await chain.createMarket()
      assert.equal((await page()).count, 2)
      proxy.faults = {}
      await eventually(async () => assert((await ids()).includes(third.id)))
      await eventually(async () => {
        const { checks } = (await (await get('/readyz')).json()) as {
          checks: Record<string, { ok: boolean }>
        }
        assert.equal(checks.indexer?.ok, true)
      })
      // The metrics omit a thread that is too busy to answer in time, so the test reads them repeatedly.
      await eventually(async () => {
        const metrics = await (await get('/metrics')).text()
        for (const name of ['head_block', 'indexed_block', 'lag_blocks', 'reorgs']) {
          assert(metrics.includes(`sibyl_chain_${name}{`), name)
        }
        assert(metrics.includes('sibyl_chain_rpc_errors_total{'))
      })
    },
  )

  await t.test(
    'after a kill, the exchange lists its earlier markets and the markets created on chain before its restart',
    async () => {
      const before = await page()
      await exchange.kill()
      const fourth = await chain.createMarket()
      await exchange.start()
      await lists([...before.markets.map(({ id }) => id), fourth.id])
    },
  )

  await t.test('a market that a reorg removes is not listed and accepts no orders', async () => {
    const before = await ids()
    const replace = await chain.fork()
    const gone = await chain.createMarket()
    await chain.mine(4)
    await lists([...before, gone.id])
    await replace(3)
    await eventually(async () => assert.deepEqual(await ids(), before))
    // The market's second event closes its book.
    await eventually(async () => {
      const book = (await (await get(`/api/v1/orderbook/${gone.id}`)).json()) as { seq: number }
      assert.equal(book.seq, 2)
    })
  })

  async function sendBuy(nonce?: bigint) {
    const terms = { price: 400_000n, size: 5n, ...(nonce === undefined ? {} : { nonce }) }
    const signed = await chain.buy(chain.ann, first.id, terms)
    return { order: signed.order, placed: await send(signed) }
  }

  function send({ order, r, vs }: Awaited<ReturnType<typeof chain.buy>>): Promise<Response> {
    const parity = BigInt(vs) >> 255n
    const low = (BigInt(vs) & (2n ** 255n - 1n)).toString(16).padStart(64, '0')
    return fetch(`${exchange.url}/api/v1/orders`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(
        { order, signature: `${r}${low}${(27n + parity).toString(16)}` },
        (_key, value) => (typeof value === 'bigint' ? String(value) : value),
      ),
    })
  }

  async function placeBuy(nonce?: bigint) {
    const { order, placed } = await sendBuy(nonce)
    assert.equal(placed.status, 200, await placed.text())
    return order
  }

  /** How much is bid for. */
  async function bidSize(): Promise<number> {
    const book = await (await get(`/api/v1/orderbook/${first.id}?outcome=YES`)).json()
    return (book as { bids: { size: number }[] }).bids.reduce((sum, { size }) => sum + size, 0)
  }

  await t.test('an order that its trader cancels on chain leaves the book', async () => {
    const order = await placeBuy()
    assert.equal(await bidSize(), 5)
    await chain.chain.send(chain.ann, chain.settlement, 'cancelOrders', [[order]])
    await eventually(async () => assert.equal(await bidSize(), 0))
  })

  await t.test('an order that was cancelled on chain before it was placed is refused', async () => {
    const signed = await chain.buy(chain.ann, first.id, { price: 400_000n, size: 6n })
    await chain.chain.send(chain.ann, chain.settlement, 'cancelOrders', [[signed.order]])
    // The front learns of the cancellation when it receives the block. An order that is placed before that is accepted,
    // and then cancelled.
    await eventually(async () => {
      const { code } = (await (await send(signed)).json()) as { code?: string }
      assert.equal(code, 'ORDER_CLOSED')
    })
    await eventually(async () => assert.equal(await bidSize(), 0))
  })

  await t.test(
    'all orders below a nonce leave the book when their trader cancels them on chain',
    async () => {
      for (const nonce of [7n, 900n, 1_000n, 2_000n]) await placeBuy(nonce)
      assert.equal(await bidSize(), 20)
      await chain.chain.send(chain.ann, chain.settlement, 'cancelAllBefore', [1_000n])
      await eventually(async () => assert.equal(await bidSize(), 10))
      const { placed } = await sendBuy(999n)
      assert.equal(placed.status, 409)
      const { error: _, ...refused } = (await placed.json()) as Record<string, string>
      assert.deepEqual(refused, { code: 'ORDER_NONCE_TOO_LOW', field: 'order.nonce' })
      assert.equal(await bidSize(), 10, 'it took nothing and rests nowhere')
      await chain.warp(7_201)
      await chain.chain.send(chain.ann, chain.settlement, 'cancelAllBefore', [10_000n])
      await eventually(async () => assert.equal(await bidSize(), 0))
    },
  )

  await t.test('a resolved market stays listed, also after a restart', async () => {
    await chain.warp(90_000)
    await chain.chain.send(chain.owner, chain.collateral, 'mint', [chain.bob.address, 10n ** 12n])
    await chain.chain.send(chain.bob, chain.collateral, 'approve', [first.address, 10n ** 12n])
    await chain.chain.send(chain.bob, first, 'propose', [false])
    await chain.warp(7_201)
    await chain.chain.send(chain.bob, first, 'settle', [])
    await eventually(async () => assert.deepEqual(await ids('?resolved=true'), [first.id]))
    await exchange.stop()
    const SIBYL_CHAINS = JSON.stringify([{ ...chain.settings, confirmations: 2 }])
    await exchange.start({ ...environment, SIBYL_CHAINS })
    await eventually(async () => assert.deepEqual(await ids('?resolved=true'), [first.id]))
  })

  await t.test('a sync of positions shows shares of a block that is not confirmed yet', () =>
    syncBeforeConfirmations(place),
  )
})
