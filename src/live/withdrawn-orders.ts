/**
 * Refuses orders that their trader has withdrawn on chain: single orders, or all orders below a nonce. Such an order
 * would match, but its trade would fail. The contract applies a withdrawal only after its `cancelDelay`, so that
 * earlier trades of the order still settle. A new order has no earlier trades. So the front refuses it as soon as a
 * block contains the withdrawal.
 *
 * The front reads a trader's withdrawals when the trader's next order arrives, and again after each change. Most
 * traders have no withdrawals, so their orders need no read (`chain-accounts.ts`).
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
   * Checks an order. Usually returns undefined at once, because memory shows that the order is not withdrawn. Otherwise
   * resolves with a rejection, or with undefined if the order is not withdrawn.
   */
  flawOf(order: Order, chainId: number): Promise<Rejection | undefined> | undefined
  /** Drops the known withdrawals of the traders that these events of the indexer concern. */
  followed(chainId: number, events: readonly ChainEvent[]): void
  /**
   * Drops the known withdrawals of one chain, or of every chain, and loads the traders again. Call this after a lost
   * message or a reorg.
   */
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
      // If the database returns `ORDERS_MAX` hashes, the list may be incomplete. Then do not remember it, and read
      // again for the trader's next order.
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
