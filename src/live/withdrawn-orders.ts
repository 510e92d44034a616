/**
 * Refuses orders that are void on chain: those that their trader withdrew there, one by one or all below a nonce.
 * They would match and then fail. A withdrawal counts from the block that contains it. The contract lets trades that
 * matched earlier settle for a while, but a new order is not among them.
 *
 * A front remembers which traders have withdrawn anything, from the database at its start and from messages of the
 * indexer; orders of all others pass without a read. A trader's withdrawals are read from the database with their
 * next order, and again after each change. Any account can withdraw for the price of gas, so memory is bounded: if
 * there are too many, every trader is read once and remembered for a while.
 */

import type { ChainEvent } from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, OrderHash, Uint64 } from '#domain/ids.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'

/** Maximum number of remembered traders per chain. */
const TRADERS_MAX = 100_000
/** Maximum number of traders with remembered withdrawals, and of orders per trader. */
const READ_MAX = 5_000
const ORDERS_MAX = 100
/** Pause before the database is read again. */
const AGAIN_MS = 1_000

type Withdrawn = {
  readonly beforeNonce: Uint64
  readonly orderHashes: readonly OrderHash[]
  readonly isWithdrawn: boolean
}

type WithdrawnOrdersPorts = {
  readonly chainIds: Iterable<number>
  readonly withdrawers: (chainId: number, limit: number) => Promise<readonly Address[]>
  readonly withdrawnBy: (asked: {
    readonly chainId: number
    readonly trader: Address
    readonly orderHash: OrderHash
    readonly ordersMax: number
  }) => Promise<Withdrawn>
  /** Schedules a call; a stopping front does not wait for it. */
  readonly after: (ms: number, then: () => void) => void
  readonly tradersMax?: number
}

type Order = Pick<VerifiedOrder, 'trader' | 'orderHash' | 'nonce'>

export type WithdrawnOrders = {
  /**
   * Returns undefined at once for a trader without withdrawals, which are nearly all; otherwise resolves when known.
   */
  flawOf(order: Order, chainId: number): Promise<Rejection | undefined> | undefined
  /** Applies the withdrawals that the indexer has written for a chain. */
  followed(chainId: number, events: readonly ChainEvent[]): void
  /** Drops the known withdrawals of one chain or all, and loads them again after a lost message or a reorg. */
  reload(chainId?: number): void
}

type Read = { readonly beforeNonce: bigint; readonly orders: ReadonlySet<OrderHash> }

type Chain = {
  /** Traders who may have withdrawn something. */
  readonly traders: Set<Address>
  /** True if all other traders have withdrawn nothing. */
  isWhole: boolean
  /** Known withdrawals by trader, the latest read last. */
  readonly read: Map<Address, Read>
  /** Counts changes that make a read in progress too old to be remembered. */
  changes: number
  /** … and a load. */
  loads: number
}

export function makeWithdrawnOrders(ports: WithdrawnOrdersPorts): WithdrawnOrders {
  const { tradersMax = TRADERS_MAX } = ports
  const chains = new Map<number, Chain>()
  for (const chainId of ports.chainIds) {
    chains.set(chainId, {
      traders: new Set(),
      isWhole: false,
      read: new Map(),
      changes: 0,
      loads: 0,
    })
    void load(chainId)
  }

  async function load(chainId: number): Promise<void> {
    const chain = chains.get(chainId)
    if (chain === undefined) return
    const { loads } = chain
    try {
      const found = await ports.withdrawers(chainId, tradersMax + 1)
      if (loads !== chain.loads) return
      for (const trader of found) {
        if (chain.traders.size < tradersMax) chain.traders.add(trader)
      }
      chain.isWhole = found.every((trader) => chain.traders.has(trader))
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      ports.after(AGAIN_MS, () => {
        if (loads === chain.loads) void load(chainId)
      })
    }
  }

  async function ask(chain: Chain, chainId: number, order: Order): Promise<Rejection | undefined> {
    const { trader, orderHash } = order
    const { changes } = chain
    try {
      const asked = { chainId, trader, orderHash, ordersMax: ORDERS_MAX }
      const { beforeNonce, orderHashes, isWithdrawn } = await ports.withdrawnBy(asked)
      const read = { beforeNonce: BigInt(beforeNonce), orders: new Set(orderHashes) }
      // If a trader has more withdrawn orders than can be remembered, every order needs a read.
      if (changes === chain.changes && orderHashes.length < ORDERS_MAX) {
        remember(chain, trader, read)
      }
      return flawIn(read, order, isWithdrawn)
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      const detail = 'orders withdrawn on chain cannot be read now: retry with the same order'
      return reject('OVERLOADED', undefined, detail)
    }
  }

  return {
    flawOf(order, chainId) {
      const chain = chains.get(chainId)
      if (chain === undefined) return undefined
      if (chain.isWhole && !chain.traders.has(order.trader)) return undefined
      const known = chain.read.get(order.trader)
      if (known === undefined) return ask(chain, chainId, order)
      const flaw = flawIn(known, order, known.orders.has(order.orderHash))
      return flaw === undefined ? undefined : Promise.resolve(flaw)
    },
    followed(chainId, events) {
      const chain = chains.get(chainId)
      if (chain === undefined) return
      for (const event of events) {
        if (event.type !== 'OrderWithdrawn' && event.type !== 'OrdersWithdrawn') continue
        chain.changes++
        touch(chain, event.trader, tradersMax)
      }
    },
    reload(chainId) {
      for (const [id, chain] of chains) {
        if (chainId !== undefined && id !== chainId) continue
        chain.changes++
        chain.loads++
        chain.isWhole = false
        chain.traders.clear()
        chain.read.clear()
        void load(id)
      }
    },
  }
}

/** A withdrawal of the trader is new: earlier reads are too old. */
function touch(chain: Chain, trader: Address, tradersMax: number): void {
  chain.read.delete(trader)
  if (chain.traders.size < tradersMax) chain.traders.add(trader)
  else if (!chain.traders.has(trader)) chain.isWhole = false
}

function remember(chain: Chain, trader: Address, read: Read): void {
  chain.read.delete(trader)
  chain.read.set(trader, read)
  if (chain.read.size <= READ_MAX) return
  for (const oldest of chain.read.keys()) {
    chain.read.delete(oldest)
    break
  }
}

function flawIn(read: Read, { nonce }: Order, isWithdrawn: boolean): Rejection | undefined {
  if (BigInt(nonce) < read.beforeNonce) {
    const detail = `order.nonce must be at least ${read.beforeNonce}: the trader has withdrawn all lower ones on chain`
    return reject('ORDER_NONCE_TOO_LOW', 'order.nonce', detail)
  }
  if (!isWithdrawn) return undefined
  return reject('ORDER_CLOSED', undefined, 'the trader has withdrawn this order on chain')
}
