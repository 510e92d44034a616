/**
 * Checks whether all answers and messages of the exchange agree after the run. Three sources are compared:
 * the answers to the traders, the messages of the stream, and the answers to reads at the end. This file
 * compares; it sends no requests.
 */

import type { WatchFacts } from './stream-watch.ts'

export type Check = {
  readonly name: string
  readonly ok: boolean
  readonly detail: string
  /** True if the check could not be made. */
  readonly skipped?: true
}

/** Fate of an order according to the answers that its trader received. */
export type OrderFate = 'unsent' | 'accepted' | 'refused' | 'unknown'

export type SentOrder = {
  readonly hash: string
  readonly market: number
  readonly trader: number
  readonly side: 0 | 1
  readonly outcome: 0 | 1
  readonly price: number
  readonly size: number
  readonly fate: OrderFate
  readonly matches: number
  /** True if a cancel was answered with 200. */
  readonly cancelled: boolean
}

export type ToldOrder = {
  readonly orderHash: string
  readonly market: number
  readonly side: 0 | 1
  readonly outcome: 0 | 1
  readonly price: number
  readonly remaining: number
}

/** Answers of the exchange to the reads at the end of the run. */
export type Told = {
  readonly openOrders: readonly ToldOrder[]
  /** By market, YES then NO. */
  readonly books: readonly (readonly { readonly bids: string[]; readonly asks: string[] }[])[]
  /** By market, newest first. */
  readonly trades: readonly (readonly string[])[]
}

export type TruthFacts = {
  readonly sent: Iterable<SentOrder>
  readonly watched: WatchFacts
  readonly told: Told
  /** Answers that did not fit their request. */
  readonly wrongAnswers: readonly string[]
  readonly wrongAnswerCount: number
  /** True if the books were empty before the run, so that every order in them belongs to this run. */
  readonly booksWereEmpty: boolean
}

type Wrong = { count: number; readonly examples: string[] }
const EXAMPLES = 3

export function checkTruth(facts: TruthFacts): Check[] {
  const sent = [...facts.sent]
  return [
    answersFit(facts),
    ordersFound(sent, facts),
    openOrdersAgree(facts),
    booksAgree(facts),
    booksAddUp(facts),
    nothingMissed(facts),
    tradesAddUp(sent, facts),
    tradesSettle(facts),
  ]
}

export function isTrue(checks: readonly Check[]): boolean {
  return checks.length > 0 && checks.every(({ ok }) => ok)
}

function newWrong(): Wrong {
  return { count: 0, examples: [] }
}

function complain(wrong: Wrong, example: string): void {
  wrong.count++
  if (wrong.examples.length < EXAMPLES) wrong.examples.push(example)
}

function verdict(name: string, wrong: Wrong, fine: string): Check {
  const ok = wrong.count === 0
  return { name, ok, detail: ok ? fine : `${wrong.count} wrong: ${wrong.examples.join('; ')}` }
}

function answersFit({ wrongAnswers, wrongAnswerCount }: TruthFacts): Check {
  const wrong = { count: wrongAnswerCount, examples: wrongAnswers.slice(0, EXAMPLES) }
  return verdict('answers fit their questions', wrong, 'all of them')
}

function ordersFound(sent: readonly SentOrder[], { watched }: TruthFacts): Check {
  const wrong = newWrong()
  let accepted = 0
  for (const { hash, fate, cancelled } of sent) {
    const seen = watched.orders.get(hash)
    if (fate === 'accepted') {
      accepted++
      if (seen === undefined)
        complain(wrong, `${hash} was accepted, and no later message or read contains it`)
      else if (cancelled && seen.status !== 'cancelled') {
        complain(wrong, `${hash} was cancelled and is ${seen.status}`)
      }
    } else if (fate === 'refused' && seen !== undefined) {
      complain(wrong, `${hash} was refused and is ${seen.status}`)
    }
  }
  const planned = sent.some(({ fate }) => fate !== 'unsent')
  if (planned && accepted === 0) complain(wrong, 'no order was accepted')
  return verdict('accepted orders are found', wrong, `${accepted} accepted orders`)
}

const isOpen = (status: string): boolean => status === 'accepted' || status === 'partially_filled'

function openOrdersAgree({ watched, told }: TruthFacts): Check {
  const wrong = newWrong()
  const listed = new Map(told.openOrders.map((order) => [order.orderHash, order]))
  let open = 0
  for (const [hash, { status, remaining }] of watched.orders) {
    if (!isOpen(status)) continue
    open++
    const found = listed.get(hash)?.remaining
    if (found !== remaining) complain(wrong, `${hash} has ${remaining} left, listed ${found}`)
  }
  if (open !== listed.size) complain(wrong, `${open} orders are open, ${listed.size} are listed`)
  return verdict('open orders are those that are listed', wrong, `${open} open orders`)
}

function booksAgree({ watched, told }: TruthFacts): Check {
  const wrong = newWrong()
  for (const { market, outcome, seq, bids, asks } of watched.books) {
    const book = told.books[market]?.[outcome]
    if (book === undefined || !same(bids, book.bids) || !same(asks, book.asks)) {
      complain(wrong, `market ${market}, outcome ${outcome}, at ${seq}`)
    }
  }
  return verdict(
    'books of the stream are the books of REST',
    wrong,
    `${watched.books.length} books`,
  )
}

function same(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((each, at) => each === others[at])
}

/**
 * Checks that each book contains exactly the open orders of this run. Skips the check if the books also have
 * orders of other traders.
 */
function booksAddUp(facts: TruthFacts): Check {
  const name = 'books are the sum of the open orders'
  const { told, watched, booksWereEmpty } = facts
  const foreign = watched.trades.reduce((sum, trades) => sum + trades.foreign, 0)
  if (!booksWereEmpty || foreign > 0) {
    return { name, ok: true, skipped: true, detail: 'others have orders in these books' }
  }
  const wrong = newWrong()
  const sums = new Map<string, bigint>()
  for (const { market, outcome, side, price, remaining } of told.openOrders) {
    const key = `${market}:${outcome}:${side}:${price}`
    sums.set(key, (sums.get(key) ?? 0n) + BigInt(remaining))
  }
  let levels = 0
  for (const [market, outcomes] of told.books.entries()) {
    for (const [outcome, { bids, asks }] of outcomes.entries()) {
      for (const [side, shown] of [bids, asks].entries()) {
        for (const level of shown) {
          const [price = '', size = '0'] = level.split(':')
          levels++
          const sum = sums.get(`${market}:${outcome}:${side}:${price}`) ?? 0n
          if (sum !== BigInt(size)) {
            complain(wrong, `market ${market}, outcome ${outcome}: ${level}, orders have ${sum}`)
          }
        }
      }
    }
  }
  if (levels !== sums.size) complain(wrong, `${levels} levels, orders at ${sums.size} prices`)
  return verdict(name, wrong, `${levels} levels`)
}

function nothingMissed({ watched }: TruthFacts): Check {
  const wrong: Wrong = { count: watched.gapCount, examples: watched.gaps.slice(0, EXAMPLES) }
  if (watched.behind > 0) {
    complain(wrong, `${watched.behind} of ${watched.followed} subscriptions did not get everything`)
  }
  for (const why of watched.closed.filter((text) => text.startsWith('a witness'))) {
    complain(wrong, why)
  }
  const told = watched.lags === 0 ? '' : `; ${watched.lags} losses that the server told of`
  return verdict('no gap goes unnoticed', wrong, `${watched.messages} messages${told}`)
}

/**
 * Checks that no trade failed on the chain. The traders of a failed trade were told of a match, but the trade never
 * settled.
 */
function tradesSettle({ watched }: TruthFacts): Check {
  const wrong = newWrong()
  for (const [market, { failed }] of watched.trades.entries()) {
    if (failed === 0) continue
    complain(wrong, `market ${market}: ${failed} trades`)
    wrong.count += failed - 1
  }
  return verdict('no trade failed on chain', wrong, 'none was told of')
}

function tradesAddUp(sent: readonly SentOrder[], { watched, told }: TruthFacts): Check {
  const name = 'trades add up'
  const failed = watched.trades.reduce((sum, trades) => sum + trades.failed, 0)
  if (failed > 0) {
    return { name, ok: true, skipped: true, detail: `${failed} trades failed on chain` }
  }
  const wrong = newWrong()
  const markets = watched.trades.map(() => ({ matches: 0, bought: 0, sold: 0, unknown: 0 }))
  for (const { hash, market, side, size, fate, matches } of sent) {
    const sums = markets[market]
    if (sums === undefined || fate === 'unsent') continue
    sums.matches += matches
    if (fate === 'unknown') sums.unknown++
    const seen = watched.orders.get(hash)
    if (seen === undefined) continue
    if (side === 0) sums.bought += size - seen.remaining
    else sums.sold += size - seen.remaining
  }
  let all = 0
  for (const [market, trades] of watched.trades.entries()) {
    const { matches, bought, sold, unknown } = markets[market]!
    const { newest, taken } = trades
    all += trades.count
    const listed = told.trades[market] ?? []
    if (!same(listed.slice(0, newest.length), newest.toReversed().slice(0, listed.length))) {
      complain(wrong, `market ${market}: the latest trades of REST are not those of the stream`)
    }
    // An order without an answer (`unknown`) may have matched any number of makers. So in a market with such an order,
    // the answers may report fewer matches than the stream, but never more.
    if (unknown === 0 ? matches !== taken : matches > taken) {
      complain(wrong, `market ${market}: takers met ${taken} makers, the answers say ${matches}`)
    }
    if (bought !== trades.bought || sold !== trades.sold) {
      const orders = `the orders say ${bought} and ${sold}`
      complain(wrong, `market ${market}: ${trades.bought} bought, ${trades.sold} sold, ${orders}`)
    }
  }
  return verdict(name, wrong, `${all} trades`)
}
