/**
 * Checks resolutions against the rules. A proposed outcome resolves a market only if it stayed undisputed through its
 * window, or if the arbiter confirmed it. Each bond and each share is paid out once. The exchange's own key wastes no
 * transaction.
 */

import type { Address, MarketId } from '#domain/ids.ts'
import type { Oracle } from '../oracle.ts'
import { Violation } from '../scheduler.ts'
import type { Block, Mined, SimulatedChain } from './chain.ts'
import type { ChainMarket } from './factory.ts'
import { type Claim, ORACLE } from './oracle-model.ts'
import { isDue } from './proposers.ts'

/** Maximum time in seconds by which a node is behind the chain. */
const LAG_SEC_MAX = 20

export class Resolutions {
  readonly #chain: SimulatedChain
  readonly #oracle: Oracle
  /** The key of the exchange that settles. */
  readonly #own: Address
  /** Claims that the exchange settled. */
  readonly settled = new Set<string>()
  /** All dollars of the chain. */
  #dollars: bigint | undefined

  constructor(
    chain: SimulatedChain,
    { oracle, own }: { readonly oracle: Oracle; readonly own: Address },
  ) {
    this.#chain = chain
    this.#oracle = oracle
    this.#own = own
  }

  /** Called with each block. */
  mined(block: Block): void {
    this.#assertDollars(block)
    for (const market of block.markets.values()) assertRightful(market)
    for (const mined of block.mined) {
      if (mined.transaction.from === this.#own) this.#sent(mined, block)
    }
  }

  /**
   * Checks that the oracle holds the bonds of all unsettled claims. Checks that the contract of the outcome tokens
   * holds one dollar for each share that may still be redeemed. Checks that no dollar appears or is lost.
   */
  #assertDollars(block: Block): void {
    if (block.number < 2) return
    const claims = [...block.markets.values()].flatMap((market) => market.claims)
    const open = claims.filter(({ settledBy }) => settledBy === undefined)
    const owed = open.reduce(
      (sum, { bond, disputer }) => sum + bond * (disputer === undefined ? 1n : 2n),
      0n,
    )
    const dollarsOf = (account: Address) => block.wallets.get(account)?.dollars ?? 0n
    const held = dollarsOf(ORACLE)
    if (held !== owed) throw new Violation('bonds', `the oracle holds ${held}, and owes ${owed}`)
    const all = [...block.wallets.values()].reduce((sum, { dollars }) => sum + dollars, 0n)
    this.#dollars ??= all
    if (all !== this.#dollars) {
      throw new Violation('conserved', `there are ${all} dollars, not ${this.#dollars}`)
    }
    const redeemable = redeemableAt(block)
    const collateral = dollarsOf(this.#chain.contracts.at.conditionalTokens)
    if (collateral !== redeemable) {
      throw new Violation('pays-once', `${collateral} dollars are held for ${redeemable} shares`)
    }
  }

  /**
   * Checks a transaction of the exchange. If it resolves a market, it must report the payouts. It may revert if another
   * account settled a claim, or if a reorg occurred. It may also revert if the node lagged and did not show a
   * settlement or dispute yet.
   */
  #sent({ transaction, succeeded }: Mined, block: Block): void {
    const market = block.markets.get(transaction.to)
    if (market === undefined) return
    const { contract, claims, isPaid } = market
    if (succeeded) {
      if (market.winner !== undefined && !isPaid) {
        throw new Violation('pays', `the exchange resolved ${contract} without its payouts`)
      }
      for (const { id, settledBy } of claims) if (settledBy === this.#own) this.settled.add(id)
      return
    }
    const isExcused = claims.some((claim) => {
      const { settledBy, settledAtSec = 0, disputer, truth, windowEndsSec } = claim
      // A lagging node may not know yet that the exchange has settled. So the exchange may send a second settlement,
      // which reverts.
      const isNew = block.atSec - settledAtSec <= LAG_SEC_MAX
      if (settledBy !== undefined && (settledBy !== this.#own || isNew)) return true
      // If a dispute came just before the end of the window, a lagging node may not know the dispute yet. So the
      // exchange may try to settle the disputed claim.
      const isOpen = disputer !== undefined && truth === undefined
      return isOpen && block.atSec - windowEndsSec <= LAG_SEC_MAX
    })
    if (isExcused || this.#chain.reorgs > 0) return
    throw new Violation('no-waste', `the settlement of ${contract} reverted: ${describe(claims)}`)
  }

  /** Returns the resolutions that the exchange should have ended by now. */
  unfinished(nowSec: number): string[] {
    return [...this.#chain.head.markets.values()].flatMap((market) => {
      const { contract, winner, isPaid, marketId } = market
      if (isDue({ nowSec })(market)) return [`${contract} is not settled`]
      if (winner === undefined) return []
      if (!isPaid) return [`${contract} does not pay`]
      const model = this.#oracle.markets.get(marketId)
      const isClosed = model === undefined || model.closed !== undefined
      return isClosed ? [] : [`${contract} is resolved, but open at its market`]
    })
  }
}

/**
 * Checks how a market was resolved. A settled claim is right if it was undisputed or found true. If a claim resolved
 * the market, it must be the only right claim, with the market's outcome. Otherwise no claim may be right.
 */
function assertRightful({ contract, winner, endPrice, claims, claimId }: ChainMarket): void {
  const rights = claims.filter(
    ({ settledBy, disputer, truth }) =>
      settledBy !== undefined && (disputer === undefined || truth === true),
  )
  const isByClaim = winner !== undefined && endPrice === undefined
  const [right] = rights
  const isRight = isByClaim
    ? rights.length === 1 && right?.id === claimId && right?.outcome === winner
    : rights.length === 0
  if (isRight) return
  throw new Violation('rightful', `${contract} resolves to ${winner}: ${describe(claims)}`)
}

function describe(claims: readonly Claim[]): string {
  return claims
    .map(
      ({ id, outcome, disputer, truth, settledBy }) =>
        `${id.slice(2, 8)} ${outcome} ${disputer === undefined ? 'undisputed' : `is ${truth}`} by ${settledBy}`,
    )
    .join('; ')
}

/**
 * Returns the number of shares that are backed by one dollar each. In a resolved market these are the shares that won.
 * In an open market, a dollar backs one share of each outcome, so one outcome is counted.
 */
function redeemableAt({ markets, wallets }: Block): bigint {
  const winners = new Map([...markets.values()].map((each) => [each.marketId, each]))
  let sum = 0n
  for (const { shares } of wallets.values()) {
    for (const [token, amount] of shares) {
      const [marketId, outcome] = token.split('/') as [MarketId, string]
      const { winner, isPaid } = winners.get(marketId) ?? {}
      if (Number(outcome) === (isPaid === true ? winner : 0)) sum += amount
    }
  }
  return sum
}
