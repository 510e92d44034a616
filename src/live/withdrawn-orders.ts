/**
 * Refuses orders that their trader has withdrawn on chain, one by one or all below a nonce. Such an order is void: it
 * would match, and then its trade would fail. A withdrawal counts from the block that contains it. Until the contract's
 * `cancelDelay` has passed, the contract still settles trades that matched before the withdrawal. A new order has no
 * such trades, so it is refused at once.
 *
 * The front reads a trader's withdrawals with their next order, and again after each change. Most traders have no
 * withdrawals, so their orders need no read (`chain-accounts.ts`).
 */

import type { ChainEvent } from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, OrderHash, Uint64 } from '#domain/ids.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import { type ChainAccountsPorts, makeChainAccounts } from './chain-accounts.ts'

/** Maximum number of withdrawn orders that are remembered per trader. */
const ORDERS_MAX = 100

type Withdrawn = {
  readonly beforeNonce: Uint64
  readonly orderHashes: readonly OrderHash[]
  readonly isWithdrawn: boolean
}

type WithdrawnOrdersPorts = ChainAccountsPorts & {
  readonly withdrawers: (chainId: number, limit: number) => Promise<readonly Address[]>
  readonly withdrawnBy: (asked: {
    readonly chainId: number
    readonly trader: Address
    readonly orderHash: OrderHash
    readonly ordersMax: number
  }) => Promise<Withdrawn>
}

type Order = Pick<VerifiedOrder, 'trader' | 'orderHash' | 'nonce'>

export type WithdrawnOrders = {
  /**
   * Checks an order. Returns undefined immediately if the order is known not to be withdrawn; this is the usual case.
   * Otherwise resolves with a rejection, or with undefined if the order is not withdrawn.
   */
  flawOf(order: Order, chainId: number): Promise<Rejection | undefined> | undefined
  /** Applies the withdrawals that the indexer has written for a chain. */
  followed(chainId: number, events: readonly ChainEvent[]): void
  /** Drops the known withdrawals of one chain or all, and loads them again after a lost message or a reorg. */
  reload(chainId?: number): void
}

type Read = { readonly beforeNonce: bigint; readonly orders: ReadonlySet<OrderHash> }

export function makeWithdrawnOrders(ports: WithdrawnOrdersPorts): WithdrawnOrders {
  const traders = makeChainAccounts<Read>(ports, ports.withdrawers)

  async function ask(chainId: number, order: Order): Promise<Rejection | undefined> {
    const { trader, orderHash } = order
    const remember = traders.reading(chainId, trader)
    try {
      const asked = { chainId, trader, orderHash, ordersMax: ORDERS_MAX }
      const { beforeNonce, orderHashes, isWithdrawn } = await ports.withdrawnBy(asked)
      const read = { beforeNonce: BigInt(beforeNonce), orders: new Set(orderHashes) }
      // If a trader has more withdrawn orders than can be remembered, each new order of the trader needs a read.
      if (orderHashes.length < ORDERS_MAX) remember(read)
      return flawIn(read, order, isWithdrawn)
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      const detail =
        'the exchange cannot check now whether the order was withdrawn on the chain: retry with the same order'
      return reject('OVERLOADED', undefined, detail)
    }
  }

  return {
    flawOf(order, chainId) {
      if (!traders.mayHave(chainId, order.trader)) return undefined
      const known = traders.known(chainId, order.trader)
      if (known === undefined) return ask(chainId, order)
      const flaw = flawIn(known, order, known.orders.has(order.orderHash))
      return flaw === undefined ? undefined : Promise.resolve(flaw)
    },
    followed(chainId, events) {
      for (const event of events) {
        if (event.type === 'OrderWithdrawn' || event.type === 'OrdersWithdrawn') {
          traders.changed(chainId, event.trader)
        }
      }
    },
    reload: traders.reload,
  }
}

function flawIn(read: Read, { nonce }: Order, isWithdrawn: boolean): Rejection | undefined {
  if (BigInt(nonce) < read.beforeNonce) {
    const detail =
      `order.nonce must be at least ${read.beforeNonce}, because the trader has withdrawn all orders with a lower ` +
      'nonce on the chain'
    return reject('ORDER_NONCE_TOO_LOW', 'order.nonce', detail)
  }
  if (!isWithdrawn) return undefined
  return reject('ORDER_CLOSED', undefined, 'the trader has withdrawn this order on the chain')
}
