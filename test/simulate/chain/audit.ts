/**
 * Compares the chain with the log. A trade settles at most once, and only if it was matched. A confirmed trade is
 * settled, and a failed trade never is. The side at fault is the side that the contract named. Dollars and shares are
 * conserved.
 */

import type { Address, OrderHash, TradeId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import type { KnownTrade } from '../market-model.ts'
import { type Oracle, placedBy } from '../oracle.ts'
import { overdrawn } from '../reserved.ts'
import { type Scheduler, Violation } from '../scheduler.ts'
import type { Block, SimulatedChain } from './chain.ts'
import type { People } from './people.ts'

/** Traders, and the sum of all their dollars. The sum is undefined if another audit counts the dollars. */
type AuditedPeople = Pick<People, 'isHeld' | 'isCalm'> & { readonly dollars: bigint | undefined }

export class ChainAudit {
  readonly #chain: SimulatedChain
  readonly #oracle: Oracle
  readonly #people: AuditedPeople
  settled = 0
  /** The newest order of each permit. */
  readonly #permits = new Map<string, OrderHash>()
  /**
   * True if funds are reserved for orders. Then no trade may fail by the fault of a trader who never moves funds away.
   */
  readonly #hasFunds: boolean

  constructor(
    scheduler: Scheduler,
    chain: SimulatedChain,
    { people, oracle, hasFunds }: { people: AuditedPeople; oracle: Oracle; hasFunds: boolean },
  ) {
    this.#hasFunds = hasFunds
    this.#chain = chain
    this.#people = people
    this.#oracle = oracle
    people.isHeld = (trader, nonce) => {
      const holder = this.#permits.get(`${trader} ${nonce}`)
      return holder !== undefined && oracle.isLive(holder)
    }
    chain.onBlock = (block) => {
      try {
        this.mined(block)
      } catch (error) {
        scheduler.fail(error)
      }
    }
  }

  /** Called with each block. */
  mined(block: Block): void {
    const { dollars } = this.#people
    if (block.number > 1 && dollars !== undefined) this.#chain.assertConserved(block, dollars)
    const here = new Set<string>()
    for (const { tradeId, tradeKey, reason, buyHash, sellHash, size } of block.mined.flatMap(
      ({ verdicts }) => verdicts,
    )) {
      if (reason !== 'None') continue
      this.settled++
      const trade = this.#oracle.tradeOf(tradeId)
      const isMatched =
        trade?.buy.orderHash === buyHash && trade.sell.orderHash === sellHash && trade.size === size
      if (!isMatched) throw new Violation('settled-matched', `${tradeId} is not a trade of the log`)
      const before = block.parent
      if (here.has(tradeKey) || (before !== undefined && this.#chain.isSettled(tradeKey, before))) {
        throw new Violation('settles-once', `${tradeId} settles a second time`)
      }
      here.add(tradeKey)
      if (trade.status === 'failed' && this.#chain.deepReorgs === 0) {
        throw new Violation('failed-settles', `${tradeId} has failed, and settles`)
      }
    }
  }

  /** Called with each event that becomes durable. */
  logged(event: MarketEvent): void {
    const placed = placedBy(event)
    if (placed !== undefined) {
      this.#permitted(placed)
      this.#entered(placed.trader)
    }
    const isEnd = event.type === 'TradeConfirmed' || event.type === 'TradeFailed'
    if (!isEnd || this.#chain.deepReorgs > 0) return
    const isSettled = this.#isSettled(this.#oracle.tradeOf(event.tradeId))
    if (event.type === 'TradeConfirmed' && !isSettled) {
      throw new Violation('confirmed-settled', `${event.tradeId} is confirmed, but has not settled`)
    }
    if (event.type === 'TradeConfirmed') this.#final(event.tradeId)
    if (event.type !== 'TradeFailed') return
    if (isSettled) throw new Violation('failed-settles', `${event.tradeId} fails, but has settled`)
    const { fault, tradeId } = event
    const isNamed = fault === 'none' || this.#chain.refusals.get(tradeId)?.has(fault) === true
    if (this.#hasFunds && this.#people.isCalm && fault !== 'none') {
      throw new Violation(
        'covered',
        `${tradeId} fails by the fault of the ${fault}: ${event.reason}`,
      )
    }
    if (!isNamed) throw new Violation('fault-named', `${tradeId}: no contract names the ${fault}`)
  }

  #isSettled(trade: KnownTrade | undefined): boolean {
    return trade !== undefined && this.#chain.hasSettled(trade)
  }

  /** Checks that no reorg of the usual depth can remove a confirmed trade. */
  #final(tradeId: TradeId): void {
    const { head, confirmations } = this.#chain
    const deep = this.#chain.blockAt(head.number - confirmations, head)
    const trade = this.#oracle.tradeOf(tradeId)
    if (deep === undefined || trade === undefined || this.#chain.hasSettled(trade, deep)) return
    throw new Violation('confirmed-final', `${tradeId} lacks ${confirmations} confirmations`)
  }

  /** Checks that the trader's funds cover a new order together with all open orders and pending trades. */
  #entered(trader: Address): void {
    if (!this.#hasFunds || !this.#people.isCalm || this.#chain.reorgs > 0) return
    const flaw = overdrawn(this.#oracle, trader, this.#chain)
    if (flaw !== undefined) throw new Violation('covered', flaw)
  }

  /** Checks that no two live orders of a trader have the same permit. */
  #permitted({ orderHash, trader, permit }: VerifiedOrder): void {
    if (permit === undefined) return
    const name = `${trader} ${permit.nonce}`
    const before = this.#permits.get(name)
    const isReused = before !== undefined && before !== orderHash && this.#oracle.isLive(before)
    if (this.#hasFunds && isReused) {
      throw new Violation('permit-once', `${orderHash} and ${before} have the permit ${name}`)
    }
    this.#permits.set(name, orderHash)
  }

  /** Returns trades that the chain has not decided, and trades whose status in the log differs from the chain. */
  undecided(): string[] {
    return this.#oracle.allTrades().flatMap((trade) => {
      const { tradeId, status } = trade
      if (status !== 'confirmed' && status !== 'failed') return [`${tradeId} is ${status}`]
      const isSettled = this.#isSettled(trade)
      // A deep reorg can bring back the transaction of a failed trade. So after a deep reorg, a failed trade may be
      // settled on the chain.
      const isExcused = isSettled && this.#chain.deepReorgs > 0
      return isSettled === (status === 'confirmed') || isExcused
        ? []
        : [`${tradeId} is ${status}, but ${isSettled ? 'has' : 'has not'} settled`]
    })
  }
}
