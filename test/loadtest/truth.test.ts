import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { WatchFacts } from '../../loadtest/stream-watch.ts'
import { checkTruth, isTrue, type SentOrder, type TruthFacts } from '../../loadtest/truth.ts'

const ONE = 1_000_000
const NO_TRADES = { count: 0, taken: 0, bought: 0, sold: 0, newest: [], failed: 0, foreign: 0 }

/**
 * Returns consistent facts: a maker offered 3, a taker bought 1 of them, one buy was cancelled, and one was refused.
 */
function facts(): TruthFacts {
  const sent = (fields: Partial<SentOrder> & { hash: string }): SentOrder => ({
    market: 0,
    trader: 0,
    side: 0,
    outcome: 0,
    price: 500_000,
    size: ONE,
    fate: 'accepted',
    matches: 0,
    cancelled: false,
    ...fields,
  })
  return {
    sent: [
      sent({ hash: '0xmaker', side: 1, size: 3 * ONE }),
      sent({ hash: '0xtaker', matches: 1 }),
      sent({ hash: '0xquote', price: 400_000, cancelled: true }),
      sent({ hash: '0xbad', fate: 'refused' }),
    ],
    watched: {
      books: [
        { market: 0, outcome: 0, seq: 9, bids: [], asks: ['500000:2000000'] },
        { market: 0, outcome: 1, seq: 0, bids: [], asks: [] },
      ],
      trades: [{ ...NO_TRADES, count: 1, taken: 1, bought: ONE, sold: ONE, newest: ['t1'] }],
      orders: new Map([
        ['0xmaker', { status: 'partially_filled', remaining: 2 * ONE }],
        ['0xtaker', { status: 'filled', remaining: 0 }],
        ['0xquote', { status: 'cancelled', remaining: ONE }],
      ]),
      gaps: [],
      gapCount: 0,
      lags: 0,
      closed: [],
      closedCount: 0,
      messages: 12,
      behind: 0,
      followed: 4,
    },
    told: {
      openOrders: [
        {
          orderHash: '0xmaker',
          market: 0,
          side: 1,
          outcome: 0,
          price: 500_000,
          remaining: 2 * ONE,
        },
      ],
      books: [
        [
          { bids: [], asks: ['500000:2000000'] },
          { bids: [], asks: [] },
        ],
      ],
      trades: [['t1']],
    },
    wrongAnswers: [],
    wrongAnswerCount: 0,
    booksWereEmpty: true,
  }
}

function wrongIn(changed: Partial<TruthFacts>): string[] {
  const checks = checkTruth({ ...facts(), ...changed })
  return checks.filter(({ ok }) => !ok).map(({ name }) => name)
}

const watched = (changed: Partial<WatchFacts>): Partial<TruthFacts> => ({
  watched: { ...facts().watched, ...changed },
})
const orders = (
  changed: [string, { status: 'accepted' | 'filled'; remaining: number } | undefined][],
) => {
  const all = new Map(facts().watched.orders)
  for (const [hash, end] of changed) {
    if (end === undefined) all.delete(hash)
    else all.set(hash, end)
  }
  return watched({ orders: all })
}

test('the load tester accepts an exchange whose figures agree, and rejects a run that compared no figures', () => {
  assert.deepEqual(wrongIn({}), [])
  assert(isTrue(checkTruth(facts())))
  assert(!isTrue([]), 'a run without a comparison proves nothing')
})

test('each wrong figure of an exchange fails exactly the load tester’s check for that figure', () => {
  const { told } = facts()
  const lies: [string, Partial<TruthFacts>, string][] = [
    ['an accepted order vanishes', orders([['0xtaker', undefined]]), 'accepted orders are found'],
    [
      'a cancelled order goes on',
      orders([['0xquote', { status: 'filled', remaining: 0 }]]),
      'accepted orders are found',
    ],
    [
      'a refused order is there',
      orders([['0xbad', { status: 'filled', remaining: ONE }]]),
      'accepted orders are found',
    ],
    [
      'an open order is not listed',
      { told: { ...told, openOrders: [] } },
      'open orders are those that are listed',
    ],
    [
      'the book of REST is another one',
      { told: { ...told, books: [[{ bids: [], asks: ['500000:1'] }, told.books[0]![1]!]] } },
      'books of the stream are the books of REST',
    ],
    [
      'a level has more than its orders',
      { told: { ...told, openOrders: [{ ...told.openOrders[0]!, remaining: ONE }] } },
      'books are the sum of the open orders',
    ],
    ['a message is missing', watched({ gapCount: 1, gaps: ['x'] }), 'no gap goes unnoticed'],
    ['a reader is behind', watched({ behind: 1 }), 'no gap goes unnoticed'],
    ['a witness is gone', watched({ closed: ['a witness: gone'] }), 'no gap goes unnoticed'],
    ['a trade is not told', watched({ trades: [NO_TRADES] }), 'trades add up'],
    [
      'a trade is of another size',
      watched({ trades: [{ ...facts().watched.trades[0]!, sold: ONE + 1 }] }),
      'trades add up',
    ],
    ['REST has another trade', { told: { ...told, trades: [['t2']] } }, 'trades add up'],
    [
      'an answer makes no sense',
      { wrongAnswerCount: 1, wrongAnswers: ['x'] },
      'answers fit their questions',
    ],
  ]
  for (const [lie, changed, check] of lies) assert(wrongIn(changed).includes(check), lie)
})

test('the load tester accepts trades of other traders in its markets', () => {
  const trades = [{ ...facts().watched.trades[0]!, count: 2, newest: ['t0', 't1'], foreign: 1 }]
  const told = { ...facts().told, trades: [['t1', 't0']] }
  assert.deepEqual(wrongIn({ ...watched({ trades }), told, booksWereEmpty: false }), [])
})

test('the load tester accepts that an order without an answer has matched', () => {
  const sent = [...facts().sent].map((order) =>
    order.hash === '0xtaker' ? { ...order, fate: 'unknown' as const, matches: 0 } : order,
  )
  assert.deepEqual(wrongIn({ sent }), [])
})
