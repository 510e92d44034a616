/** Tests single cases of mints and merges; `complementary-model.test.ts` tests random cases. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tradesOf } from '#domain/match-trades.ts'
import { costCeil, type Price, type Shares } from '#domain/money.ts'
import { isRejection } from '#domain/rejection.ts'
import { buy, hashNamed, nameOf, sell, traderNamed } from '../../support/orders.ts'
import { type Given, given } from './market-fixture.ts'
import { stateHashOf } from './state-hash.ts'

const complementary = (more: Given = {}) =>
  given({ ...more, market: { matching: 'complementary' } })

const failedBy = (fault: 'buyer' | 'seller' | 'both' | 'none', reason = 'InsufficientShares') =>
  ({ status: 'failed', fault, reason }) as const

test('a buy of YES and a buy of NO match by a mint, and the older order is the maker', () => {
  const market = complementary()
  market.place(buy('NO').at(0.4).size(10).by('ann').named('a'))
  market.place(buy('YES').at(0.65).size(25).by('bob').named('b'))
  assert.deepEqual(market.said(), [
    'a rests: buy NO 10 at 0.4',
    'b meets mint a 10 at 0.4, 0 left | 15 of it left',
    'a ended: filled, 0 rested',
    'b rests: buy YES 15 at 0.65',
  ])
  const matched = market.events.find((event) => event.type === 'OrdersMatched')!
  const [trade] = tradesOf(matched)
  const { kind, outcome, price, takerSide, buyer, seller } = trade!
  assert.deepEqual(
    { kind, outcome, price, takerSide, names: [nameOf(buyer), nameOf(seller)] },
    { kind: 'mint', outcome: 1, price: 400_000, takerSide: 1, names: ['ann', 'bob'] },
  )
  assert.equal(stateHashOf(market.replayed()), market.hash())
})

test('a sell of YES and a sell of NO match by a merge, and the older order is the maker', () => {
  const market = complementary()
  market.place(sell('YES').at(0.3).size(10).by('ann').named('a'))
  market.place(sell('NO').at(0.6).size(10).by('bob').named('b'))
  assert.deepEqual(market.said(), [
    'a rests: sell YES 10 at 0.3',
    'b meets merge a 10 at 0.3, 0 left | 0 of it left',
    'a ended: filled, 0 rested',
    'b ended: filled, 0 rested',
  ])
  const matched = market.events.find((event) => event.type === 'OrdersMatched')!
  const { kind, outcome, price, takerSide, buyer, seller } = tradesOf(matched)[0]!
  assert.deepEqual(
    { kind, outcome, price, takerSide, names: [nameOf(buyer), nameOf(seller)] },
    { kind: 'merge', outcome: 0, price: 300_000, takerSide: 0, names: ['bob', 'ann'] },
  )
})

test('a taker in a complementary market matches orders of both books by price first, then by age', () => {
  const market = complementary()
  market.place(sell('YES').at(0.6).size(10).named('a'))
  market.place(buy('NO').at(0.4).size(20).named('b'))
  market.place(sell('YES').at(0.6).size(3).named('c'))
  market.place(buy('NO').at(0.45).size(5).named('d'))
  market.said()
  market.place(buy('YES').at(0.62).size(40).named('t'))
  assert.deepEqual(
    market.said()[0],
    [
      't meets mint d 5 at 0.45, 0 left',
      'a 10 at 0.6, 0 left',
      'mint b 20 at 0.4, 0 left',
      'c 3 at 0.6, 0 left | 2 of it left',
    ].join('; '),
  )
})

test('buys of YES and NO match only in complementary markets, at prices that total at least a dollar', () => {
  const market = complementary()
  market.place(buy('NO').at(0.4).size(10).named('a'))
  market.place(buy('YES').at(0.59).size(10).named('b'))
  market.place(sell('YES').at(0.62).size(10).named('c'))
  market.place(sell('NO').at(0.41).size(10).named('d'))
  assert.equal(market.book().length, 4)
  const ordinary = given()
  ordinary.place(buy('NO').at(0.9).size(10).named('a'))
  ordinary.place(buy('YES').at(0.9).size(10).named('b'))
  assert.equal(ordinary.book().length, 2)
})

test('a post-only order that would match the other outcome’s book is refused with the price of the match', () => {
  const market = complementary()
  market.place(buy('NO').at(0.4).size(10).named('a'))
  const answer = market.place(buy('YES').at(0.6).size(1).named('t'), 'POST_ONLY')
  assert.ok(isRejection(answer) && answer.rejected === 'POST_ONLY_WOULD_MATCH')
  assert.ok(answer.detail?.includes('at the price 600000'))
  assert.ok(!isRejection(market.place(buy('YES').at(0.59).size(1).named('u'), 'POST_ONLY')))
  const sold = market.place(sell('NO').at(0.4).size(1).named('v'), 'POST_ONLY')
  assert.ok(isRejection(sold), 'the ordinary book counts as before')
})

test('a fill-or-kill order is filled if the orders of both books together are large enough', () => {
  const market = complementary()
  market.place(buy('NO').at(0.4).size(10).by('ann').named('a'))
  market.place(sell('YES').at(0.6).size(5).by('ann').named('b'))
  const tooMuch = market.place(buy('YES').at(0.6).size(16).named('t'), 'FOK')
  assert.ok(
    isRejection(tooMuch) &&
      tooMuch.detail?.startsWith(
        'only 15000000 of 16000000 millionths of a share could be filled',
      ) === true,
  )
  const enough = market.place(buy('YES').at(0.6).size(15).named('u'), 'FOK')
  assert.ok(!isRejection(enough) && enough.filled === 15_000_000 && enough.matches === 2)
})

test('an immediate-or-cancel order trades by a mint, and its unfilled part is cancelled', () => {
  const market = complementary()
  market.place(buy('NO').at(0.4).size(10).by('ann').named('a'))
  const answer = market.place(buy('YES').at(0.7).size(12).named('t'), 'IOC')
  assert.ok(!isRejection(answer) && answer.filled === 10_000_000)
  assert.deepEqual(market.book(), [])
})

test('a buy of YES that replaces a buy of NO does not match the replaced order', () => {
  const market = complementary()
  market.place(buy('NO').at(0.4).size(10).by('ann').named('a'))
  const replaces = hashNamed('a')
  const answer = market.place(buy('YES').at(0.6).size(1).by('ann').named('t'), 'POST_ONLY', {
    replaces,
  })
  assert.ok(!isRejection(answer))
  assert.deepEqual(market.book(), ['YES buy 0.6 t 1'])
})

test('a trader’s own order in the other outcome’s book is cancelled instead of matched', () => {
  const market = complementary({ selfTrade: 'cancel-resting' })
  market.place(buy('NO').at(0.4).size(10).by('ann').named('a'))
  market.place(buy('NO').at(0.4).size(3).by('bob').named('b'))
  market.said()
  market.place(buy('YES').at(0.6).size(5).by('ann').named('t'))
  assert.deepEqual(market.said(), [
    'a ended: self-trade, 10 rested',
    't meets mint b 3 at 0.4, 0 left | 2 of it left',
    'b ended: filled, 0 rested',
    't rests: buy YES 2 at 0.6',
  ])
  const closed = market.events.find((event) => event.type === 'OrderClosed')
  assert.equal(closed?.outcome, 1)
  assert.equal(stateHashOf(market.replayed()), market.hash())
})

test('an incoming order does not match an expired order in the other outcome’s book', () => {
  const market = complementary()
  market.place(
    buy('NO')
      .at(0.4)
      .size(10)
      .until(market.nowSec + 60)
      .named('a'),
  )
  market.at(61)
  market.said()
  market.place(buy('YES').at(0.6).size(5).named('t'))
  assert.deepEqual(market.said(), ['a ended: expired, 10 rested', 't rests: buy YES 5 at 0.6'])
})

test('a failed mint returns quantity to the faultless trader, and ends the orders of the trader at fault', () => {
  const market = complementary()
  market.place(buy('NO').at(0.4).size(10).by('ann').named('a'))
  market.place(buy('YES').at(0.3).size(1).by('bob').named('bid'))
  market.place(buy('YES').at(0.6).size(10).by('bob').named('b'))
  market.said()
  market.report('b', failedBy('seller', 'InsufficientCollateral'))
  assert.deepEqual(market.said(), [
    'TradeFailed 4-0 0xaa',
    'bid ended: unfunded, 1 rested',
    'a rests: buy NO 10 at 0.4 (10 came back)',
  ])
  assert.equal(stateHashOf(market.replayed()), market.hash())
})

test('quantity that a failed mint returns to a buy of NO matches waiting buys of YES', () => {
  const market = complementary()
  market.place(buy('NO').at(0.4).size(10).by('ann').named('a'))
  market.place(buy('YES').at(0.6).size(10).by('bob').named('b'))
  market.place(buy('YES').at(0.6).size(4).by('cat').named('c'))
  market.said()
  market.report('b', failedBy('seller', 'InsufficientCollateral'))
  assert.deepEqual(market.said().slice(1), [
    'a meets again mint c 4 at 0.6, 0 left | 6 of it left',
    'c ended: filled, 0 rested',
    'a rests: buy NO 6 at 0.4 (6 came back)',
  ])
})

test('a seller in a merge is not blamed for lacking shares that a failed mint should have delivered', () => {
  const market = complementary()
  // Bob mints with Gus, who has no dollars. Bob then sells the expected YES shares in a merge with Cat.
  market.place(buy('NO').at(0.4).size(10).by('gus').named('g'))
  market.place(buy('YES').at(0.6).size(10).by('bob').named('b'))
  market.place(sell('NO').at(0.3).size(10).by('cat').named('c'))
  market.place(sell('YES').at(0.7).size(10).by('bob').named('r'))
  market.report('b', failedBy('buyer', 'InsufficientCollateral'))
  market.said()
  market.report('r', failedBy('buyer'))
  assert.deepEqual(market.said(), [
    'TradeFailed 7-0 0xaa, buyer excused',
    'c rests: sell NO 10 at 0.3 (10 came back)',
  ])
  assert.ok(market.book().includes('YES buy 0.6 b 10'), 'the orders of the excused side stay')
  assert.equal(stateHashOf(market.replayed()), market.hash())
})

test('a buyer in a mint who lacks dollars is at fault, even if bought shares are still undelivered', () => {
  const market = complementary()
  market.place(sell('NO').at(0.4).size(10).by('gus').named('g'))
  market.place(buy('NO').at(0.4).size(10).by('bob').named('b'))
  market.place(buy('NO').at(0.4).size(5).by('bob').named('m'))
  market.place(buy('YES').at(0.6).size(5).by('cat').named('c'))
  market.said()
  market.report('c', failedBy('seller', 'BothUnfunded'))
  assert.equal(market.said()[0], 'TradeFailed 7-0 0xaa')
})

test('the fill limit of an order group counts a mint as a fill', () => {
  const market = complementary()
  const tags = { group: 'quotes', protection: { windowMs: 1_000, fillsMax: 1 } }
  const quote = (outcome: 'YES' | 'NO', price: number, name: string) =>
    market.place(buy(outcome).at(price).size(10).by('ann').named(name), undefined, { tags })
  quote('NO', 0.4, 'a')
  quote('NO', 0.38, 'b')
  quote('YES', 0.5, 'c')
  market.place(buy('YES').at(0.61).size(4).by('bob').named('t'))
  assert.equal(market.book().length, 3)
  market.said()
  market.place(buy('NO').at(0.5).size(4).by('bob').named('u'))
  assert.deepEqual(market.book(), [])
  assert.equal(stateHashOf(market.replayed()), market.hash())
})

test('a mint is pending for both traders, and if it fails, a cancelled order regains no quantity', () => {
  const market = complementary()
  market.place(buy('NO').at(0.4).size(10).by('ann').named('a'))
  market.place(buy('YES').at(0.6).size(10).by('bob').named('b'))
  const { pending } = market.state
  assert.equal(pending.counts.of(traderNamed('ann')), 1)
  assert.equal(pending.counts.of(traderNamed('bob')), 1)
  const answer = market.cancel('a', 'buy')
  assert.ok(!isRejection(answer) && answer.pendingSize === 10_000_000)
  market.said()
  market.report('b', failedBy('none'))
  assert.deepEqual(market.said().slice(1), ['b rests: buy YES 10 at 0.6 (10 came back)'])
})

test('a market without complementary matching rejects a settlement report about a mint', () => {
  const market = complementary()
  market.place(buy('NO').at(0.4).size(10).by('ann').named('a'))
  market.place(buy('YES').at(0.6).size(10).by('bob').named('b'))
  const report = market.reportOf('b', { status: 'confirmed' })
  const { marketId } = market
  const twice = { ...report, buy: report.sell }
  assert.ok(isRejection(market.ask('ReportTrade', { marketId, report: twice })))
  assert.ok(!isRejection(market.ask('ReportTrade', { marketId, report })))
  const ordinary = given()
  ordinary.place(buy('YES').at(0.6).size(10).by('bob').named('b'))
  const tradeId = report.tradeId.replace(/-\d+-/, '-2-') as typeof report.tradeId
  assert.ok(isRejection(ordinary.ask('ReportTrade', { marketId, report: { ...report, tradeId } })))
})

test('the two payments of a mint add up to exactly one dollar per share, despite rounding', () => {
  const cases: [price: number, size: number, yes: number, no: number][] = [
    [333_333, 3_000_000, 999_999, 2_000_001],
    [500_000, 1, 1, 0],
    [333_333, 10, 4, 6],
    [999_999, 999_999, 999_999, 0],
  ]
  for (const [price, size, yes, no] of cases) {
    assert.equal(costCeil(price as Price, size as Shares), yes)
    assert.equal(size - costCeil(price as Price, size as Shares), no)
  }
})
