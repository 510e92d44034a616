import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type NeedsOrder,
  type NeedsTrade,
  needOf,
  outcomeToken,
  STABLECOIN,
} from '#domain/funds.ts'
import type { MarketId, Sequence, TradeId, Uint64 } from '#domain/ids.ts'
import type { Matching } from '#domain/market.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, NO, type PermitSignature, SELL, YES } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import type { FundsView, ReserveOrder } from '#protocol/accounts.ts'
import { makeShadow } from '#services/accounts/shadow.ts'
import type { AccountsRules, LoadedAccounts } from '#services/accounts/state.ts'
import { statusOf } from '#services/accounts/view.ts'
import {
  buy,
  hashNamed,
  nameOf,
  type OrderBuilder,
  sell,
  traderNamed,
} from '../../support/orders.ts'
import { given, MARKET_ID, START_SEC } from '../market/market-fixture.ts'
import { driven, later } from './accounts-fixture.ts'
import { modelChain } from './model-chain.ts'

const CHAIN_ID = 31_337
const YES_TOKEN = outcomeToken(MARKET_ID, YES)
const NO_TOKEN = outcomeToken(MARKET_ID, NO)
const units = (amount: number): bigint => BigInt(Math.round(amount * 1_000_000))

type More = {
  readonly loaded?: Partial<LoadedAccounts>
  readonly rules?: Partial<AccountsRules>
  readonly matching?: Matching
}

/** Makes an actor, not started yet, with one market, one chain and one partition. */
function unstarted({ loaded = {}, rules = {}, matching = 'same-outcome' }: More = {}) {
  const chain = modelChain(CHAIN_ID)
  const market = given({ market: { matching } })
  const trades = new Map<TradeId, NeedsTrade>()
  const database: LoadedAccounts = {
    checkpoints: [{ partition: 0, offset: 0 }],
    markets: [],
    orders: [],
    trades: [],
    ...loaded,
  }
  const away = { isAway: false }
  const actor = driven(
    {
      load: () =>
        later(() => {
          if (away.isAway) throw new Error('the database is away')
          return database
        }),
      chains: [chain.port()],
      tradeKeyOf: (_chainId, { tradeId }) => `key ${tradeId}`,
      areSettled: (_chainId, asked, at) =>
        later(() => {
          const { block } = chain.there(at)
          return asked.map(({ tradeKey }) => (chain.minedIn.get(tradeKey) ?? block + 1) <= block)
        }),
      readTrades: (ids) => later(() => ids.flatMap((id) => trades.get(id) ?? [])),
    },
    rules,
  )
  let read = 0
  const its = {
    chain,
    market,
    actor,
    trades,
    database: away,
    /** Changes the funds of a trader on the chain, from the next block on. Amounts are whole dollars and shares. */
    fund(
      name: string,
      funds: {
        dollars?: number
        allowed?: number
        yes?: number
        no?: number
        approved?: boolean
      },
    ) {
      const trader = traderNamed(name)
      const { dollars, allowed, yes, no, approved } = funds
      if (dollars !== undefined) chain.change(trader, { balance: units(dollars) })
      if (allowed !== undefined) chain.change(trader, { allowance: units(allowed) })
      if (approved !== undefined) chain.change(trader, { isApproved: approved })
      for (const [token, held] of [
        [YES_TOKEN, yes],
        [NO_TOKEN, no],
      ] as const) {
        if (held === undefined) continue
        chain.hold(trader, token, units(held) - (chain.wallet(trader).tokens.get(token) ?? 0n))
      }
    },
    feed(caughtUp = true) {
      const events = market.events.slice(read)
      read = market.events.length
      const end = caughtUp ? { caughtUpAtMs: actor.nowMs } : {}
      actor.ask('Logged', { partition: 0, events, toOffset: read, ...end })
    },
    /** Advances the time by a second, and answers all requests. */
    tick() {
      actor.nowMs += 1_000
      actor.ask('Tick', {})
      actor.deliverAll()
    },
    step() {
      chain.mine()
      its.tick()
    },
    reserving(builder: OrderBuilder, more: Partial<ReserveOrder> = {}) {
      const { orderHash, trader, side, outcome, price, size } = builder.fields
      const named = { orderHash, marketId: MARKET_ID, trader, side, outcome, price, size }
      const order: ReserveOrder = { chainId: CHAIN_ID, permit: undefined, ...named, ...more }
      return actor.ask('Reserve', { order, deadlineAtMs: actor.nowMs + 3_000 })
    },
    reserve(builder: OrderBuilder, more: Partial<ReserveOrder> = {}): string {
      const answer = its.reserving(builder, more)
      actor.deliverAll()
      return words(actor.answerOf(answer))
    },
    /** Reserves the funds of an order, places the order, and lets the actor read it from the log. */
    place(builder: OrderBuilder) {
      assert.equal(its.reserve(builder), 'granted')
      market.place(builder)
      its.feed()
    },
    settle(taker: string) {
      const { size, buy: bought, sell: sold } = market.reportOf(taker, {})
      const cost = BigInt(Math.ceil((bought.price * size) / 1_000_000))
      const buyer = chain.wallet(bought.trader)
      chain.change(bought.trader, {
        balance: buyer.balance - cost,
        allowance: buyer.allowance - cost,
      })
      chain.change(sold.trader, { balance: chain.wallet(sold.trader).balance + cost })
      chain.hold(sold.trader, YES_TOKEN, -BigInt(size))
      chain.hold(bought.trader, YES_TOKEN, BigInt(size))
      its.settleOnly(taker)
    },
    /** Settles the taker's trade on the chain without moving dollars or shares. */
    settleOnly(taker: string) {
      const { tradeId, buy: bought, sell: sold } = market.reportOf(taker, {})
      chain.settle({
        tradeKey: `key ${tradeId}`,
        buyer: bought.trader,
        seller: sold.trader,
        buyOrderHash: bought.orderHash,
        sellOrderHash: sold.orderHash,
      })
    },
    report(
      taker: string,
      status: 'confirmed' | 'failed' | 'reverted',
      fault: 'none' | 'seller' = 'none',
    ) {
      const report = market.reportOf(taker, { status, fault })
      market.ask('ReportTrade', { marketId: MARKET_ID, report })
      its.feed()
    },
    /** Returns a trader's funds in one token as text: held, allowed, open, pending, free, in units. */
    funds(name: string, token: string = 'stablecoin'): string {
      const trader = traderNamed(name)
      const answer = actor.ask('Funds', {
        chainId: CHAIN_ID,
        trader,
        deadlineAtMs: actor.nowMs + 1,
      })
      actor.deliverAll()
      const view = actor.answerOf(answer) as FundsView
      const found = view.tokens.find((one) => one.token === token)
      if (found === undefined) return 'none'
      const { held, allowed, reservedOpen, reservedPending, free } = found
      const told = [held, allowed, reservedOpen, reservedPending, free].map(
        (it) => Number(it) / 1e6,
      )
      return `${told[0]} held, ${told[1]} allowed, ${told[2]} open, ${told[3]} pending, ${told[4]} free`
    },
    withdrawn: () => actor.said('Withdrawn').flatMap(({ orderHashes }) => orderHashes.map(nameOf)),
  }
  return its
}

function words(answer: unknown): string {
  if (answer === undefined) return 'waits'
  if (!isRejection(answer)) return 'granted'
  return answer.detail === undefined ? answer.rejected : `${answer.rejected}: ${answer.detail}`
}

function started(more: More = {}) {
  const its = unstarted(more)
  its.market.open()
  its.tick()
  its.feed()
  its.tick()
  its.actor.nowMs += 1
  its.feed()
  its.tick()
  return its
}

const ann = (name: string) => buy('YES').at(0.42).size(10).by('ann').named(name)

test('buy orders reserve their cost plus rounding, at most one dollar per share; sell orders reserve shares', () => {
  const price = 420_000 as Price
  assert.equal(needOf({ side: BUY, price }, 10_000_000 as Shares), 4_210_000)
  assert.equal(needOf({ side: BUY, price }, 3 as Shares), 3)
  assert.equal(needOf({ side: SELL, price }, 10_000_000 as Shares), 10_000_000)
})

test('funds reserved for one order are not available to the next order', () => {
  const its = started()
  its.fund('ann', { dollars: 5, allowed: 100 })
  its.step()
  assert.equal(its.reserve(ann('a')), 'granted')
  assert.equal(its.funds('ann'), '5 held, 100 allowed, 4.21 open, 0 pending, 0.79 free')
  assert.equal(
    its.reserve(ann('b')),
    'INSUFFICIENT_FUNDS: the order needs 4210000 millionths of the stablecoin, but 3420000 are missing: ' +
      'the trader has 5000000, open orders reserve 4210000, and unsettled trades reserve 0',
  )
  assert.equal(its.reserve(ann('c').size(1)), 'granted')
})

test('after a mint is matched, both buyers’ payments stay reserved until the mint settles or fails', () => {
  const its = started({ matching: 'complementary' })
  for (const name of ['ann', 'bob']) its.fund(name, { dollars: 10, allowed: 10 })
  its.step()
  its.place(buy('YES').at(0.6).size(10).by('ann').named('a'))
  assert.equal(its.funds('ann'), '10 held, 10 allowed, 6.01 open, 0 pending, 3.99 free')
  its.place(buy('NO').at(0.45).size(10).by('bob').named('b'))
  // The maker pays its price. The taker pays the rest of the dollar.
  assert.equal(its.funds('ann'), '10 held, 10 allowed, 0 open, 6 pending, 4 free')
  assert.equal(its.funds('bob'), '10 held, 10 allowed, 0 open, 4 pending, 6 free')
  assert.match(
    its.reserve(buy('NO').at(0.65).size(10).by('bob').named('c')),
    /^INSUFFICIENT_FUNDS: .* open orders reserve 0, and unsettled trades reserve 4000000/,
  )
  // The taker, who counts as the seller, cannot pay, so the trade fails. The maker's order is open again and needs its
  // funds again.
  its.report('b', 'failed', 'seller')
  assert.equal(its.funds('ann'), '10 held, 10 allowed, 6.01 open, 0 pending, 3.99 free')
  assert.equal(its.funds('bob'), '10 held, 10 allowed, 0 open, 0 pending, 10 free')
})

test('the shares of both sellers of a merge stay reserved until the merge settles', () => {
  const its = started({ matching: 'complementary' })
  its.fund('ann', { yes: 10, approved: true })
  its.fund('bob', { no: 12, approved: true })
  its.step()
  its.place(sell('YES').at(0.3).size(10).by('ann').named('a'))
  its.place(sell('NO').at(0.5).size(10).by('bob').named('b'))
  assert.match(its.funds('ann', YES_TOKEN), /^10 held, .* 0 open, 10 pending, 0 free$/)
  assert.match(its.funds('bob', NO_TOKEN), /^12 held, .* 0 open, 10 pending, 2 free$/)
  assert.match(
    its.reserve(sell('NO').at(0.5).size(3).by('bob').named('c')),
    /^INSUFFICIENT_FUNDS: .* 1000000 are missing: .* unsettled trades reserve 10000000$/,
  )
})

test('a buy order is refused if the trader has no allowance and the order has no permit', () => {
  const its = started()
  its.fund('ann', { dollars: 50, allowed: 5 })
  its.step()
  its.place(ann('a'))
  assert.match(
    its.reserve(ann('b')),
    /^INSUFFICIENT_ALLOWANCE: .* the allowance is 5000000, open orders reserve 4210000/,
  )
  assert.equal(its.reserve(ann('c'), { permit: '0' as Uint64 }), 'granted')
  const another =
    /^INVALID_PERMIT: permitSignature .* processing the same order with the permit of nonce 0/
  assert.match(its.reserve(ann('c')), another, 'the same order without it')
  assert.match(its.reserve(ann('c'), { permit: '1' as Uint64 }), another)
  assert.equal(its.reserve(ann('c'), { permit: '0' as Uint64 }), 'granted')
})

const permitted = (nonce: number) => ({ permit: String(nonce) as Uint64 })

/** Makes a world in which Ann has dollars and no allowance, and her next permit nonce is 5. */
function withPermits() {
  const its = started()
  its.fund('ann', { dollars: 50, allowed: 0 })
  its.chain.change(traderNamed('ann'), { nonce: 5n })
  its.step()
  return {
    ...its,
    /** Places a buy with a permit that has this nonce. */
    placeWith(name: string, nonce: number) {
      assert.equal(its.reserve(ann(name), permitted(nonce)), 'granted')
      const before = its.market.events.length
      its.market.place(ann(name))
      // The test market cannot place orders with permits, so the test adds the permit to the order's event.
      for (const [at, event] of its.market.events.entries()) {
        if (at < before || event.type !== 'OrderRested' || event.order === undefined) continue
        const permit = { nonce: String(nonce) } as PermitSignature
        its.market.events[at] = { ...event, order: { ...event.order, permit } }
      }
      its.feed()
    },
  }
}

test('a permit must use the trader’s first stablecoin nonce that no permit of an open order uses', () => {
  const its = withPermits()
  const wrong = (nonce: number) => its.reserve(ann('x'), permitted(nonce))
  const next5 =
    /^INVALID_PERMIT: permitSignature.nonce must be 5: the trader's next permit nonce .* is 5 at/
  for (const nonce of [0, 4, 6]) assert.match(wrong(nonce), next5)
  its.placeWith('a', 5)
  its.placeWith('b', 6)
  const next7 =
    /^INVALID_PERMIT: .* must be 7: .* is 5 at .* 2 open orders of the trader use the next nonces/
  for (const nonce of [4, 5, 6, 8]) assert.match(wrong(nonce), next7)
  assert.equal(wrong(7), 'granted')
  its.step()
  assert.deepEqual(its.withdrawn(), [])
})

test('if an order’s permit was used on chain, the order is cancelled unless the allowance covers it', () => {
  const its = withPermits()
  its.placeWith('a', 5)
  its.placeWith('b', 6)
  its.chain.change(traderNamed('ann'), { nonce: 6n, allowance: units(4.2) })
  its.step()
  assert.deepEqual(its.withdrawn(), [], 'the stranger brought the allowance of the first')
  its.chain.change(traderNamed('ann'), { nonce: 7n, allowance: units(4.2) })
  its.step()
  assert.deepEqual(its.withdrawn(), ['b'], 'it covers one of the two')
  its.chain.change(traderNamed('ann'), { allowance: 0n })
  its.step()
  assert.deepEqual(its.withdrawn(), ['b', 'a'])
})

test('if a trader uses a permit’s nonce elsewhere, the order with this permit is cancelled', () => {
  const its = withPermits()
  its.placeWith('a', 5)
  its.chain.change(traderNamed('ann'), { nonce: 6n })
  its.step()
  assert.deepEqual(its.withdrawn(), ['a'])
})

test('if an order with a permit ends, the trader’s orders with later permits are cancelled', () => {
  const its = withPermits()
  its.placeWith('a', 5)
  its.placeWith('b', 6)
  its.market.cancel('a', 'buy')
  its.feed()
  assert.deepEqual(its.withdrawn(), ['b'], 'the chain would not take its permit')
  assert.match(its.reserve(ann('c'), permitted(7)), /^INVALID_PERMIT: .* must be 5: /)
  assert.match(
    its.reserve(ann('c'), permitted(5)),
    /^INVALID_PERMIT: 1 open orders .* higher nonce/,
  )
  its.market.cancel('b', 'buy')
  its.feed()
  assert.equal(its.reserve(ann('c'), permitted(5)), 'granted')
})

test('a trader can have at most 32 unused permits', () => {
  const its = withPermits()
  for (let at = 0; at < 32; at++) {
    assert.equal(its.reserve(ann(`o${at}`).size(1), permitted(5 + at)), 'granted')
  }
  assert.match(
    its.reserve(ann('x').size(1), permitted(37)),
    /^INVALID_PERMIT: .*which is the maximum/,
  )
})

test('the value of a trader’s later permit must also cover the cost of the trader’s earlier open orders', () => {
  const its = withPermits()
  const wide = (nonce: number, value: bigint) => ({
    ...permitted(nonce),
    permitValue: String(value),
  })
  const need = units(4.21)
  assert.equal(its.reserve(ann('a'), wide(5, need)), 'granted')
  assert.match(
    its.reserve(ann('b'), wide(6, 2n * need - 1n)),
    /^INVALID_PERMIT: permitSignature.value must be at least 8420000: .* 4210000 for other buys and 4210000 for/,
  )
  assert.equal(its.reserve(ann('b'), wide(6, 2n * need)), 'granted')
  assert.match(its.reserve(ann('c'), wide(7, 2n * need)), /at least 12630000/)
})

test('an order that is being placed cannot be sent again with a permit of lower value', () => {
  const its = withPermits()
  const permit = (nonce: number, value: bigint) => ({
    ...permitted(nonce),
    permitValue: String(value),
  })
  const need = units(4.21)
  assert.equal(its.reserve(ann('a'), permit(5, need)), 'granted')
  assert.equal(its.reserve(ann('b'), permit(6, 2n * need)), 'granted')
  // The order is submitted twice at the same time, and the market may handle either submission first. So a second
  // submission with a permit of lower value is refused.
  assert.match(
    its.reserve(ann('b'), permit(6, need)),
    /^INVALID_PERMIT: permitSignature must not change: .* with the permit of nonce 6 and value 8420000$/,
  )
  assert.equal(its.reserve(ann('b'), permit(6, 2n * need)), 'granted')
})

test('after a restart, the accounts thread remembers the permit nonces of open orders', () => {
  const orders = [
    { ...RESTING, permit: '5' as Uint64 },
    { ...RESTING, orderHash: hashNamed('new'), permit: '6' as Uint64 },
  ]
  const its = unstarted({ loaded: { markets: MARKETS, orders } })
  its.fund('ann', { dollars: 50, allowed: 0 })
  its.chain.change(traderNamed('ann'), { nonce: 5n })
  its.chain.mine()
  its.tick()
  for (let turn = 0; turn < 3; turn++) {
    its.actor.nowMs++
    its.feed()
    its.tick()
  }
  assert.deepEqual(its.withdrawn(), [])
  assert.match(its.reserve(ann('x'), permitted(5)), /^INVALID_PERMIT: .* must be 7: /)
  assert.equal(its.reserve(ann('x'), permitted(7)), 'granted')
})

test('a sell order needs shares and the approval for them', () => {
  const its = started()
  its.fund('bob', { yes: 10 })
  its.step()
  const offer = sell('YES').at(0.5).size(10).by('bob')
  assert.match(its.reserve(offer.named('a')), /^INSUFFICIENT_ALLOWANCE: .* has not approved/)
  its.fund('bob', { approved: true })
  its.step()
  assert.equal(its.reserve(offer.named('a')), 'granted')
  assert.match(
    its.reserve(offer.named('b')),
    /^INSUFFICIENT_FUNDS: .*YES shares of this market, but 10000000/,
  )
})

test('validation of an order reserves no funds', () => {
  const its = started()
  its.fund('ann', { dollars: 5, allowed: 5 })
  its.step()
  const { orderHash, trader, side, outcome, price, size } = ann('a').fields
  const order = { chainId: CHAIN_ID, marketId: MARKET_ID, permit: undefined }
  const asked = { ...order, orderHash, trader, side, outcome, price, size }
  const answer = its.actor.ask('Check', { order: asked, deadlineAtMs: its.actor.nowMs + 1_000 })
  its.actor.deliverAll()
  assert.deepEqual(its.actor.answerOf(answer), { granted: true })
  assert.equal(its.funds('ann'), '5 held, 5 allowed, 0 open, 0 pending, 5 free')
})

test('a match moves the reserved amount from the open order to the pending trade, at the trade’s price', () => {
  const its = started()
  its.fund('ann', { dollars: 10, allowed: 10 })
  its.fund('bob', { yes: 4, approved: true })
  its.step()
  its.place(sell('YES').at(0.4).size(4).by('bob').named('s'))
  its.place(ann('a'))
  assert.equal(its.funds('ann'), '10 held, 10 allowed, 2.53 open, 1.6 pending, 5.87 free')
  assert.equal(its.funds('bob', YES_TOKEN), '4 held, 4 allowed, 0 open, 4 pending, 0 free')
})

/** Makes a world in which Ann has bought 4 shares from Bob at 0.40. */
function traded(more: More = {}) {
  const its = started(more)
  its.fund('ann', { dollars: 10, allowed: 10 })
  its.fund('bob', { yes: 4, approved: true })
  its.step()
  its.place(sell('YES').at(0.4).size(4).by('bob').named('s'))
  its.place(buy('YES').at(0.4).size(4).by('ann').named('a'))
  return its
}

test('the payment for a settled trade is deducted from the buyer’s free funds only once', () => {
  const its = traded()
  its.settle('a')
  its.step()
  assert.equal(its.funds('ann'), '8.4 held, 8.4 allowed, 0 open, 0 pending, 8.4 free')
  assert.equal(its.funds('bob'), '1.6 held, 0 allowed, 0 open, 0 pending, 0 free')
  its.report('a', 'confirmed')
  assert.equal(its.funds('ann'), '8.4 held, 8.4 allowed, 0 open, 0 pending, 8.4 free')
  assert.equal(its.actor.state.trades.size, 0)
})

test('funds for a confirmed trade stay reserved until the new balance has been read from the chain', () => {
  const its = traded()
  its.settle('a')
  its.chain.mine()
  its.report('a', 'confirmed')
  assert.equal(its.funds('ann'), '10 held, 10 allowed, 0 open, 1.6 pending, 8.4 free')
  its.tick()
  assert.equal(its.funds('ann'), '8.4 held, 8.4 allowed, 0 open, 0 pending, 8.4 free')
})

test('if the blocks read lack a confirmed trade, the accounts thread looks the trade up on chain', () => {
  const its = traded()
  const { tradeId } = its.market.reportOf('a', {})
  its.chain.minedIn.set(`key ${tradeId}`, its.chain.head)
  its.report('a', 'confirmed')
  assert.equal(its.actor.state.trades.size, 1)
  its.step()
  assert.equal(its.actor.state.trades.size, 0)
})

test('if a trade settles before its match is read from the log, no funds are reserved for the trade', () => {
  const its = started()
  its.fund('ann', { dollars: 10, allowed: 10 })
  its.fund('bob', { yes: 4, approved: true })
  its.step()
  its.place(sell('YES').at(0.4).size(4).by('bob').named('s'))
  const bid = buy('YES').at(0.4).size(4).by('ann').named('a')
  assert.equal(its.reserve(bid), 'granted')
  its.market.place(bid)
  its.settle('a')
  its.step()
  its.feed()
  assert.equal(its.funds('ann'), '8.4 held, 8.4 allowed, 0 open, 0 pending, 8.4 free')
})

test('after a sale settles, no seller’s orders are cancelled until the sale is read from the log', () => {
  for (const isShort of [false, true]) {
    const its = started()
    its.fund('ann', { dollars: 10, allowed: 10 })
    its.fund('bob', { yes: 6, approved: true })
    its.step()
    its.place(sell('YES').at(0.4).size(6).by('bob').named('s'))
    const bid = buy('YES').at(0.4).size(4).by('ann').named('a')
    assert.equal(its.reserve(bid), 'granted')
    its.market.place(bid)
    its.settle('a')
    // Bob's order has sold four shares and still offers two. If `isShort` is true, Bob has only one share left on the
    // chain.
    if (isShort) its.fund('bob', { yes: 1 })
    its.step()
    assert.deepEqual(its.withdrawn(), [], 'six seem to be offered')
    const more = sell('YES').at(0.4).size(1).by('bob').named('more')
    assert.match(
      its.reserve(more),
      /^OVERLOADED: the exchange is still reading the trades that the chain has settled/,
    )
    its.feed()
    assert.deepEqual(its.withdrawn(), isShort ? ['s'] : [])
    assert.match(its.reserve(more), /^INSUFFICIENT_FUNDS/)
  }
})

test('if a reorg removes a settled or confirmed trade, the funds of the trade are reserved again', () => {
  for (const confirmed of [false, true]) {
    const its = traded()
    its.settle('a')
    its.step()
    if (confirmed) its.report('a', 'confirmed')
    its.chain.reorg(1)
    its.step()
    assert.equal(its.funds('ann'), '10 held, 10 allowed, 0 open, 1.6 pending, 8.4 free')
    if (confirmed) its.report('a', 'reverted')
    assert.equal(its.funds('ann'), '10 held, 10 allowed, 0 open, 1.6 pending, 8.4 free')
    its.settle('a')
    its.step()
    assert.equal(its.funds('ann'), '8.4 held, 8.4 allowed, 0 open, 0 pending, 8.4 free')
  }
})

test('after missed chain events, orders are refused until the accounts thread has looked up which trades settled', () => {
  for (const isRead of [true, false]) {
    const its = started()
    its.fund('ann', { dollars: 5.9, allowed: 5.9 })
    its.fund('bob', { yes: 4, approved: true })
    its.step()
    its.place(sell('YES').at(0.4).size(4).by('bob').named('s'))
    its.place(ann('rests').at(0.3).size(10))
    const bid = buy('YES').at(0.4).size(4).by('ann').named('a')
    assert.equal(its.reserve(bid), 'granted')
    its.market.place(bid)
    if (isRead) its.feed()
    its.settle('a')
    its.chain.mine()
    its.chain.loseTrack()
    its.step()
    assert.match(
      its.reserve(ann('b').at(0.1).size(1)),
      /^OVERLOADED: the exchange is still reading the trades that the chain has settled/,
    )
    its.actor.nowMs++
    its.feed()
    its.tick()
    assert.deepEqual(its.withdrawn(), [])
    assert.equal(its.funds('ann'), '4.3 held, 4.3 allowed, 3.01 open, 0 pending, 1.29 free')
    assert.equal(its.reserve(ann('b').at(0.1).size(1)), 'granted')
  }
})

test('after a reorg, orders are refused until the funds of the removed trades are reserved again', () => {
  const its = traded()
  its.settle('a')
  its.step()
  its.report('a', 'confirmed')
  const { trade } = [...its.actor.state.chains.get(CHAIN_ID)!.over.values()][0]!
  its.actor.state.chains.get(CHAIN_ID)!.over.clear()
  its.trades.set(trade.tradeId, trade)
  its.chain.reorg(1)
  its.step()
  const report = its.market.reportOf('a', { status: 'reverted' })
  its.market.ask('ReportTrade', { marketId: MARKET_ID, report })
  its.feed()
  assert.match(
    its.reserve(ann('b').size(1)),
    /^OVERLOADED: .* trades that a chain reorg has undone/,
  )
  its.tick()
  assert.equal(its.funds('ann'), '10 held, 10 allowed, 0 open, 1.6 pending, 8.4 free')
})

/** Makes a world in which Ann, who has no allowance, has bought from Bob with a permit. */
function boughtWithPermit() {
  const its = started()
  its.fund('ann', { dollars: 10, allowed: 0 })
  its.fund('bob', { yes: 4, approved: true })
  its.step()
  its.place(sell('YES').at(0.4).size(4).by('bob').named('s'))
  const bid = buy('YES').at(0.4).size(4).by('ann').named('a')
  assert.equal(its.reserve(bid, { permit: '0' as Uint64 }), 'granted')
  const permit = { nonce: '0', value: '9999999', deadline: '9', v: 27, r: '0x', s: '0x' } as never
  its.market.place(bid)
  // The test market cannot place orders with permits, so the test adds the permit to the event of the match.
  for (const [index, event] of its.market.events.entries()) {
    if (event.type !== 'OrdersMatched') continue
    its.market.events[index] = { ...event, taker: { ...event.taker, permit } }
  }
  its.feed()
  return its
}

test('if a failed trade returns quantity to an order with a permit, the order’s funds are reserved again', () => {
  const its = boughtWithPermit()
  its.report('a', 'failed', 'seller')
  assert.equal(its.funds('ann'), '10 held, 0 allowed, 1.61 open, 0 pending, 0 free')
  its.step()
  assert.deepEqual(its.withdrawn(), [], 'its permit is known')
})

test('a buy order’s funds are reserved again if a reorg reverts its trade and the trade then fails', () => {
  const its = boughtWithPermit()
  its.chain.change(traderNamed('ann'), { allowance: units(10) })
  its.settle('a')
  its.step()
  its.report('a', 'confirmed')
  its.actor.state.chains.get(CHAIN_ID)!.over.clear()
  its.chain.reorg(1)
  its.report('a', 'reverted')
  its.report('a', 'failed', 'seller')
  its.step()
  assert.equal(its.funds('ann'), '10 held, 0 allowed, 1.61 open, 0 pending, 0 free')
  assert.deepEqual(its.withdrawn(), [], 'its permit is known')
})

test('a log event read twice leaves reserved funds unchanged, and a missing log event throws an error', () => {
  const its = traded()
  const { events } = its.market
  its.actor.ask('Logged', { partition: 0, events, toOffset: events.length })
  assert.equal(its.funds('ann'), '10 held, 10 allowed, 0 open, 1.6 pending, 8.4 free')
  const later = { ...events.at(-1)!, seq: events.at(-1)!.seq + 2 }
  assert.throws(
    () => its.actor.ask('Logged', { partition: 0, events: [later], toOffset: 99 }),
    /gap/,
  )
})

test('funds reserved twice for one order become free only after two releases', () => {
  const its = started()
  its.fund('ann', { dollars: 5, allowed: 5 })
  its.step()
  its.reserve(ann('a'))
  its.reserve(ann('a'))
  its.actor.ask('Release', { orderHash: hashNamed('a') })
  assert.match(its.reserve(ann('b')), /INSUFFICIENT/)
  its.actor.ask('Release', { orderHash: hashNamed('a') })
  assert.equal(its.reserve(ann('b')), 'granted')
})

test('if an order with reserved funds never reaches the log, the funds become free after the order’s deadline', () => {
  const its = started()
  its.fund('ann', { dollars: 5, allowed: 5 })
  its.step()
  its.reserve(ann('a'))
  for (let second = 0; second < 9; second++) its.tick()
  assert.match(its.reserve(ann('b')), /INSUFFICIENT/, 'the logs may still hold it')
  its.feed()
  its.tick()
  assert.equal(its.reserve(ann('b')), 'granted')
})

test('a resubmitted order is passed to its market without a check of funds', () => {
  const its = traded()
  its.fund('ann', { dollars: 0 })
  its.step()
  assert.equal(its.reserve(buy('YES').at(0.4).size(4).by('ann').named('a')), 'granted')
  assert.equal(its.actor.state.promises.size, 0)
})

test('if a trader’s funds decrease, the newest orders are cancelled until the rest are covered', () => {
  const its = started()
  its.fund('ann', { dollars: 20, allowed: 20 })
  its.step()
  for (const [second, name] of ['a', 'b', 'c', 'd'].entries()) {
    its.market.at(second)
    its.place(ann(name))
  }
  its.fund('ann', { dollars: 9 })
  its.step()
  assert.deepEqual(its.withdrawn(), ['d', 'c'])
  its.tick()
  assert.deepEqual(its.withdrawn(), ['d', 'c'], 'not at once again')
  for (let second = 0; second < 5; second++) its.tick()
  assert.deepEqual(its.withdrawn(), ['d', 'c', 'd', 'c'], 'but while they stay')
  its.market.cancel('d', 'buy')
  its.market.cancel('c', 'buy')
  its.feed()
  for (let second = 0; second < 9; second++) its.tick()
  assert.equal(its.withdrawn().length, 4)
})

test('if a trader loses funds, orders are cancelled only until the exact costs of the others are covered', () => {
  const its = started()
  its.fund('ann', { dollars: 1, allowed: 1 })
  its.step()
  for (const [second, name] of ['a', 'b', 'c'].entries()) {
    its.market.at(second)
    its.place(buy('YES').at(0.5).size(0.1).by('ann').named(name))
  }
  // Each order costs 0.05, but reserves 0.06, because fills may be rounded up. So 0.095 covers the cost of one order.
  its.fund('ann', { dollars: 0.095 })
  its.step()
  assert.deepEqual(its.withdrawn(), ['c', 'b'])
})

test('a revoked approval cancels the sell orders, and a too small allowance cancels the buy orders', () => {
  const its = started()
  its.fund('ann', { dollars: 20, allowed: 20, yes: 10, approved: true })
  its.step()
  its.place(sell('YES').at(0.9).size(1).by('ann').named('s'))
  its.place(ann('a'))
  its.fund('ann', { approved: false })
  its.step()
  assert.deepEqual(its.withdrawn(), ['s'])
  its.fund('ann', { allowed: 4.2 })
  its.step()
  assert.deepEqual(its.withdrawn(), ['s'], 'the units for fills are not asked for again')
  its.fund('ann', { allowed: 4.1 })
  its.step()
  assert.deepEqual(its.withdrawn(), ['s', 'a'])
})

test('if funds drop while an order is being placed, the order is cancelled after it is placed', () => {
  const its = started()
  its.fund('ann', { dollars: 5, allowed: 5 })
  its.step()
  its.reserve(ann('a'))
  its.fund('ann', { dollars: 1 })
  its.step()
  assert.deepEqual(its.withdrawn(), [])
  its.market.place(ann('a'))
  its.feed()
  assert.deepEqual(its.withdrawn(), ['a'])
})

const RESTING: NeedsOrder = {
  orderHash: hashNamed('old'),
  marketId: MARKET_ID,
  trader: traderNamed('ann'),
  side: BUY,
  outcome: YES,
  price: 420_000 as Price,
  remaining: 10_000_000 as Shares,
  permit: undefined,
  placedAtMs: START_SEC * 1_000,
}
const MARKETS = [{ marketId: MARKET_ID, chainId: CHAIN_ID, closed: false }]

test('when a trader’s new sell order is filled at once, the trader’s older sells without shares are cancelled', () => {
  const its = started()
  its.fund('ann', { dollars: 10, allowed: 10 })
  its.fund('bob', { yes: 8, approved: true })
  its.step()
  its.place(sell('YES').at(0.9).size(4).by('bob').named('open'))
  its.place(buy('YES').at(0.4).size(4).by('ann').named('a'))
  const taker = sell('YES').at(0.4).size(4).by('bob').named('taker')
  assert.equal(its.reserve(taker), 'granted')
  its.fund('bob', { yes: 5 })
  its.step()
  assert.deepEqual(its.withdrawn(), [], 'a promise withdraws nothing')
  its.market.place(taker)
  its.feed()
  assert.deepEqual(its.withdrawn(), ['open'])
})

test('at its start, the accounts thread counts open orders and cancels those without funds, newest first', () => {
  const newer = { ...RESTING, orderHash: hashNamed('new'), placedAtMs: START_SEC * 1_000 + 1 }
  const its = unstarted({ loaded: { markets: MARKETS, orders: [newer, RESTING] } })
  its.fund('ann', { dollars: 5, allowed: 9 })
  its.chain.mine()
  assert.match(its.reserve(ann('b')), /^OVERLOADED/)
  its.tick()
  assert.match(its.reserve(ann('b')), /^OVERLOADED/, 'the logs are to be read first')
  its.feed()
  its.tick()
  its.actor.nowMs++
  its.feed()
  its.tick()
  assert.deepEqual(its.withdrawn(), ['new'])
  assert.deepEqual(its.actor.said('CheckpointsLoaded').length, 1)
})

test('a pending trade that settled before the accounts thread started reserves no funds', () => {
  const trade: NeedsTrade = {
    tradeId: `${MARKET_ID}-7-0` as TradeId,
    marketId: MARKET_ID,
    outcome: YES,
    price: 400_000 as Price,
    size: 4_000_000 as Shares,
    buyer: traderNamed('ann'),
    seller: traderNamed('bob'),
    buyOrderHash: hashNamed('a'),
    sellOrderHash: hashNamed('s'),
    permit: undefined,
  }
  for (const settled of [true, false]) {
    const its = unstarted({ loaded: { markets: MARKETS, orders: [RESTING], trades: [trade] } })
    its.fund('ann', { dollars: 4.2, allowed: 9 })
    if (settled) its.chain.settle({ ...trade, tradeKey: `key ${trade.tradeId}` })
    its.chain.mine()
    its.tick()
    its.feed()
    its.tick()
    its.actor.nowMs++
    its.feed()
    its.tick()
    assert.deepEqual(its.withdrawn(), settled ? [] : ['old'])
  }
})

test('after a restart, new orders are refused until every previously accepted order has reached the log or expired', () => {
  const its = started({ rules: { quietMs: 60_000 } })
  assert.match(
    its.reserve(ann('a')),
    /^OVERLOADED: the exchange has restarted and waits for orders/,
  )
})

test('the accounts thread retries loading all accounts after the database was unavailable', () => {
  const its = unstarted()
  its.database.isAway = true
  its.tick()
  assert.equal(statusOf(its.actor.state, 0).why, 'the database is away')
  its.database.isAway = false
  its.tick()
  assert.equal(its.actor.state.phase, 'loaded')
})

test('while the chain cannot be read, no funds are reserved and no orders are cancelled', () => {
  const its = started()
  its.fund('ann', { dollars: 5, allowed: 5 })
  its.step()
  its.place(ann('a').size(1))
  its.chain.isAway = true
  assert.match(its.reserve(ann('b').by('bob')), /^CHAIN_UNAVAILABLE: .*the chain is away/)
  for (let second = 0; second < 20; second++) its.tick()
  assert.match(its.reserve(ann('b').size(1)), /^CHAIN_UNAVAILABLE/)
  assert.deepEqual(its.withdrawn(), [])
  its.chain.isAway = false
  for (let second = 0; second < 9; second++) its.tick()
  assert.equal(its.reserve(ann('b').size(1)), 'granted')
})

test('a trader has a limited number of waiting fund reservations, and each is answered by its deadline', () => {
  const its = started({ rules: { waitingPerOwnerMax: 2 } })
  const first = its.reserving(ann('a'))
  its.reserving(ann('b'))
  assert.match(words(its.reserving(ann('c'))), /^OVERLOADED: too many requests wait/)
  its.actor.work.length = 0
  assert.equal(words(its.actor.answerOf(first)), 'waits')
  its.actor.nowMs += 5_000
  its.actor.ask('Tick', {})
  assert.match(
    words(its.actor.answerOf(first)),
    /^CHAIN_UNAVAILABLE: the funds of the trader could not be read from the chain in time: retry shortly/,
  )
  assert.equal(its.actor.state.waiting, 0)
})

test('requests to view a trader’s funds fill at most half of the trader’s request queue', () => {
  const its = started({ rules: { waitingPerOwnerMax: 4 } })
  const { actor } = its
  const deadlineAtMs = actor.nowMs + 5_000
  const viewing = () =>
    actor.ask('Funds', { chainId: CHAIN_ID, trader: traderNamed('ann'), deadlineAtMs })
  const stands = (answer: ReturnType<typeof viewing>) => words(actor.answerOf(answer))
  assert.deepEqual([stands(viewing()), stands(viewing())], ['waits', 'waits'])
  assert.match(words(viewing()), /^OVERLOADED: too many requests wait/)
  const [first, second] = [its.reserving(ann('a')), its.reserving(ann('b'))]
  assert.deepEqual(
    [words(actor.answerOf(first)), words(actor.answerOf(second))],
    ['waits', 'waits'],
  )
  assert.match(words(its.reserving(ann('c'))), /^OVERLOADED: too many requests wait/)
})

test('if an account is added while balances are being read, its balance is read again afterwards', () => {
  const its = started()
  its.actor.nowMs += 1_000
  its.actor.ask('Tick', {})
  const waits = its.reserving(ann('a').by('dan'))
  its.fund('dan', { dollars: 5, allowed: 5 })
  its.actor.deliverAll()
  assert.match(words(its.actor.answerOf(waits)), /INSUFFICIENT/)
  its.step()
  assert.equal(its.reserve(ann('b').by('dan')), 'granted')
})

test('accounts without open orders stay in memory until newer accounts need the room', () => {
  const its = started({ rules: { idleMax: 2 } })
  for (const name of ['ann', 'bob', 'cat', 'dan']) its.funds(name)
  const { accounts, watched } = its.actor.state.chains.get(CHAIN_ID)!
  assert.deepEqual([...accounts.keys()], ['cat', 'dan'].map(traderNamed))
  assert.deepEqual([...watched], [...accounts.keys()])
})

test('the balance of every account with open orders is read again within the configured time', () => {
  const its = started({ rules: { sweepMs: 3_000 } })
  its.fund('ann', { dollars: 5, allowed: 5 })
  its.step()
  its.place(ann('a'))
  // No event on the chain changes Ann's funds. So only the periodic read of all accounts can advance `account.block`.
  const account = its.actor.state.chains.get(CHAIN_ID)!.accounts.get(traderNamed('ann'))!
  const before = account.block
  for (let second = 0; second < 4; second++) its.step()
  assert(account.block > before)
})

test('when a market with thousands of orders closes, the accounts thread removes the orders in several steps', () => {
  const orders = Array.from({ length: 12_000 }, (_, index) => ({
    ...RESTING,
    orderHash: hashNamed(`o${index}`),
    remaining: 1_000 as Shares,
  }))
  const its = unstarted({ loaded: { markets: MARKETS, orders } })
  its.fund('ann', { dollars: 12, allowed: 12 })
  its.chain.mine()
  its.tick()
  its.market.open()
  its.feed()
  its.tick()
  its.actor.nowMs++
  its.feed()
  its.tick()
  assert.match(its.reserve(ann('b').at(0.9)), /INSUFFICIENT/)
  its.market.ask('CloseMarket', { marketId: MARKET_ID, reason: 'resolved' })
  its.feed()
  assert.equal(its.actor.state.orders.size, 7_000)
  const other = { marketId: `0x${'cd'.repeat(32)}` as MarketId }
  assert.equal(
    its.reserve(ann('c').at(0.9), other),
    'granted',
    'what is left of it stands in no way',
  )
  its.actor.deliverAll()
  assert.equal(its.actor.state.orders.size, 0)
})

test('the accounts thread forgets a closed market once a reorg can no longer revert the market’s trades', () => {
  const its = traded()
  const { state } = its.actor
  its.market.ask('CloseMarket', { marketId: MARKET_ID, reason: 'resolved' })
  its.feed()
  its.actor.nowMs = START_SEC * 1_000 + 120_000
  its.step()
  assert.equal(state.markets.size, 1, 'a trade of it is pending')
  its.market.at(120)
  its.settle('a')
  its.step()
  its.report('a', 'confirmed')
  its.step()
  assert.deepEqual([state.trades.size, state.markets.size], [0, 1], 'a reorg may take it back')
  its.actor.nowMs += 60_001
  its.tick()
  assert.equal(state.markets.size, 0)
  for (let index = 0; index < 1_000; index++) {
    const marketId = `0x${index.toString(16).padStart(64, '0')}` as MarketId
    const head = { marketId, atMs: its.actor.nowMs }
    const market = { ...its.market.state.market, id: marketId }
    const events = [
      { ...head, type: 'MarketOpened', seq: 1 as Sequence, market },
      { ...head, type: 'MarketClosed', seq: 2 as Sequence, reason: 'resolved' },
    ] as const
    its.actor.ask('Logged', { partition: 0, events, toOffset: index })
  }
  assert.equal(state.markets.size, 1_000)
  its.actor.nowMs += 60_001
  for (let turn = 0; turn < 20; turn++) its.tick()
  assert.equal(state.markets.size, 0)
})

test('an accounts thread keeps no account for a trader who belongs to another accounts thread', () => {
  const isMine = (trader: string) => trader === traderNamed('bob')
  const its = started({ rules: { isMine } })
  its.fund('bob', { yes: 4, approved: true })
  its.step()
  its.place(sell('YES').at(0.4).size(4).by('bob').named('s'))
  its.market.place(buy('YES').at(0.4).size(8).by('ann').named('a'))
  its.feed()
  assert.deepEqual([...its.actor.state.chains.get(CHAIN_ID)!.accounts.keys()], [traderNamed('bob')])
  assert.equal(its.funds('bob', YES_TOKEN), '4 held, 4 allowed, 0 open, 4 pending, 0 free')
})

test('the audit of reserved funds reports a sum that differs from the sum computed from the log', () => {
  const its = traded()
  const loaded: LoadedAccounts = {
    checkpoints: [{ partition: 0, offset: 0 }],
    markets: [],
    orders: [],
    trades: [],
  }
  const { events } = its.market
  assert.deepEqual(its.actor.ask('Audit', { loaded, events }), [])
  its.actor.state.chains.get(CHAIN_ID)!.accounts.get(traderNamed('ann'))!.cash.pending += 1n
  const [difference] = its.actor.ask('Audit', { loaded, events }) as { kept: string }[]
  assert.equal(difference?.kept, '0 for open orders, 1600001 for pending trades')
})

test('the audit finds no difference in the reserved funds after the chain has settled mints and merges', () => {
  for (const [kind, orderBy, names] of MATCHES) {
    const its = started({ matching: 'complementary' })
    for (const name of names) {
      its.fund(name, { dollars: 10, allowed: 10, yes: 10, no: 10, approved: true })
    }
    its.step()
    for (const name of names) its.place(orderBy(name))
    const { events } = its.market
    const loaded: LoadedAccounts = {
      checkpoints: [{ partition: 0, offset: 0 }],
      markets: [],
      orders: [],
      trades: [],
    }
    assert.deepEqual(its.actor.ask('Audit', { loaded, events }), [], kind)
    const [need] = its.actor.state.trades.values()
    its.settleOnly(names[1])
    its.step()
    assert.deepEqual([need?.isBuyerCounted, need?.isSellerCounted], [false, false], kind)
    assert.deepEqual(its.actor.ask('Audit', { loaded, events }), [], kind)
    // The audit computes the needs from the log alone, in a `shadow` that reads no chain. A submitted trade may have
    // settled, so the shadow adds it to `sent` for both traders.
    const shadow = makeShadow([CHAIN_ID], { checkpoints: [], markets: [], orders: [], trades: [] })
    const last = events.at(-1)!
    const trade = { marketId: MARKET_ID, tradeId: need!.trade.tradeId, atMs: last.atMs }
    shadow.fold([
      ...events,
      { type: 'TradeSubmitted', ...trade, txHash: '0x01', seq: last.seq + 1 },
    ])
    for (const each of shadow.needs().values()) assert.equal(each.sent, each.pending, kind)
  }
})

const MATCHES: readonly (readonly [
  kind: string,
  orderBy: (name: string) => OrderBuilder,
  names: readonly [string, string],
])[] = [
  [
    'mint',
    (name) =>
      name === 'ann'
        ? buy('YES').at(0.6).size(10).by(name).named(name)
        : buy('NO').at(0.45).size(10).by(name).named(name),
    ['ann', 'bob'],
  ],
  [
    'merge',
    (name) =>
      name === 'ann'
        ? sell('YES').at(0.3).size(10).by(name).named(name)
        : sell('NO').at(0.5).size(10).by(name).named(name),
    ['ann', 'bob'],
  ],
]

test('a standby accounts thread computes reserved funds from log events alone', () => {
  const its = traded()
  const { events } = its.market
  const shadow = makeShadow([CHAIN_ID], { checkpoints: [], markets: [], orders: [], trades: [] })
  shadow.fold(events)
  const needOfAnn = () => {
    const needs = [...shadow.needs().values()]
    const found = needs.find(
      ({ trader, token }) => trader === traderNamed('ann') && token === STABLECOIN,
    )
    return [found?.open, found?.pending, found?.sent]
  }
  assert.deepEqual(needOfAnn(), [0n, 1_600_000n, 0n])
  const [tradeId] = its.actor.state.trades.keys()
  const last = events.at(-1)
  assert(tradeId !== undefined && last !== undefined)
  const { marketId, atMs } = last
  const trade = { marketId, tradeId, atMs, txHash: '0x01' }
  shadow.fold([{ type: 'TradeSubmitted', ...trade, seq: last.seq + 1 }])
  assert.deepEqual(needOfAnn(), [0n, 1_600_000n, 1_600_000n])
  shadow.fold([{ type: 'TradeConfirmed', ...trade, seq: last.seq + 2 }])
  assert.deepEqual(needOfAnn(), [0n, 0n, 0n])
})
