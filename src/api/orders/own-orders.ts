/** Operations on all orders of an authenticated address, for REST and for the stream. */

import type { Static } from 'typebox'
import type { DeadmanSwitch } from '#domain/deadman.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { DEADMAN_MS_MAX, DEADMAN_MS_MIN } from '#domain/limits.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Principal } from '#http/route.ts'
import type { Delegates } from '#live/delegates.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { MarketGateway } from '#live/market-gateway.ts'
import type { CancelledOrders, DeadmanAnswer } from '#protocol/shapes/orders.ts'
import { type Acting, actingFor, actsOnChain } from './acting-for.ts'

export type DeadmanStore = {
  /** Stores a dead-man switch; returns undefined once it is durable. */
  set(one: DeadmanSwitch, deadlineAtMs: number): Promise<Rejection | undefined>
  clear(keyId: string, deadlineAtMs: number): Promise<Rejection | undefined>
}

export type OwnOrders = {
  /** Returns the trader on whose behalf the owner of a token acts in a market. */
  traderOf(
    principal: Principal,
    named: Address | undefined,
    marketId: MarketId,
  ): Promise<Address | Rejection>
  /**
   * Cancels open orders of the token's address, or of an account that appointed the address as its delegate. `market`
   * and `group` limit which orders are cancelled.
   */
  cancelAll(
    principal: Principal,
    where: {
      readonly market?: MarketId | undefined
      readonly group?: string | undefined
      readonly trader?: Address | undefined
    },
    deadlineAtMs: number,
  ): Promise<Static<typeof CancelledOrders> | Rejection>
  /**
   * Sets the dead-man switch of the API key: for the key's own address, or for an account that appointed this
   * address as its delegate. If `afterMs` is 0, turns the switch off.
   */
  deadman(
    principal: Principal,
    wanted: { readonly afterMs: number; readonly trader?: Address | undefined },
    deadlineAtMs: number,
  ): Promise<DeadmanAnswer | Rejection>
}

export function makeOwnOrders(ports: {
  readonly board: MarketBoard
  readonly gateway: Pick<MarketGateway, 'cancelAll'>
  readonly switches: DeadmanStore
  readonly actsOn?: Delegates['actsOn']
  readonly nowMs: () => number
}): OwnOrders {
  const { board, gateway, switches, actsOn, nowMs } = ports

  /** Rejects a delegate that was appointed only on chains other than the market's. */
  function elsewhereFlaw(acting: Acting, marketId: MarketId): Rejection | undefined {
    const shown = board.markets.get(marketId)
    if (actsOnChain(acting, shown?.market.chainId)) return undefined
    if (shown !== undefined) return reject('NOT_ORDER_OWNER', 'trader')
    return board.isCurrent() ? reject('MARKET_NOT_FOUND') : reject('OVERLOADED')
  }

  return {
    async traderOf(principal, named, marketId) {
      const acting = await actingFor(principal, named, actsOn)
      if (isRejection(acting)) return acting
      return elsewhereFlaw(acting, marketId) ?? acting.trader
    },

    async cancelAll(principal, { market, group, trader: named }, deadlineAtMs) {
      const acting = await actingFor(principal, named, actsOn)
      if (isRejection(acting)) return acting
      if (market !== undefined && !board.markets.has(market) && !board.isGone(market)) {
        return reject('MARKET_NOT_FOUND', 'market')
      }
      const elsewhere = market === undefined ? undefined : elsewhereFlaw(acting, market)
      if (elsewhere !== undefined) return elsewhere
      const { trader, chainIds } = acting
      const which = { marketId: market, group, chainIds }
      const cancelled = await gateway.cancelAll(trader, which, { deadlineAtMs })
      if (isRejection(cancelled)) return cancelled
      const { pending, ...rest } = cancelled
      // Sequence numbers count per market. So only an answer about one market has a `seq`.
      const seq = market === undefined ? undefined : board.markets.get(market)?.seq
      const seen = market === undefined || seq === undefined ? {} : { marketId: market, seq }
      const open = pending.length === 0 ? {} : { pending }
      return { status: 'cancelled', ...rest, ...open, ...seen }
    },

    async deadman(principal, { afterMs, trader }, deadlineAtMs) {
      const { keyId, address: own } = principal
      if (afterMs === 0) {
        return (await switches.clear(keyId, deadlineAtMs)) ?? { status: 'off' }
      }
      if (afterMs < DEADMAN_MS_MIN) {
        const detail = `afterMs must be 0, or from ${DEADMAN_MS_MIN} to ${DEADMAN_MS_MAX} milliseconds`
        return reject('INVALID_FIELD', 'afterMs', detail)
      }
      const acting = await actingFor(principal, trader, actsOn)
      if (isRejection(acting)) return acting
      const { trader: address } = acting
      const dueAtMs = Math.floor(nowMs()) + afterMs
      const delegate = address === own ? {} : { delegate: own }
      const failed = await switches.set({ keyId, address, dueAtMs, ...delegate }, deadlineAtMs)
      return failed ?? { status: 'on', cancelsAtMs: dueAtMs }
    },
  }
}
