import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TradeReport } from '#protocol/market.ts'
import { buy, sell } from '../../support/orders.ts'
import { given } from './market-fixture.ts'
import { stateHashOf } from './state-hash.ts'

const failedBy = (fault: TradeReport['fault']) => ({ status: 'failed', fault }) as const
const confirmed = { status: 'confirmed', txHash: '0x01' } as const

/**
 * Makes a market in which Gus, who has no shares, sells 10 to Bob. Bob resells `size` of them to Cat, and
 * also has a bid and an offer in the books.
 */
function resold(size = 10) {
  const market = given()
  market.place(sell('YES').at(0.4).size(10).by('gus').named('g'))
  market.place(buy('YES').at(0.4).size(10).by('bob').named('b'))
  market.place(sell('YES').at(0.5).size(size).by('bob').named('r'))
  market.place(buy('YES').at(0.5).size(size).by('cat').named('c'))
  market.place(buy('NO').at(0.1).size(7).by('bob').named('bid'))
  market.place(sell('NO').at(0.9).size(7).by('bob').named('offer'))
  market.said()
  return market
}
const own = ['NO buy 0.1 bid 7', 'NO sell 0.9 offer 7']

test('a reseller keeps all their orders if the shares they bought were never delivered', () => {
  const market = resold()
  market.report('b', failedBy('seller'))
  assert.deepEqual(market.said(), [
    'TradeFailed 3-0 0xaa',
    'b rests: buy YES 10 at 0.4 (10 came back)',
  ])
  market.report('c', failedBy('seller'))
  assert.deepEqual(market.said(), [
    'TradeFailed 7-0 0xaa, seller excused',
    'c rests: buy YES 10 at 0.5 (10 came back)',
  ])
  assert.deepEqual(market.book(), ['YES buy 0.5 c 10', 'YES buy 0.4 b 10', ...own])
  assert.equal(stateHashOf(market.replayed()), market.hash())
})

test('a reseller is not blamed, even if the resale is reported as failed before the purchase', () => {
  const market = resold()
  market.report('c', failedBy('seller'))
  assert.deepEqual(market.said()[0], 'TradeFailed 7-0 0xaa, seller excused')
  market.report('b', failedBy('seller'))
  assert.deepEqual(market.book(), ['YES buy 0.5 c 10', 'YES buy 0.4 b 10', ...own])
  assert.equal(stateHashOf(market.replayed()), market.hash())
})

test('in a chain of resales, every reseller keeps their orders if the first seller delivers no shares', () => {
  const market = resold()
  market.place(sell('YES').at(0.6).size(10).by('cat').named('r2'))
  market.place(buy('YES').at(0.6).size(10).by('dan').named('d'))
  market.place(buy('NO').at(0.2).size(1).by('cat').named('cats'))
  market.report('b', failedBy('seller'))
  market.report('c', failedBy('seller'))
  market.said()
  market.report('d', failedBy('seller'))
  assert.deepEqual(market.said()[0], 'TradeFailed 13-0 0xaa, seller excused')
  assert(market.book().includes('NO buy 0.2 cats 1'))
})

for (const [when, told] of [
  ['reported as failed', true],
  ['still pending', false],
] as const) {
  test(`a reseller is excused until resales have used up the shares of the undelivered purchase (${when})`, () => {
    const market = given()
    market.place(sell('YES').at(0.4).size(10).by('gus').named('g'))
    market.place(buy('YES').at(0.4).size(10).by('bob').named('b'))
    market.place(buy('NO').at(0.1).size(7).by('bob').named('bid'))
    const sales = ['c1', 'c2', 'c3']
    for (const name of sales) {
      market.place(sell('YES').at(0.5).size(6).by('bob').named(`r-${name}`))
      market.place(buy('YES').at(0.5).size(6).by('cat').named(name))
    }
    if (told) market.report('b', failedBy('seller'))
    market.said()
    const said = sales.map((name) => {
      market.report(name, failedBy('seller'))
      return market.said()
    })
    assert.match(said[0]![0]!, /excused/)
    assert.match(said[1]![0]!, /excused/, 'four of these six were owed to the seller')
    assert.doesNotMatch(said[2]![0]!, /excused/)
    assert(said[2]!.includes('bid ended: unfunded, 7 rested'))
    assert.equal(stateHashOf(market.replayed()), market.hash())
  })
}

const guilty: [why: string, story: (market: ReturnType<typeof given>) => void][] = [
  ['their purchase has already settled', (market) => market.report('b', confirmed)],
  ['their purchase failed by their own fault', (market) => market.report('b', failedBy('buyer'))],
  [
    'their purchase failed too long ago',
    (market) => {
      market.report('b', failedBy('seller'))
      market.at(600)
    },
  ],
]
for (const [why, story] of guilty) {
  test(`a seller without shares is at fault when ${why}`, () => {
    const market = resold()
    story(market)
    market.place(buy('NO').at(0.05).size(1).by('bob').named('last'))
    market.said()
    market.report('c', failedBy('seller'))
    assert.equal(market.said()[0], 'TradeFailed 7-0 0xaa')
    assert(!market.book().some((line) => line.includes('last')), 'the seller loses all orders')
  })
}

test('a seller without shares stays at fault if the purchases were self-trades, of the other outcome, or later', () => {
  const market = given()
  market.place(sell('NO').at(0.4).size(10).by('gus').named('g'))
  market.place(buy('NO').at(0.4).size(10).by('bob').named('other'))
  market.place(sell('YES').at(0.4).size(5).by('bob').named('own'))
  market.place(buy('YES').at(0.4).size(5).by('bob').named('wash'))
  market.place(sell('YES').at(0.5).size(10).by('bob').named('r'))
  market.place(buy('YES').at(0.5).size(10).by('cat').named('c'))
  market.place(sell('YES').at(0.5).size(10).by('gus').named('g2'))
  market.place(buy('YES').at(0.5).size(10).by('bob').named('later'))
  market.said()
  market.report('c', failedBy('seller'))
  assert.doesNotMatch(market.said()[0]!, /excused/)
})

for (const reason of ['SharesNotApproved', 'OrderCancelled', 'GasBudgetSpent']) {
  test(`a failure with ${reason} is the seller’s fault even while the seller waits for bought shares`, () => {
    const market = resold()
    market.report('c', { ...failedBy('seller'), reason })
    assert.equal(market.said()[0], 'TradeFailed 7-0 0xaa')
    assert(!market.book().some((line) => own.includes(line)), 'the seller loses all orders')
  })
}

test('if a resale fails with both sides at fault, only the buyer’s orders end; no quantity is returned', () => {
  const market = resold()
  market.place(buy('NO').at(0.2).size(1).by('cat').named('cats'))
  market.report('b', failedBy('seller'))
  market.said()
  market.report('c', failedBy('both'))
  assert.deepEqual(market.said(), [
    'TradeFailed 7-0 0xaa, seller excused',
    'cats ended: unfunded, 1 rested',
  ])
  assert.deepEqual(market.book(), ['YES buy 0.4 b 10', ...own])
})
