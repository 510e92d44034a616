import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import Database from 'better-sqlite3'
import { createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { devnetAccount, devnetKey } from '#devnet/accounts.ts'
import type { FundsMessage } from '#protocol/shapes/stream.ts'
import type { Funds } from '#protocol/shapes/users.ts'
import { eventually } from '../support/eventually.ts'
import { type RpcProxy, startRpcProxy } from '../support/rpc-proxy.ts'
import { runAudit } from '../support/run-audit.ts'
import { openSettled, type SettledExchange, type Way } from '../support/settled.ts'

/** Two of the demo traders, and an account that never had funds. */
const ANN = 10
const BOB = 11
const EMPTY = 40
/** An account with dollars, without allowances and without ether. */
const PERMITTER = 41
/** Number of unfunded orders that a client may send; only one test here sends more. */
const UNFUNDED_BURST = 25

describe('an exchange reserves the funds of orders', () => {
  let s: SettledExchange
  let node: RpcProxy
  before(async () => {
    s = await openSettled({
      environment: {
        SIBYL_RISK_FUNDS: 'reserve',
        SIBYL_SETTLEMENT_BATCH_WAIT_MS: '20',
        SIBYL_INDEXER_POLL_MS: '100',
        SIBYL_LIMITS: 'true',
        SIBYL_TRUSTED_PROXIES: '127.0.0.1',
        SIBYL_ALLOW_OPEN_WRITES: 'true',
        SIBYL_LIMIT_UNFUNDED_BURST: String(UNFUNDED_BURST),
        SIBYL_LIMIT_UNFUNDED_PER_SECOND: '1',
      },
      async rpcUrl(chain) {
        node = await startRpcProxy(chain.url)
        return node.url
      },
    })
  })
  after(async () => {
    await s.dispose()
    await node.close()
  })

  const terms = (side: 'buy' | 'sell', size: string, price = '0.5') => ({
    ...{ marketId: s.marketId, outcome: 'YES' as const, ttlSeconds: 3_600 },
    ...{ side, size, price },
  })
  /** The SDK has no default node URL for the test chain, so the test passes the URL. */
  const onChain = (account: number) =>
    createClient({ url: s.exchange.url, signer: devnetKey(account), rpcUrl: s.chain.url }).chain
  const cashOf = (funds: Funds) => {
    const [cash] = funds.tokens
    assert(cash?.token === 'stablecoin')
    return cash
  }
  const codeOf = async (placing: Promise<unknown>) => {
    const error = await placing.then(
      () => undefined,
      (reason: unknown) => reason,
    )
    assert(error instanceof SibylError, 'it was refused')
    return error
  }
  const bookSize = async (): Promise<number> => {
    const { bids, asks } = await s.get<{ bids: unknown[]; asks: unknown[] }>(
      `/api/v1/orderbook/${s.marketId}`,
    )
    return bids.length + asks.length
  }

  it('an exchange that reserves funds reports this in its configuration', async () => {
    const { risk } = await s.clientOf(ANN).config()
    assert.equal(risk.funds, 'reserve')
  })

  it('an order of an empty wallet is refused with the missing amount, and validation reports the amount in advance', async () => {
    const client = s.clientOf(EMPTY)
    const buy = await codeOf(client.orders.place(terms('buy', '10')))
    assert.equal(buy.code, 'INSUFFICIENT_FUNDS')
    assert.equal(buy.status, 422)
    assert.match(buy.message, /5010000/)
    assert.equal(
      (await codeOf(client.orders.place(terms('sell', '10')))).code,
      'INSUFFICIENT_FUNDS',
    )
    const check = await client.orders.validate(await client.orders.sign(terms('buy', '10')))
    assert.equal(check.valid, false)
    assert.equal(check.errors[0]?.code, 'INSUFFICIENT_FUNDS')
    assert.equal(await bookSize(), 0)
  })

  it('after too many unfunded orders, an IP address can place no orders for a while but can cancel', async () => {
    const from = (account: number, ip: string) =>
      createClient({
        ...{ url: s.exchange.url, signer: devnetKey(account), retries: 0 },
        headers: () => ({ 'x-forwarded-for': ip }),
      })
    const crowded = '10.9.9.9'
    const placed = await from(BOB, crowded).orders.place(terms('buy', '1', '0.1'))
    const sender = from(EMPTY, crowded)
    const codes = new Map<string, number>()
    let last: SibylError
    // The limit allows one more unfunded order per second, so the loop may send more than `UNFUNDED_BURST`.
    do {
      last = await codeOf(sender.orders.place(terms('buy', '10')))
      codes.set(last.code, (codes.get(last.code) ?? 0) + 1)
    } while (last.code === 'INSUFFICIENT_FUNDS' && codes.get(last.code)! < 50 * UNFUNDED_BURST)
    assert.equal(last.code, 'RATE_LIMITED')
    assert.equal(last.status, 429)
    assert.match(last.message, /insufficient funds or the limits of a delegate: wait \d+ s/)
    assert(codes.get('INSUFFICIENT_FUNDS')! >= UNFUNDED_BURST)
    // The limit counts the unfunded orders of all clients of an IP address together. Once concurrent orders have used
    // up the limit, Bob's funded order is refused, too.
    const bob = from(BOB, crowded)
    await eventually(async () => {
      const many = Array.from({ length: 5 }, () => codeOf(sender.orders.place(terms('buy', '10'))))
      await Promise.all(many)
      const extra = bob.orders.place(terms('buy', '1', '0.1'))
      const { code } = await codeOf(
        extra.then((taken) => bob.orders.cancel({ ...taken, marketId: s.marketId })),
      )
      assert.equal(code, 'RATE_LIMITED')
    })
    await bob.orders.cancel({ ...placed, marketId: s.marketId })
    const elsewhere = await codeOf(from(EMPTY, '10.9.9.8').orders.place(terms('buy', '10')))
    assert.equal(elsewhere.code, 'INSUFFICIENT_FUNDS')
    assert.equal(await bookSize(), 0)
  })

  it('funds are reserved for open orders, and after a partial fill for the unfilled quantity', async () => {
    const ann = s.clientOf(ANN)
    const bob = s.clientOf(BOB)
    const received: FundsMessage[] = []
    const stream = bob.stream()
    const { chainId } = await bob.funds()
    const trader = devnetAccount(BOB).address
    await stream.funds({ trader, chainId }, (message) => void received.push(message)).ready
    const first = cashOf(await bob.funds())
    assert.equal(first.reservedForOrders, '0')

    await bob.orders.place(terms('buy', '10'))
    const open = await eventually(async () => {
      const cash = cashOf(await bob.funds())
      assert.equal(cash.reservedForOrders, '5010000')
      return cash
    })
    assert.equal(BigInt(open.free), BigInt(first.free) - 5_010_000n)

    await ann.orders.place(terms('sell', '4'))
    await eventually(async () => {
      const { trades } = await s.get<{ trades: Way[] }>(`/api/v1/trades/${s.marketId}`)
      assert.equal(trades[0]?.status, 'confirmed')
    })
    await eventually(async () => {
      const cash = cashOf(await bob.funds())
      assert.equal(cash.reservedForTrades, '0')
      assert.equal(cash.reservedForOrders, '3010000')
      assert.equal(BigInt(cash.held), BigInt(first.held) - 2_000_000n)
    })
    await eventually(() => {
      const last = received.at(-1)
      assert(last !== undefined)
      assert.equal(cashOf(last).reservedForOrders, '3010000')
      assert.equal(received[0]?.type, 'funds.snapshot')
    })
    stream.close()
  })

  it('a replacement reserves its own funds, and releases those of the order that it replaces', async () => {
    const bob = s.clientOf(BOB)
    const reserves = (amount: string) =>
      eventually(async () => assert.equal(cashOf(await bob.funds()).reservedForOrders, amount))
    const first = await bob.orders.place(terms('buy', '4', '0.25'))
    await reserves('4020000')
    const replaces = first.orderHash
    const second = await bob.orders.place({ ...terms('buy', '8', '0.25'), replaces })
    await reserves('5020000')
    // If a replacement is refused for insufficient funds, the order that it would replace stays open and keeps its
    // reservation.
    const large = { ...terms('buy', '9000000', '0.25'), replaces: second.orderHash }
    assert.equal((await codeOf(bob.orders.place(large))).code, 'INSUFFICIENT_FUNDS')
    assert((await bob.orders.list()).some(({ orderHash }) => orderHash === second.orderHash))
    await reserves('5020000')
    const [moved, gone] = await bob.orders.placeBatch([
      { ...terms('buy', '2', '0.25'), replaces: second.orderHash },
      { ...terms('buy', '2', '0.26'), replaces },
    ])
    assert(moved?.ok && gone !== undefined && !gone.ok)
    assert.equal(gone.error.code, 'ORDER_CLOSED')
    await reserves('3520000')
    await bob.orders.cancel({ orderHash: moved.placed.orderHash, marketId: s.marketId })
    await reserves('3010000')
  })

  it('when a trader’s funds no longer cover all open orders, the newest orders are cancelled first', async () => {
    const bob = s.clientOf(BOB)
    const kept = await bob.orders.place(terms('buy', '2', '0.25'))
    const lost = await bob.orders.place(terms('buy', '4', '0.25'))
    const { held } = cashOf(await bob.funds())
    // The remaining funds cover the two older orders, but not the newest.
    const keep = 3_010_000n + 510_000n + 400_000n
    await onChain(BOB).transfer(devnetAccount(ANN).address, BigInt(held) - keep)
    await eventually(async () => {
      const open = await bob.orders.list()
      assert.equal(open.length, 2)
      assert(open.some(({ orderHash }) => orderHash === kept.orderHash))
      assert(!open.some(({ orderHash }) => orderHash === lost.orderHash))
    })
    const again = await codeOf(bob.orders.place(terms('buy', '4', '0.25')))
    assert.equal(again.code, 'INSUFFICIENT_FUNDS')
    // The exchange accepted this order before it withdrew it, so a cancel gets the answer that the order is closed.
    assert.match(
      (await codeOf(bob.orders.cancel({ ...lost, marketId: s.marketId }))).code,
      /CLOSED/,
    )
  })

  it('if an open order’s permit is used on chain, the order is cancelled unless the allowance covers it', async () => {
    const { chain, collateral, owner, settlement, usdcPermit } = s.chain
    const trader = devnetAccount(PERMITTER)
    const client = s.clientOf(PERMITTER)
    await chain.send(owner, collateral, 'mint', [trader.address, 10_000_000n])
    const deadline = BigInt(Math.floor(Date.now() / 1_000) + 7_200)
    // The second permit replaces the allowance of the first, so its value must cover both orders.
    const worthOf = (nonce: bigint) => 110_000n * (nonce + 1n)
    const permit = (nonce: bigint, spender: `0x${string}`, value: bigint) =>
      usdcPermit(trader, spender, value, { nonce, deadline })
    const place = async (nonce: bigint, value = worthOf(nonce)) => {
      const { v, r, s: low } = await permit(nonce, settlement.address, value)
      const texts = { nonce: String(nonce), value: String(value), deadline: String(deadline) }
      const permitSignature = { ...texts, v, r, s: low }
      return client.orders.place({ ...terms('buy', '1', '0.1'), permitSignature })
    }
    const use = async (nonce: bigint, spender = settlement.address) => {
      const value = worthOf(nonce)
      const { v, r, s: low } = await permit(nonce, spender, value)
      const args = [trader.address, spender, value, deadline, v, r, low] as const
      await chain.send(owner, collateral, 'permit', [...args])
    }
    const open = async () => (await client.orders.list()).map(({ orderHash }) => orderHash)

    await eventually(async () => assert.equal(cashOf(await client.funds()).held, '10000000'))
    const early = await codeOf(place(1n))
    assert.deepEqual([early.code, early.field], ['INVALID_PERMIT', 'permitSignature.nonce'])
    assert.match(early.message, /must be 0: the trader's next permit nonce at the stablecoin is 0/)
    const first = await place(0n)
    const narrow = await codeOf(place(1n, worthOf(1n) - 1n))
    assert.deepEqual([narrow.code, narrow.field], ['INVALID_PERMIT', 'permitSignature.value'])
    const second = await place(1n)
    assert.deepEqual(await open(), [first.orderHash, second.orderHash])
    // A permit for another spender uses up nonce 0, so the first order's permit is no longer valid.
    await use(0n, owner.address)
    await eventually(async () => assert.deepEqual(await open(), [second.orderHash]))
    const reason = await eventually(async () => {
      const database = new Database(join(s.exchange.dataDir, 'sibyl.db'), { readonly: true })
      const hash = Buffer.from(first.orderHash.slice(2), 'hex')
      const row = database.prepare('select status from orders where order_hash = ?').get(hash)
      database.close()
      const { status } = row as { status: string }
      assert.notEqual(status, 'open')
      return status
    })
    assert.equal(reason, 'unfunded')
    // A stranger submits the permit of the second order. The resulting allowance covers the second order.
    await use(1n)
    await eventually(async () =>
      assert.equal(cashOf(await client.funds()).allowed, String(worthOf(1n))),
    )
    assert.deepEqual(await open(), [second.orderHash])
    const used = await codeOf(place(1n))
    assert.match(used.message, /must be 2: /)
    await client.orders.cancel({ ...second, marketId: s.marketId, side: 'buy' })
  })

  it('after a kill, the reservations of funds are the same as before', async () => {
    const before = cashOf(await s.clientOf(BOB).funds())
    await s.exchange.kill()
    await s.exchange.start()
    const bob = s.clientOf(BOB)
    await eventually(async () => assert.deepEqual(cashOf(await bob.funds()), before))
    assert.equal(before.reservedForOrders, '3520000')
    const refused = await codeOf(bob.orders.place(terms('buy', '4', '0.25')))
    assert.equal(refused.code, 'INSUFFICIENT_FUNDS')
    await bob.orders.place(terms('buy', '1', '0.25'))
  })

  it('the audit accepts correct reservations of funds, and reports a reservation for an order that has ended', async () => {
    const environment = {
      SIBYL_CHAINS: JSON.stringify([{ ...s.chain.settings, rpcUrls: [node.url] }]),
      SIBYL_DATA_DIR: s.exchange.dataDir,
      SIBYL_DEVNET: 'false',
    }
    const good = await runAudit(environment, ['--url', s.exchange.url])
    assert.equal(good.code, 0, good.said)
    assert.match(good.said, /reservations of [1-9]\d* traders compared with/)
    // The database now shows the newest open order as ended, but its funds are still reserved.
    const database = new Database(join(s.exchange.dataDir, 'sibyl.db'))
    const forget = database.prepare(
      `update orders set status = 'cancelled' where rowid =
        (select max(rowid) from orders where status = 'open') returning hex(order_hash) as hash`,
    )
    const { hash } = forget.get() as { hash: string }
    try {
      const bad = await runAudit(environment, ['--url', s.exchange.url])
      assert.equal(bad.code, 1, bad.said)
      assert.match(
        bad.said,
        /stablecoin reserved for 0x\w+ on chain \d+: the exchange has 3780000 for orders, .* but should have 3520000 for orders/,
      )
    } finally {
      database.prepare(`update orders set status = 'open' where hex(order_hash) = ?`).run(hash)
      database.close()
    }
  })

  it('while the database cannot be written, the exchange still updates the reservations of funds', async () => {
    const bob = s.clientOf(BOB)
    const before = cashOf(await bob.funds())
    const database = new Database(join(s.exchange.dataDir, 'sibyl.db'))
    try {
      database.exec('begin immediate')
      const placed = await bob.orders.place(terms('buy', '0.2', '0.25'))
      const free = BigInt(before.free) - 60_000n
      await eventually(async () => {
        const cash = cashOf(await bob.funds())
        assert.equal(BigInt(cash.reservedForOrders), BigInt(before.reservedForOrders) + 60_000n)
        assert.equal(BigInt(cash.free), free)
      })
      // An order for all of Bob's remaining funds is refused, because fills may cost some units more by rounding.
      const rest = terms('buy', String(Number(free) / 250_000), '0.25')
      assert.equal((await codeOf(bob.orders.place(rest))).code, 'INSUFFICIENT_FUNDS')
      await bob.orders.cancel({ ...placed, marketId: s.marketId })
      await eventually(async () => assert.deepEqual(cashOf(await bob.funds()), before))
    } finally {
      database.close()
    }
  })

  it('while its chain is unreachable, the exchange accepts cancels and reads, and refuses new orders with the reason', async () => {
    const bob = s.clientOf(BOB)
    node.faults = { down: true }
    try {
      await eventually(async () => {
        const refused = await codeOf(bob.orders.place(terms('buy', '0.5', '0.25')))
        assert.equal(refused.code, 'CHAIN_UNAVAILABLE')
        assert.equal(refused.status, 503)
        assert.match(refused.message, /chain/)
      })
      assert.equal((await fetch(`${s.exchange.url}/readyz`)).status, 200)
      const open = await bob.orders.list()
      const [order] = open
      assert(order !== undefined)
      const { orderHash, marketId } = order
      await bob.orders.cancel({ orderHash, marketId, side: 'buy' })
      assert.equal((await bob.orders.list()).length, open.length - 1)
      assert.equal((await fetch(`${s.exchange.url}/readyz`)).status, 200)
    } finally {
      node.faults = {}
    }
    await eventually(() => bob.orders.place(terms('buy', '0.5', '0.25')))
  })
})
