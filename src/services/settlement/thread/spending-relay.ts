/**
 * Sums the operator's cost of each trader's settlements today, and publishes the sums to the market threads. Each read
 * of the journal continues after the last charged transaction; the first read after a start begins with the current
 * day. Only the sums of the current day are kept.
 */

import type { Address } from '#domain/ids.ts'
import { SPENDING_TRADERS_MAX } from '#domain/limits.ts'
import { partsOf } from '#domain/parts-of.ts'
import { remember } from '#domain/remember.ts'
import {
  BUDGETS,
  type Budget,
  dayOf,
  hasLimits,
  isSpent,
  type SpendingLimits,
  type TraderSpending,
} from '#domain/trader-spending.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { Ref } from '#runtime/ref.ts'
import type { ChargesFilter, SettlementCharge } from '#store/reads/settlement-charges.ts'

type MarketRef = Pick<Ref<MarketThreadProtocol>, 'tell'>

/** Transactions per read. */
const PAGE = 50
/** Maximum number of traders in one message, and approximate number of bytes per trader. */
const PUBLISH_MAX = 1_000
const TRADER_BYTES = 96
/**
 * Maximum wait, after a transaction has ended, until the database has the results of all its trades. Traders are
 * charged once all results are known, or after this wait by the results known so far.
 */
const DECIDED_WITHIN_MS = 10_000
/**
 * A read includes transactions that were signed up to this long before the start of the day. Transactions signed
 * earlier are assumed to have ended before the day began.
 */
const SIGNED_BEFORE_MS = 3_600_000

type ChainSums = {
  readonly chainId: number
  readonly sender: Address
  day: number
  readonly traders: Map<Address, TraderSpending>
  readonly barred: Set<Address>
  /**
   * Every transaction with a nonce up to `mark` is charged. Above `mark`, only the transactions in `done` are charged.
   */
  mark: number
  readonly done: Set<number>
  /** Traders whose spending the market threads do not know yet. */
  readonly unpublished: Set<Address>
  isReading: boolean
}

export type SpendingRelay = {
  /** Starts to sum the spending for one chain's settlement key. */
  follow(chain: { readonly chainId: number; readonly sender: Address }): void
  /** Sends all sums to a market thread that was linked or has lost messages. */
  linked(market: MarketRef): void
  /** Reads the spending since the last read, and publishes it. Throws faults of the database. */
  tick(nowMs: number): Promise<void>
  /** Returns the traders whose failed fills have used up their gas budget today. */
  barred(chainId: number): ReadonlySet<Address>
  /** Returns, for each chain and each budget, how many traders have used up this budget today. */
  spent(): { readonly chainId: number; readonly budget: Budget; readonly traders: number }[]
}

const NONE: ReadonlySet<Address> = new Set()

/** Sends the spending of these traders to the market threads. */
function publish(
  to: readonly MarketRef[],
  { chainId, day, traders }: ChainSums,
  changed: Address[],
) {
  for (const part of partsOf(changed, PUBLISH_MAX)) {
    const spending = part.flatMap((each) => traders.get(each) ?? [])
    const bytes = TRADER_BYTES * spending.length
    for (const market of to) market.tell('TradersSpent', { chainId, day, spending }, bytes)
  }
}

/** Adds the charges of a transaction to the sums of its traders. */
function charge(
  { traders, barred, unpublished }: ChainSums,
  { charges }: SettlementCharge,
  limits: SpendingLimits,
): void {
  for (const more of charges) {
    const { trader } = more
    const before = traders.get(trader) ?? { fills: 0, gas: 0, failedGas: 0 }
    const sum = {
      trader,
      fills: before.fills + more.fills,
      gas: before.gas + more.gas,
      failedGas: before.failedGas + more.failedGas,
    }
    remember(traders, trader, sum, SPENDING_TRADERS_MAX)
    unpublished.add(trader)
    if (isSpent(limits, 'failedGas', sum) && barred.size < SPENDING_TRADERS_MAX) barred.add(trader)
  }
}

export function makeSpendingRelay(options: {
  readonly markets: readonly MarketRef[]
  readonly limits: SpendingLimits
  readonly read: (filter: ChargesFilter) => Promise<readonly SettlementCharge[]>
}): SpendingRelay {
  const { markets, limits, read } = options
  const chains = new Map<number, ChainSums>()

  async function readOn(chain: ChainSums, nowMs: number): Promise<void> {
    if (dayOf(nowMs) !== chain.day) {
      chain.day = dayOf(nowMs)
      for (const sums of [chain.traders, chain.barred, chain.unpublished]) sums.clear()
    }
    const { chainId, sender, mark, done } = chain
    let highest = mark
    let firstOpen: number | undefined
    for (let below = Number.MAX_SAFE_INTEGER; ; ) {
      const except = [...done].filter((nonce) => nonce < below)
      const page = await read({ chainId, sender, above: mark, below, except, limit: PAGE })
      for (const each of page) {
        const { nonce, isOpen, isUndecided, finishedAtMs } = each
        highest = Math.max(highest, nonce)
        below = nonce
        if (isOpen || (isUndecided && nowMs - finishedAtMs < DECIDED_WITHIN_MS)) firstOpen = nonce
        else {
          done.add(nonce)
          if (dayOf(finishedAtMs) === chain.day) charge(chain, each, limits)
        }
      }
      const last = page.at(-1)
      if (last === undefined || page.length < PAGE) break
      if (dayOf(last.signedAtMs + SIGNED_BEFORE_MS) < chain.day) break
    }
    for (const nonce of done) highest = Math.max(highest, nonce)
    chain.mark = firstOpen === undefined ? highest : firstOpen - 1
    for (const nonce of done) if (nonce <= chain.mark) done.delete(nonce)
    publish(markets, chain, [...chain.unpublished])
    chain.unpublished.clear()
  }

  return {
    follow({ chainId, sender }) {
      if (!hasLimits(limits)) return
      chains.set(chainId, {
        chainId,
        sender,
        day: 0,
        traders: new Map(),
        barred: new Set(),
        mark: -1,
        done: new Set(),
        unpublished: new Set(),
        isReading: false,
      })
    },
    linked(market) {
      for (const chain of chains.values()) publish([market], chain, [...chain.traders.keys()])
    },
    async tick(nowMs) {
      for (const chain of chains.values()) {
        if (chain.isReading) continue
        chain.isReading = true
        try {
          await readOn(chain, nowMs)
        } finally {
          chain.isReading = false
        }
      }
    },
    barred: (chainId) => chains.get(chainId)?.barred ?? NONE,
    spent() {
      return [...chains.values()].flatMap(({ chainId, traders }) =>
        BUDGETS.map((budget) => {
          let count = 0
          for (const sum of traders.values()) if (isSpent(limits, budget, sum)) count++
          return { chainId, budget, traders: count }
        }),
      )
    },
  }
}
