/**
 * A front through which owners place orders, signed by their own keys or by delegates. The code that checks delegates
 * and withdrawals is real. Once the front has received a withdrawal or the revocation of a delegate, it must not accept
 * the affected orders. At the end of the run, no affected order may be open.
 */

import type { MessagePort } from 'node:worker_threads'
import { makeOrderSigners } from '#api/orders/order-signers.ts'
import { channelOptions } from '#config/thread-data.ts'
import type { ChainEvent } from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import { type Address, type MarketId, type Uint64, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Order, Outcome, Side, VerifiedOrder } from '#domain/order.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { RelayOperation } from '#domain/relay.ts'
import { makeDelegates } from '#live/delegates.ts'
import { makeWithdrawnOrders } from '#live/withdrawn-orders.ts'
import type { ChainFollowerProtocol } from '#protocol/indexer.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { WriteRequests } from '#protocol/projector.ts'
import { Channel } from '#runtime/channel.ts'
import { makeRef } from '#runtime/ref.ts'
import { askWrite } from '#store/writes/ask-write.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import { type Tables, wayToDatabase } from '../database.ts'
import type { SimulatedWorld } from '../exchange.ts'
import type { KnownTrade } from '../market-model.ts'
import type { Oracle } from '../oracle.ts'
import { newLife, Violation } from '../scheduler.ts'
import type { SimulatedChain } from './chain.ts'
import { EMPTY_WALLET } from './contracts.ts'
import { delegateOf, OWNER_ADDRESSES } from './owners.ts'

/** An order and the delegate that signed it. The delegate is undefined if the trader signed. */
export type DeskOrder = { readonly order: VerifiedOrder; readonly delegate: Address | undefined }

type DeskWorld = SimulatedWorld & { readonly chain: SimulatedChain; readonly tables: Tables }

const EVERY_US = 400_000
const WRITE_MS = 3_000
const ORDERS_MAX = 40
const UNIT = 1_000_000

export class OrderDesk {
  readonly name = 'front-orders'
  readonly life = newLife(this.name)
  readonly #world: DeskWorld
  readonly #oracle: Oracle
  readonly #random: Random
  readonly #thread = makeRef<MarketThreadProtocol>()
  readonly #store = makeRef<WriteRequests>()
  readonly #withdrawn
  readonly #delegates
  readonly #signers
  readonly #orders: DeskOrder[] = []
  readonly #nonces = new Map<Address, number>()
  /** Withdrawals and delegations that this front has received, and that no reorg has removed since. */
  #told: ChainEvent[] = []
  /** Orders that were refused because they were withdrawn, or because their delegate was revoked. */
  refused = 0
  isMoving = true

  constructor(world: DeskWorld, oracle: Oracle) {
    this.#world = world
    this.#oracle = oracle
    this.#random = randomFrom(Math.imul(world.seed + 103, 0x3ad8025f))
    const { scheduler, faults, settings, tables, seed } = world
    const way = { scheduler, faults, life: this.life, seed, tables, isShared: false }
    const { query } = wayToDatabase(way).reads
    const chainIds = settings.chains.map(({ chainId }) => chainId)
    const after = (ms: number, then: () => void) =>
      void scheduler.after(ms * 1_000, then, this.life)
    const clock = { nowMs: () => scheduler.nowMs }
    this.#withdrawn = makeWithdrawnOrders({
      ...{ chainIds, after },
      withdrawers: (chainId, limit) => query('withdrawers', { chainId, limit }),
      withdrawnBy: (asked) => query('withdrawnBy', asked),
    })
    this.#delegates = makeDelegates({
      ...{ chainIds, after, ...clock },
      delegators: (chainId, limit) => query('delegators', { chainId, limit }),
      delegationsOf: (asked) => query('delegationsOf', asked),
    })
    this.#signers = makeOrderSigners({
      ...{ delegates: this.#delegates, clock },
      contracts: { accepts: async () => false },
      delegated: {
        reserve: async (order) => {
          try {
            return await askWrite(this.#store, 'reserveDelegated', order, WRITE_MS)
          } catch (error) {
            if (!(error instanceof Fault)) throw error
            return reject('OVERLOADED')
          }
        },
        check: (order) => query('checkDelegated', order),
        release: (orderHash) => {
          const work = askWrite(this.#store, 'releaseDelegated', { orderHash }, WRITE_MS)
          work.catch((error) => scheduler.trace(`${this.name} cannot release: ${error.message}`))
        },
      },
    })
    scheduler.every(EVERY_US, () => {
      if (this.isMoving) this.#watch(this.#move())
    })
  }

  get #options() {
    const { settings, scheduler } = this.#world
    return { ...channelOptions(settings), loop: scheduler.loop(this.life) }
  }

  connect(port: MessagePort): void {
    this.#thread.replace(new Channel(port, this.#options, { received() {} }))
  }

  connectStore(port: MessagePort): void {
    this.#store.replace(new Channel(port, this.#options, { received() {} }))
  }

  connectIndexer(port: MessagePort): void {
    const handlers: {
      [K in keyof ChainFollowerProtocol]: (message: ChainFollowerProtocol[K]['takes']) => void
    } = {
      ChainAdvanced: ({ chainId, events }) => {
        this.#withdrawn.followed(chainId, events)
        this.#delegates.followed(chainId, events)
        this.#told.push(...events.filter(({ type }) => KINDS.includes(type)))
      },
      ChainRewound: ({ chainId, to }) => {
        this.#withdrawn.reload(chainId)
        this.#delegates.reload(chainId)
        this.#told = this.#told.filter(({ blockNumber }) => blockNumber <= to.number)
      },
    }
    const reload = () => {
      this.#withdrawn.reload()
      this.#delegates.reload()
      // A lost message may have reported a reorg that removed some of these events. So the front forgets all of them.
      this.#told = []
    }
    const channel = new Channel<ChainFollowerProtocol>(port, this.#options, {
      received: (type, message) => handlers[type as keyof ChainFollowerProtocol](message as never),
      lost: reload,
      closed: reload,
    })
    void channel
    reload()
  }

  /** Returns the owner's newest orders: usually only open orders, sometimes ended orders as well. */
  ordersOf(owner: Address): readonly Order[] {
    const isOnlyOpen = this.#random.chance(0.85)
    return this.#orders
      .map(({ order }) => order)
      .filter((order) => order.trader === owner && (!isOnlyOpen || this.#isOpen(order)))
      .slice(-ORDERS_MAX / 4)
      .map(({ orderHash: _, signature: __, ...order }) => order)
  }

  #isOpen({ marketId, orderHash }: VerifiedOrder): boolean {
    const model = this.#oracle.markets.get(marketId)
    const known = model?.orders.get(orderHash)
    return known !== undefined && known.ended === undefined && model?.closed === undefined
  }

  tradeOf(tradeId: string): KnownTrade | undefined {
    return this.#oracle.tradeOf(tradeId)
  }

  /** Tells the oracle which orders the operation may cancel. */
  withdraws(operation: RelayOperation): void {
    if (operation.kind === 'cancel-all-before' || operation.kind === 'set-delegate') {
      this.#oracle.cancellingAll(operation.owner)
    }
    if (operation.kind !== 'cancel-orders') return
    const { contracts } = this.#world.chain
    for (const order of operation.orders) this.#oracle.cancelling(contracts.hashOf(order))
  }

  #watch(work: Promise<unknown>): void {
    work.catch((error) => this.#world.scheduler.fail(error))
  }

  async #move(): Promise<void> {
    const random = this.#random
    const again = random.chance(0.3) && this.#orders.length > 0
    const sent = again ? random.pick(this.#orders.slice(-ORDERS_MAX)) : this.#newOrder()
    if (sent !== undefined) await this.#place(sent)
  }

  #newOrder(): DeskOrder | undefined {
    const random = this.#random
    const { chain, scheduler } = this.#world
    const nowSec = Math.floor(scheduler.nowMs / 1_000)
    const open = [...this.#oracle.markets.values()].filter(({ closed }) => closed === undefined)
    if (open.length === 0) return undefined
    const marketId: MarketId = random.pick(open).id
    const trader = random.pick(OWNER_ADDRESSES)
    const nonce = (this.#nonces.get(trader) ?? 0) + 1
    this.#nonces.set(trader, nonce)
    const order: Order = {
      ...{ marketId, trader, side: random.int(0, 1) as Side, outcome: random.int(0, 1) as Outcome },
      price: (500_000 + random.int(-2, 2) * 10_000) as Price,
      size: (random.int(1, 6) * UNIT) as Shares,
      nonce: String(nonce) as Uint64,
      expiration: String(nowSec + random.pick([10, 40, 100_000])) as Uint64,
      makerFeeRecipient: ZERO_ADDRESS,
    }
    chain.contracts.know(marketId)
    const orderHash = chain.contracts.hashOf(order)
    const delegate = random.chance(0.4) ? delegateOf(trader) : undefined
    const word = (delegate?.slice(2) ?? '1').padStart(64, '0')
    const sent = { order: { ...order, orderHash, signature: `${orderHash}${word}1b` }, delegate }
    this.#orders.push(sent)
    return sent
  }

  async #place(sent: DeskOrder): Promise<void> {
    const { order, delegate } = sent
    const { scheduler } = this.#world
    const why = this.#toldWhy(sent)
    const answer = await this.#placed(sent)
    const told = isRejection(answer) ? answer.rejected : JSON.stringify(answer)
    const by = delegate === undefined ? '' : ' by a delegate'
    scheduler.trace(`${this.name} places ${order.orderHash.slice(2, 10)}${by}: ${told}`)
    const isNew = !isRejection(answer) && answer === 'accepted'
    if (why !== undefined && isNew && this.#isStillTold(sent)) {
      throw new Violation('withdrawn-refused', `${order.orderHash} was accepted, but ${why}`)
    }
    if (why !== undefined && isRejection(answer)) this.refused++
  }

  /** Checks and sends an order as a front does; returns how it was answered. */
  async #placed({ order, delegate }: DeskOrder): Promise<Rejection | string> {
    const { chain } = this.#world
    const { chainId } = chain.contracts.at
    const { orderHash, signature } = order
    const inspection = { orderHash, recovered: delegate ?? order.trader, digest: orderHash }
    const flaw = delegate === undefined ? null : 'another key signed'
    const signed = { chainId, order, signature } as never
    const signer = await this.#signers.signerOf(signed, { ...inspection, flaw } as never, ASKER)
    if (isRejection(signer)) return signer
    const withdrawn = await this.#withdrawn.flawOf(order, chainId)
    if (withdrawn !== undefined) return withdrawn
    const limited = await this.#signers.limitFlaw(signer, order)
    if (limited !== undefined) return limited
    const pending = this.#oracle.asked()
    this.#oracle.placing(order, {})
    const answer = await this.#thread.ask('PlaceOrder', { order })
    this.#oracle.placed(order, pending, answer)
    if (isRejection(answer)) {
      this.#signers.release(signer, orderHash)
      return answer
    }
    if ('unanswered' in answer) return answer.unanswered
    return answer.duplicate === true ? 'duplicate' : 'accepted'
  }

  /**
   * Returns why this front must refuse the order, judged by the messages that it has received. Returns undefined if it
   * may accept the order.
   */
  #toldWhy({ order, delegate }: DeskOrder): string | undefined {
    const { trader, orderHash, nonce } = order
    const nowSec = Math.floor(this.#world.scheduler.nowMs / 1_000)
    let untilSec: number | undefined
    for (const event of this.#told) {
      if (event.type === 'OrderWithdrawn' && event.orderHash === orderHash) {
        return `was withdrawn in block ${event.blockNumber}`
      }
      const isBelow = event.type === 'OrdersWithdrawn' && event.trader === trader
      if (isBelow && BigInt(nonce) < BigInt(event.beforeNonce)) {
        return `its nonce was withdrawn in block ${event.blockNumber}`
      }
      const isTerm = event.type === 'DelegateSet' && event.account === trader
      if (isTerm && event.delegate === delegate) untilSec = event.untilSec
    }
    return untilSec !== undefined && untilSec <= nowSec ? 'its delegate is revoked' : undefined
  }

  /**
   * Returns whether the reason to refuse the order still holds. While the front checked the order, a new delegation or
   * a reorg may have removed the reason.
   */
  #isStillTold(sent: DeskOrder): boolean {
    return this.#toldWhy(sent) !== undefined
  }

  /** Returns orders that are open although their traders withdrew them, or revoked their delegate, on the chain. */
  unfinished(): string[] {
    const { chain, scheduler } = this.#world
    const nowSec = Math.floor(scheduler.nowMs / 1_000)
    return this.#orders.flatMap(({ order, delegate }) => {
      const { orderHash, trader, nonce } = order
      if (!this.#isOpen(order)) return []
      const { cancelled, epoch, delegates } = (chain.head.wallets.get(trader) ?? EMPTY_WALLET)
        .rights
      if (cancelled.has(orderHash)) return [`${orderHash} is open, but was withdrawn`]
      if (BigInt(nonce) < epoch.next) return [`${orderHash} is open, but its nonce was withdrawn`]
      if (delegate === undefined || (delegates.get(delegate)?.untilSec ?? 0) > nowSec) return []
      return [`${orderHash} is open, but its delegate was revoked`]
    })
  }

  get counts(): string {
    return `${this.#orders.length} orders, ${this.refused} refused as withdrawn or revoked`
  }
}

const KINDS: readonly ChainEvent['type'][] = ['OrderWithdrawn', 'OrdersWithdrawn', 'DelegateSet']
const ASKER = {} as never
