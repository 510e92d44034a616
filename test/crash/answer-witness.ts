/**
 * Clients that place, list and cancel their own orders through all fronts while the cluster has faults. The answers are
 * recorded, and in the end no definite answer may be wrong (`answer-history.ts`). No other client trades at the price
 * of these orders, so an order is open from its placement to its cancel.
 */

import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type Client, createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import type { MarketId } from '#domain/ids.ts'
import { orderHash } from '#domain/order-hash.ts'
import { signedOrder, traderNumbered } from '../support/signed-orders.ts'
import { type Answered, isRight } from './answer-history.ts'
import type { Pit } from './http-crash.ts'

const TIMEOUT_MS = 30_000
const PACE_MS = 50
const SELL = 1
/** A price above the prices of all other traders. */
const PRICE = 999_000

/** Nothing was done. */
const REFUSED = new Set(['OVERLOADED', 'SHUTTING_DOWN', 'UNAVAILABLE', 'EXCHANGE_UNAVAILABLE'])
/** The outcome is unknown. */
const UNKNOWN = new Set(['OUTCOME_UNKNOWN', 'NETWORK', 'TIMEOUT', 'UNEXPECTED_ANSWER'])

export type Witness = {
  /** Resolves when the requests in flight are answered. Rejects with the first wrong answer. */
  end(): Promise<void>
}

export type WitnessReport = { orders: number; answers: number; unknown: number }

type Outcome = Answered['outcome']

export function startWitness(
  fronts: readonly string[],
  { markets, domain }: Pick<Pit, 'markets' | 'domain'>,
  report: WitnessReport,
): Witness {
  const clients = fronts.map((url) => createClient({ url, retries: 0, timeoutMs: TIMEOUT_MS }))
  let isOver = false

  async function lane(marketId: MarketId): Promise<void> {
    const trader = traderNumbered(randomInt(1_000_000, 2 ** 47))
    // Each order is written and read through both fronts, so that outdated answers are detected. They are possible
    // because a replaced owner of a market detects its replacement only at its next write, and not at a read.
    const first = randomInt(fronts.length)
    const other = (first + 1) % fronts.length
    while (!isOver) {
      const fields = { side: SELL, price: PRICE, nonce: String(randomInt(1, 2 ** 47)) }
      const submission = await signedOrder(marketId, fields, { trader, domain })
      const hash = orderHash(submission.order, domain)
      const answers: Answered[] = []
      const note = noter(answers, fronts)
      const place = (at: number) =>
        note('place', at, async () => {
          await clients[at]!.orders.submit(submission)
          return 'done'
        })
      const cancel = (at: number) =>
        note('cancel', at, async () => {
          await clients[at]!.orders.cancel({ orderHash: hash, marketId, side: 'sell' })
          return 'done'
        })
      const list = (at: number) => note('read', at, () => look(clients[at]!, hash))
      const look = async (client: Client, sought: string): Promise<Outcome> => {
        const open = await client.orders.list({ trader: trader.address, market: marketId })
        return open.some((each) => each.orderHash === sought) ? 'open' : 'not open'
      }
      await place(first)
      await Promise.all([list(first), list(other), ...(randomInt(10) === 0 ? [place(other)] : [])])
      await Promise.all([cancel(other), list(first)])
      await Promise.all([cancel(first), list(other), list(first)])
      await Promise.all([cancel(other), list(other)])
      report.orders++
      report.answers += answers.length
      report.unknown += answers.filter(({ outcome }) => outcome === 'unknown').length
      assert(isRight(answers), `a definite answer is wrong: ${JSON.stringify(answers, null, 1)}`)
      await pause(PACE_MS)
    }
  }

  const ended = Promise.all(markets.map(lane))
  // The caller of `end` gets the error.
  ended.catch(() => undefined)
  return {
    async end() {
      isOver = true
      await ended
    },
  }
}

/** Records the answer to a request. Omits requests that had no effect. Also omits reads that got no answer. */
function noter(answers: Answered[], fronts: readonly string[]) {
  return async (kind: Answered['kind'], at: number, ask: () => Promise<Outcome>): Promise<void> => {
    const fromMs = performance.now()
    const outcome = await ask().catch((error: unknown) => outcomeOf(kind, error))
    if (outcome === undefined || (kind === 'read' && outcome === 'unknown')) return
    const untilMs = outcome === 'unknown' ? Number.POSITIVE_INFINITY : performance.now()
    answers.push({ kind, outcome, front: fronts[at]!, fromMs, untilMs })
  }
}

function outcomeOf(kind: string, error: unknown): Outcome | undefined {
  assert(error instanceof SibylError, String(error))
  if (REFUSED.has(error.code)) return undefined
  if (UNKNOWN.has(error.code)) return 'unknown'
  if (error.code === 'ORDER_NOT_FOUND') return 'missing'
  assert.equal(error.code, 'ORDER_CLOSED', `${kind}: ${error.code} ${error.message}`)
  return 'closed'
}
