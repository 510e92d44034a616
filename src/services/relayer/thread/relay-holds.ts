/**
 * Holds of the relayer. A hold makes the market threads refuse new orders of a trader while an operation is in
 * progress. A hold expires after `HOLD_MS`, so that a crashed relayer does not stop a trader for long. Until a hold is
 * lifted, the relayer renews it and sends it to each market thread that starts.
 */

import type { Address } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { RelayKey } from '#domain/relay.ts'
import {
  addNeeds,
  type HeldOrders,
  NO_NEEDS,
  type TraderHold,
  type TraderNeeds,
} from '#domain/trader-hold.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Ref } from '#runtime/ref.ts'

type MarketRef = Ref<MarketThreadProtocol>

const HOLD_MS = 30_000
/** Interval of renewing holds. */
export const RENEW_MS = 10_000
const ASK_MS = 2_000

type RelayHolds = {
  /**
   * Makes every market thread refuse new orders of the owner, if they are of the given kind. Returns what the owner's
   * open orders and unsettled trades need.
   */
  hold(key: RelayKey, owner: Address, orders: HeldOrders): Promise<TraderNeeds | Rejection>
  lift(key: RelayKey): void
  /** Sends all holds to a market thread that was linked or has lost messages. */
  linked(market: MarketRef): void
  renew(): void
}

export function makeRelayHolds(
  chainId: number,
  markets: readonly MarketRef[],
  nowMs: () => number,
): RelayHolds {
  const held = new Map<RelayKey, { readonly owner: Address; readonly orders: HeldOrders }>()

  /**
   * Returns the hold of an owner. It combines the kinds of orders to refuse for all current operations of the owner.
   */
  function holdOf(owner: Address): TraderHold {
    const orders = new Set<HeldOrders>()
    for (const each of held.values()) if (each.owner === owner) orders.add(each.orders)
    return { chainId, trader: owner, orders: [...orders], untilMs: nowMs() + HOLD_MS }
  }

  function linked(market: MarketRef): void {
    const owners = new Set([...held.values()].map(({ owner }) => owner))
    for (const owner of owners) market.tell('HoldTrader', { ...holdOf(owner), again: true })
  }

  return {
    async hold(key, owner, orders) {
      held.set(key, { owner, orders })
      const asked = holdOf(owner)
      const answers = await Promise.all(
        markets.map((market) => market.ask('HoldTrader', asked, ASK_MS)),
      )
      let needs = NO_NEEDS
      for (const answer of answers) {
        // Without the answers of all market threads, it is unknown what the owner's orders and trades need.
        if (isUnanswered(answer)) return reject('PART_UNAVAILABLE')
        if (isRejection(answer)) return answer
        needs = addNeeds(needs, answer)
      }
      return needs
    },
    lift(key) {
      const one = held.get(key)
      if (one === undefined) return
      held.delete(key)
      const left: TraderHold = { ...holdOf(one.owner), again: true }
      for (const market of markets) market.tell('HoldTrader', left)
    },
    linked,
    renew() {
      for (const market of markets) linked(market)
    },
  }
}
