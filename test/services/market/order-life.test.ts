import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GROUP_ORDERS_MAX, ORDERS_PER_TRADER_MAX } from '#domain/limits.ts'
import { isRejection } from '#domain/rejection.ts'
import { PACKED } from '#log/packed-event.ts'
import type { PlacedOrder } from '#protocol/market.ts'
import { buy, hashNamed, type OrderBuilder, sell, traderNamed } from '../../support/orders.ts'
import { given, packed, START_SEC, signed } from './market-fixture.ts'
import { stateHashOf } from './state-hash.ts'

type Market = ReturnType<typeof given>
type Options = Omit<PlacedOrder, 'order'>

function place(market: Market, builder: OrderBuilder, options: Options = {}) {
  const { timeInForce, ...more } = options
  return market.place(builder, timeInForce, more)
}

const codeOf = (answer: unknown): string => (isRejection(answer) ? answer.rejected : 'accepted')
const rests = ({ state }: Market, name: string): boolean =>
  state.books.some((book) => book.locate(hashNamed(name)) >= 0)

/** Asserts that the events survive the log's encoding, and that their replay gives the same state. */
function holds(market: Market): void {
  assert.deepEqual(PACKED.read(packed(market.events)), market.events)
  assert.equal(stateHashOf(market.replayed()), market.hash())
}

test('an order that arrives after its placing deadline bookByMs is refused, unless it was accepted before', () => {
  const market = given()
  const nowMs = START_SEC * 1_000
  const late = place(market, buy('YES').at(0.4).size(5).named('late'), { bookByMs: nowMs - 1 })
  assert.equal(codeOf(late), 'TOO_LATE')
  assert.ok(!rests(market, 'late'))
  const order = buy('YES').at(0.4).size(5).named('a')
  const first = place(market, order, { bookByMs: nowMs })
  assert.equal(codeOf(first), 'accepted')
  market.at(1)
  assert.deepEqual(place(market, order, { bookByMs: nowMs }), { ...first, duplicate: true })
  holds(market)
})

test('every event of an order contains the order’s label and group', () => {
  const market = given()
  const tags = { label: 'quote "1"', group: 'g' }
  place(market, sell('YES').at(0.5).size(10).by('ann').named('a'), { tags })
  place(market, buy('YES').at(0.5).size(4).by('bob').named('b'), { tags: { label: 'taker' } })
  market.cancel('a', 'sell')
  const [, rested, matched, filled, closed] = market.events as readonly object[]
  assert.deepEqual((rested as { tags: object }).tags, tags)
  const { takerTags, fills } = matched as { takerTags: object; fills: { makerTags: object }[] }
  assert.deepEqual([takerTags, fills[0]?.makerTags], [{ label: 'taker' }, tags])
  assert.deepEqual((filled as { tags: object }).tags, { label: 'taker' })
  assert.deepEqual((closed as { tags: object }).tags, tags)
  holds(market)
})

test('a replacement cancels the old order and places the new one in one step', () => {
  const market = given()
  place(market, buy('YES').at(0.4).size(5).by('ann').named('old'), { tags: { label: 'x' } })
  const next = buy('YES').at(0.41).size(5).by('ann').named('new')
  market.said()
  const first = place(market, next, { replaces: hashNamed('old') })
  assert.equal(codeOf(first), 'accepted')
  assert.ok(!rests(market, 'old') && rests(market, 'new'))
  const closed = market.events.find(({ type }) => type === 'OrderClosed')
  assert.equal((closed as { cause?: string }).cause, 'replaced')
  // A repeated request gets the first answer, although the replaced order has ended.
  assert.deepEqual(place(market, next, { replaces: hashNamed('old') }), {
    ...first,
    duplicate: true,
  })
  holds(market)
})

test('by default, an order cannot replace an order that has ended, and never another trader’s order', () => {
  const market = given()
  place(market, buy('YES').at(0.4).size(5).by('ann').named('anns'))
  place(market, buy('YES').at(0.4).size(5).by('bob').named('bobs'))
  market.cancel('bobs', 'buy')
  const before = market.hash()
  const bob = (name: string) => buy('YES').at(0.42).size(5).by('bob').named(name)
  const refused = (replaces: string) =>
    codeOf(place(market, bob('n'), { replaces: hashNamed(replaces) }))
  assert.equal(refused('anns'), 'NOT_ORDER_OWNER')
  assert.equal(refused('bobs'), 'ORDER_CLOSED')
  assert.equal(refused('never'), 'ORDER_CLOSED')
  assert.equal(market.hash(), before)
  const always = { replaces: hashNamed('bobs'), replaceMode: 'always' } as const
  assert.equal(codeOf(place(market, bob('n'), always)), 'accepted')
  const stolen = { replaces: hashNamed('anns'), replaceMode: 'always' } as const
  assert.equal(codeOf(place(market, bob('m'), stolen)), 'NOT_ORDER_OWNER')
  assert.ok(rests(market, 'anns'))
  holds(market)
})

test('if a post-only replacement would match and is refused, the old order stays in the book', () => {
  const market = given()
  place(market, sell('YES').at(0.5).size(5).by('bob').named('ask'))
  place(market, buy('YES').at(0.4).size(5).by('ann').named('old'))
  const crossing = buy('YES').at(0.5).size(5).by('ann').named('new')
  const options = { replaces: hashNamed('old'), timeInForce: 'POST_ONLY' } as const
  assert.equal(codeOf(place(market, crossing, options)), 'POST_ONLY_WOULD_MATCH')
  assert.ok(rests(market, 'old'))
  // The buy `turned` would match the sell `turn`, but it replaces `turn`. So it is accepted although it is post-only.
  place(market, sell('NO').at(0.3).size(5).by('ann').named('turn'))
  const turned = buy('NO').at(0.3).size(5).by('ann').named('turned')
  const turning = { replaces: hashNamed('turn'), timeInForce: 'POST_ONLY' } as const
  assert.equal(codeOf(place(market, turned, turning)), 'accepted')
  holds(market)
})

test('one batch can move a bid and an ask even if the new bid matches the old ask', () => {
  const market = given()
  place(market, buy('YES').at(0.48).size(5).by('ann').named('bid'))
  place(market, sell('YES').at(0.5).size(5).by('ann').named('ask'))
  const quote = (builder: OrderBuilder, replaces: string): PlacedOrder => ({
    order: signed(builder.size(5).by('ann'), market.marketId),
    ...{ timeInForce: 'POST_ONLY', replaces: hashNamed(replaces) },
  })
  const orders = [
    quote(buy('YES').at(0.5).named('bid2'), 'bid'),
    quote(sell('YES').at(0.52).named('ask2'), 'ask'),
    quote(sell('YES').at(0.53).named('more'), 'gone'),
    quote(sell('YES').at(0.54).named('second'), 'ask'),
  ]
  const { answers } = market.ask('PlaceOrders', { marketId: market.marketId, orders }) as {
    answers: object[]
  }
  assert.deepEqual(answers.map(codeOf), ['accepted', 'accepted', 'ORDER_CLOSED', 'ORDER_CLOSED'])
  assert.ok(['bid2', 'ask2'].every((name) => rests(market, name)))
  assert.ok(['bid', 'ask', 'more', 'second'].every((name) => !rests(market, name)))
  const again = market.ask('PlaceOrders', {
    marketId: market.marketId,
    orders,
  }) as typeof answers & {
    answers: object[]
  }
  assert.deepEqual(again.answers.slice(0, 2), [
    { ...answers[0], duplicate: true },
    { ...answers[1], duplicate: true },
  ])
  holds(market)
})

test('all orders of a group are cancelled once the group has too many fills within its time window', () => {
  const market = given()
  const tags = { group: 'mm', protection: { windowMs: 1_000, fillsMax: 2 } }
  for (const [index, name] of ['a', 'b', 'c', 'd'].entries()) {
    place(
      market,
      sell('YES')
        .at(0.5 + index / 100)
        .size(2)
        .by('ann')
        .named(name),
      { tags },
    )
  }
  place(market, sell('NO').at(0.6).size(2).by('ann').named('other'), { tags: { group: 'else' } })
  place(market, buy('YES').at(0.5).size(1).by('bob').named('t1'))
  market.at(2)
  // The first fill is now outside of the protection's time window, so it does not count.
  place(market, buy('YES').at(0.51).size(3).by('bob').named('t2'))
  assert.ok(rests(market, 'c') && rests(market, 'd'))
  place(market, buy('YES').at(0.52).size(1).by('bob').named('t3'))
  assert.ok(!rests(market, 'c') && !rests(market, 'd'))
  assert.ok(rests(market, 'other'))
  const causes = market.events.filter((event) => 'cause' in event && event.cause === 'protection')
  // Protection cancelled the resting orders `c` and `d`. It also ended `a` and `b`, which are filled but have unsettled
  // trades.
  assert.equal(causes.length, 4)
  // A failed trade of `b` returns no quantity to the book, because protection has ended `b`.
  market.report('t2', { fault: 'buyer' }, 1)
  assert.ok(!rests(market, 'b'))
  // Counting begins anew.
  place(market, sell('YES').at(0.5).size(2).by('ann').named('e'), { tags })
  place(market, buy('YES').at(0.5).size(1).by('cat').named('t4'))
  assert.ok(rests(market, 'e'))
  holds(market)
})

test('if a taker exceeds its order group’s share limit, its remainder and the group’s other orders are cancelled', () => {
  const market = given()
  const tags = { group: 'mm', protection: { windowMs: 60_000, sharesMax: 3_000_000 as never } }
  place(market, sell('YES').at(0.5).size(3).by('bob').named('a'))
  place(market, sell('YES').at(0.5).size(1).by('bob').named('b'))
  place(market, buy('NO').at(0.2).size(1).by('ann').named('mine'), { tags })
  place(market, buy('YES').at(0.5).size(9).by('ann').named('taker'), { tags })
  assert.ok(!rests(market, 'taker') && !rests(market, 'mine'))
  holds(market)
})

test('a cancel of a group includes filled orders of the group whose trades are not settled yet', () => {
  const market = given()
  const tags = { group: 'g' }
  place(market, sell('YES').at(0.5).size(2).by('ann').named('filled'), { tags })
  place(market, sell('YES').at(0.6).size(2).by('ann').named('resting'), { tags })
  place(market, sell('YES').at(0.6).size(2).by('ann').named('kept'))
  place(market, sell('YES').at(0.6).size(2).by('bob').named('bobs'), { tags })
  place(market, buy('YES').at(0.5).size(2).by('cat').named('taker'))
  const trader = traderNamed('ann')
  const { marketId } = market
  const answer = market.ask('CancelOrders', { marketId, trader, group: 'g' })
  assert.ok(!isRejection(answer))
  assert.deepEqual(new Set(answer.orderHashes), new Set(['filled', 'resting'].map(hashNamed)))
  assert.ok(rests(market, 'kept') && rests(market, 'bobs'))
  const again = market.ask('CancelOrders', { marketId, trader, group: 'g' })
  assert.deepEqual(again, { orderHashes: [], pending: [] })
  holds(market)
})

test('the number of orders in a group is limited, so that one step can cancel all of them', () => {
  const market = given()
  const order = (at: number) => buy('YES').at(0.1).size(1).by('ann').named(`o${at}`)
  for (let at = 0; at < GROUP_ORDERS_MAX; at++) place(market, order(at), { tags: { group: 'g' } })
  const one = place(market, order(GROUP_ORDERS_MAX), { tags: { group: 'g' } })
  assert.equal(codeOf(one), 'RATE_LIMITED')
  assert.equal(codeOf(place(market, order(GROUP_ORDERS_MAX), { tags: { group: 'h' } })), 'accepted')
  // The group is full. Replacing one of its orders does not change its number of orders. Replacing an order outside the
  // group would add one.
  const replacing = (name: string, replaces: string) =>
    codeOf(
      place(market, buy('YES').at(0.1).size(1).by('ann').named(name), {
        ...{ tags: { group: 'g' }, replaces: hashNamed(replaces) },
      }),
    )
  assert.equal(replacing('more', `o${GROUP_ORDERS_MAX}`), 'RATE_LIMITED')
  assert.ok(rests(market, `o${GROUP_ORDERS_MAX}`))
  assert.equal(replacing('moved', 'o0'), 'accepted')
})

test('if the order to replace does not exist, the new order must fit into the open-order limit', () => {
  const market = given()
  const order = (at: number) => buy('YES').at(0.1).size(1).by('ann').named(`o${at}`)
  for (let at = 0; at < ORDERS_PER_TRADER_MAX; at++) place(market, order(at))
  const always = { replaces: hashNamed('never'), replaceMode: 'always' } as const
  assert.equal(codeOf(place(market, order(ORDERS_PER_TRADER_MAX), always)), 'RATE_LIMITED')
  const replacing = { replaces: hashNamed('o1') }
  assert.equal(codeOf(place(market, order(ORDERS_PER_TRADER_MAX), replacing)), 'accepted')
})

test('an order cannot replace an order of another market, and that order stays open', () => {
  const [market, other] = [given(), given({ market: { id: `0x${'7'.repeat(64)}` as never } })]
  place(other, buy('YES').at(0.4).size(5).by('ann').named('theirs'))
  const before = market.hash()
  const order = buy('YES').at(0.4).size(5).by('ann').named('mine')
  const refused = place(market, order, { replaces: hashNamed('theirs') })
  assert.deepEqual([codeOf(refused), market.hash()], ['ORDER_CLOSED', before])
  const always = { replaces: hashNamed('theirs'), replaceMode: 'always' } as const
  assert.equal(codeOf(place(market, order, always)), 'accepted')
  assert.ok(rests(other, 'theirs') && rests(market, 'mine'))
})

test('a market forgets groups without recent fills, so a trader cannot fill the memory with groups', () => {
  const market = given({ settled: false })
  const groups = 2_000
  for (let at = 0; at < groups; at++) {
    const tags = { group: `g${at}`, protection: { windowMs: 60_000, fillsMax: 1_000 } }
    place(market, sell('YES').at(0.5).size(1).by('ann').named(`s${at}`), { tags })
    place(market, buy('YES').at(0.5).size(1).by('bob').named(`b${at}`), {
      ...{ timeInForce: 'IOC', tags: { label: 'x', group: `t${at}` } },
    })
    // Fills count for a minute at most.
    market.at(at)
  }
  holds(market)
  // One protected group per second gets a fill. The market forgets a group within two minutes of its last fill. `rows`
  // gets the start time, because it would also drop groups that are old at its time.
  const { length } = market.state.tagged.rows(market.state, START_SEC * 1_000)
  assert.ok(length >= 58 && length <= 128, `${length} groups`)
})
