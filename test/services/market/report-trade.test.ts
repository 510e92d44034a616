import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MarketId } from '#domain/ids.ts'
import type { Shares } from '#domain/money.ts'
import type { TradeReport } from '#protocol/market.ts'
import { buy, sell } from '../../support/orders.ts'
import { given, START_SEC } from './market-fixture.ts'
import { stateHashOf } from './state-hash.ts'

/** Makes a market in which Bob's sell of `selling` rests, and Ann's buy of `bought` matches it. */
function traded(bought: number, selling = 10) {
  const market = given()
  market.place(sell('YES').at(0.4).size(selling).by('bob').named('s'))
  market.place(buy('YES').at(0.5).size(bought).by('ann').named('b'))
  market.said()
  return market
}

const submitted = { status: 'submitted', txHash: '0x01' } as const
const confirmed = { status: 'confirmed', txHash: '0x01' } as const
const reverted = { status: 'reverted', txHash: '0x01' } as const
const failed = { status: 'failed', txHash: '0x01' } as const

test('a market publishes each change of a trade’s state once, even if the report is repeated', () => {
  const market = traded(10)
  assert.deepEqual(market.report('b', submitted), { status: 'submitted' })
  assert.deepEqual(market.report('b', submitted), { status: 'submitted' })
  assert.deepEqual(market.report('b', { ...submitted, txHash: '0x02' }), { status: 'submitted' })
  assert.deepEqual(market.report('b', confirmed), { status: 'confirmed' })
  assert.deepEqual(market.report('b', confirmed), { status: 'confirmed' })
  assert.deepEqual(market.report('b', submitted), { status: 'confirmed' })
  assert.deepEqual(market.report('b', failed), { status: 'confirmed' })
  assert.deepEqual(market.said(), [
    'TradeSubmitted 3-0 0x01',
    'TradeSubmitted 3-0 0x02',
    'TradeConfirmed 3-0 0x01',
  ])
  assert.equal(market.state.unsettled, 0)
})

test('a query for the state of a trade does not change the trade', () => {
  const market = traded(10)
  const asked = { status: 'matched', txHash: '' } as const
  assert.deepEqual(market.report('b', asked), { status: 'matched' })
  market.report('b', submitted)
  assert.deepEqual(market.report('b', asked), { status: 'submitted' })
  market.report('b', failed)
  market.said()
  assert.deepEqual(market.report('b', asked), { status: 'failed' })
  assert.deepEqual(market.said(), [])
})

test('a confirmed trade that a reorg removes is reverted, and then submitted and confirmed again', () => {
  const market = traded(10)
  assert.deepEqual(market.report('b', reverted), { status: 'matched' })
  market.report('b', confirmed)
  assert.deepEqual(market.report('b', reverted), { status: 'reverted' })
  assert.equal(market.state.unsettled, 1)
  market.report('b', { ...submitted, txHash: '0x02' })
  assert.deepEqual(market.report('b', { ...confirmed, txHash: '0x02' }), { status: 'confirmed' })
  assert.deepEqual(market.said(), [
    'TradeConfirmed 3-0 0x01',
    'TradeReverted 3-0 0x01',
    'TradeSubmitted 3-0 0x02',
    'TradeConfirmed 3-0 0x02',
  ])
  assert.equal(market.state.unsettled, 0)
})

const consequences: [fault: TradeReport['fault'], said: string[], book: string[]][] = [
  [
    'buyer',
    ['extra-ann ended: unfunded, 7 rested', 's rests: sell YES 10 at 0.4 (10 came back)'],
    ['YES sell 0.4 s 10', 'NO sell 0.9 extra-bob 7'],
  ],
  [
    'seller',
    ['extra-bob ended: unfunded, 7 rested', 'b rests: buy YES 10 at 0.5 (10 came back)'],
    ['YES buy 0.5 b 10', 'NO buy 0.1 extra-ann 7'],
  ],
  ['both', ['extra-ann ended: unfunded, 7 rested', 'extra-bob ended: unfunded, 7 rested'], []],
  [
    'none',
    [
      'b rests: buy YES 10 at 0.5 (10 came back)',
      's meets again b 10 at 0.5, 0 left | 0 of it left',
      'b ended: filled, 0 rested',
      's ended: filled, 0 rested',
    ],
    ['NO buy 0.1 extra-ann 7', 'NO sell 0.9 extra-bob 7'],
  ],
]
for (const [fault, said, book] of consequences) {
  test(`after a failed trade with fault ${fault}, sides at fault lose their orders and faultless sides regain quantity`, () => {
    const market = traded(10)
    market.place(buy('NO').at(0.1).size(7).by('ann').named('extra-ann'))
    market.place(sell('NO').at(0.9).size(7).by('bob').named('extra-bob'))
    market.report('b', submitted)
    market.said()
    assert.deepEqual(market.report('b', { ...failed, fault }), { status: 'failed' })
    assert.deepEqual(market.said(), ['TradeFailed 3-0 0x01', ...said])
    assert.deepEqual(market.book(), book)
    assert.deepEqual(market.report('b', { ...failed, fault }), { status: 'failed' }, 'once')
    assert.deepEqual(market.report('b', confirmed), { status: 'failed' }, 'for good')
    assert.deepEqual(market.said(), [])
    assert.equal(market.replayed().books[0].stateHash(), market.state.books[0].stateHash())
  })
}

test('an open order that gets quantity back from a failed trade keeps its place in the book', () => {
  const market = traded(4)
  market.place(sell('YES').at(0.4).size(1).by('eve').named('later'))
  market.said()
  market.report('b', { ...failed, fault: 'buyer' })
  assert.deepEqual(market.said(), [
    'TradeFailed 3-0 0x01',
    's rests: sell YES 10 at 0.4 (4 came back)',
  ])
  assert.deepEqual(market.book(), ['YES sell 0.4 s 10', 'YES sell 0.4 later 1'])
})

test('quantity that a failed trade returns to an order matches waiting orders like a new order', () => {
  const market = traded(10)
  market.place(buy('YES').at(0.45).size(6).by('eve').named('e'))
  market.said()
  market.report('b', { ...failed, fault: 'buyer' })
  assert.deepEqual(market.said(), [
    'TradeFailed 3-0 0x01',
    's meets again e 6 at 0.45, 0 left | 4 of it left',
    'e ended: filled, 0 rested',
    's rests: sell YES 4 at 0.4 (4 came back)',
  ])
  assert.equal(market.state.unsettled, 1)
})

test('if several trades of an order fail, each trade returns its quantity to the order once', () => {
  const market = given()
  market.place(sell('YES').at(0.4).size(4).by('bob').named('s1'))
  market.place(sell('YES').at(0.4).size(6).by('eve').named('s2'))
  market.place(buy('YES').at(0.4).size(10).by('ann').named('b'))
  const first = market.reportOf('b', { ...failed, fault: 'seller' }, 0)
  const second = market.reportOf('b', { ...failed, fault: 'seller' }, 1)
  const report = (told: TradeReport) =>
    market.ask('ReportTrade', { marketId: market.marketId, report: told })
  market.said()
  report(second)
  report(first)
  report(first)
  assert.deepEqual(market.said(), [
    'TradeFailed 4-1 0x01',
    'b rests: buy YES 6 at 0.4 (6 came back)',
    'TradeFailed 4-0 0x01',
    'b rests: buy YES 10 at 0.4 (4 came back)',
  ])
})

test('an order that got quantity back repeats its first answer if resubmitted, and can be cancelled', () => {
  const market = traded(10)
  market.at(7)
  market.report('b', { ...failed, fault: 'seller' })
  const answer = market.place(buy('YES').at(0.5).size(10).by('ann').named('b'))
  assert.deepEqual(
    [answer, 'matches' in answer && answer.matches],
    [
      {
        orderHash: 'orderHash' in answer ? answer.orderHash : '',
        status: 'accepted',
        matches: 1,
        timestamp: START_SEC,
        duplicate: true,
      },
      1,
    ],
  )
  assert('status' in market.cancel('b', 'buy'))
  assert.deepEqual(market.place(buy('YES').at(0.5).size(10).by('ann').named('b')), {
    rejected: 'ORDER_CLOSED',
  })
})

const close = (market: ReturnType<typeof given>) =>
  market.ask('CloseMarket', { marketId: market.marketId, reason: 'resolved' })
const nothingComesBack: [
  why: string,
  livesSec: number,
  meanwhile: (market: ReturnType<typeof given>) => void,
][] = [
  ['the market closed meanwhile', 2_000_000, (market) => close(market)],
  ['the market expired meanwhile', 2_000_000, (market) => market.at(1_000_000)],
  ['the order was cancelled meanwhile', 2_000_000, (market) => market.cancel('s', 'sell')],
  ['the order expired meanwhile', 500, (market) => market.at(500)],
]
for (const [why, livesSec, meanwhile] of nothingComesBack) {
  test(`a failed trade does not put its quantity back into the sell order if ${why}`, () => {
    const market = given()
    const selling = sell('YES').at(0.4).size(10).by('bob').named('s')
    market.place(selling.until(START_SEC + livesSec))
    market.place(buy('YES').at(0.5).size(4).by('ann').named('b'))
    meanwhile(market)
    assert.deepEqual(market.report('b', { ...failed, fault: 'buyer' }), { status: 'failed' })
    assert(market.said().every((line) => !line.includes('came back')))
    assert.equal(market.hash(), stateHashOf(market.replayed()))
  })
}

test('a failed trade of a trader with themselves returns no quantity if the trader is at fault', () => {
  const market = given()
  market.place(sell('YES').at(0.4).size(5).by('ann').named('s'))
  market.place(buy('YES').at(0.4).size(3).by('ann').named('b'))
  market.said()
  market.report('b', { ...failed, fault: 'seller' })
  assert.deepEqual(market.said(), ['TradeFailed 3-0 0x01', 's ended: unfunded, 2 rested'])
})

test('a market refuses a report that does not fit one of its trades, and changes nothing', () => {
  const market = traded(10)
  const report = market.reportOf('b', { ...failed, fault: 'buyer' })
  const ask = (told: TradeReport) =>
    market.ask('ReportTrade', { marketId: market.marketId, report: told })
  const other = `0x${'cd'.repeat(32)}` as MarketId
  const notFound = { rejected: 'NOT_FOUND', field: 'report.tradeId' }
  const bad = (tradeId: string) => ask({ ...report, tradeId: tradeId as TradeReport['tradeId'] })
  assert.deepEqual(bad('nonsense'), notFound)
  assert.deepEqual(bad(`${other}-3-0`), notFound)
  assert.deepEqual(bad(`${market.marketId}-99-0`), notFound)
  const swapped = ask({ ...report, buy: report.sell, sell: report.buy })
  assert.equal('rejected' in swapped && swapped.rejected, 'INVALID_FIELD')
  const foreign = ask({ ...report, buy: { ...report.buy, marketId: other } })
  assert.equal('rejected' in foreign && foreign.rejected, 'INVALID_FIELD')
  const larger = ask({ ...report, size: 10_000_001 as Shares })
  assert.deepEqual(larger, {
    rejected: 'INVALID_FIELD',
    field: 'report.size',
    detail: 'the failed trade is larger than the filled quantity of one of its orders',
  })
  assert.deepEqual(market.said(), [])
})
