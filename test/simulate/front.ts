/**
 * A simulated front: clients that place, cancel and resend orders, and the real board, which follows the market
 * thread. Every answer and every change of the board goes to the oracle.
 */

import type { MessagePort } from 'node:worker_threads'
import { channelOptions, topologyOf } from '#config/thread-data.ts'
import { partitionOf } from '#config/topology.ts'
import type { Address, MarketId, OrderHash, Uint64 } from '#domain/ids.ts'
import { ZERO_ADDRESS } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import {
  BUY,
  type Order,
  type Outcome,
  SELL,
  type Side,
  type VerifiedOrder,
} from '#domain/order.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import type { TimeInForce } from '#domain/time-in-force.ts'
import { makeBoardLoad } from '#live/board-load.ts'
import { type FundsGateway, makeFundsGateway } from '#live/funds-gateway.ts'
import { makeBoard, type ShownMarket } from '#live/market-board.ts'
import { readRows } from '#log/packed-event.ts'
import type { AccountsRequests } from '#protocol/accounts.ts'
import { ACCOUNTS_FORMS } from '#protocol/accounts-forms.ts'
import type { OrderAccepted } from '#protocol/market.ts'
import type {
  DozeProtocol,
  MarketFollowerProtocol,
  SessionsProtocol,
} from '#protocol/market-followers.ts'
import { MARKET_FORMS } from '#protocol/market-forms.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { Channel, isUnanswered, type Unanswered } from '#runtime/channel.ts'
import { makeRef } from '#runtime/ref.ts'
import { type Random, randomFrom } from '../support/random.ts'
import type { Peer, SimulatedWorld } from './exchange.ts'
import { digestOf } from './market-model.ts'
import { isFinal, type Oracle, type Pending } from './oracle.ts'
import { type Life, newLife, Violation } from './scheduler.ts'

type MarketProtocols = MarketThreadProtocol & SessionsProtocol & DozeProtocol

type Sent = {
  readonly order: VerifiedOrder
  readonly how: { readonly timeInForce?: TimeInForce; readonly session?: string }
  /** True while the client does not know the outcome of the order. */
  isOpenQuestion: boolean
}

/** Orders that a client remembers. */
const SENT_MAX = 60
/** Time after which an unconfirmed request to end a session is sent again. */
const END_AGAIN_US = 4_000_000
/** Share of placements in which one trader places several orders at once. Used only if funds are reserved. */
const RUSH_SHARE = 0.04
const TIMES_IN_FORCE = ['IOC', 'FOK', 'POST_ONLY'] as const

export class Front implements Peer {
  readonly name: string
  readonly life: Life
  readonly #world: SimulatedWorld
  readonly #oracle: Oracle
  readonly #random: Random
  readonly #thread = makeRef<MarketProtocols>()
  readonly #accounts = makeRef<AccountsRequests>()
  readonly #funds: FundsGateway
  readonly #changed = new Set<ShownMarket>()
  readonly #sent: Sent[] = []
  readonly #sessions = new Set<string>()
  readonly #endedSessions = new Set<string>()
  /** Orders of sessions whose end is confirmed. */
  readonly #over: { readonly orders: VerifiedOrder[]; readonly pending: Pending }[] = []
  #sessionsMade = 0
  /** Partitions that this front does not follow, or has not loaded again yet. */
  readonly #idlePartitions = new Set<number>()
  /** Highest `seq` of each market that the current link has delivered. */
  readonly #delivered = new Map<MarketId, number>()
  #isChecking = false
  readonly #board
  readonly #load
  /** Share of acts that change nothing. */
  readonly #readShare: number
  isTrading = true

  constructor(world: SimulatedWorld, oracle: Oracle, index: number) {
    this.name = `front-${index}`
    this.life = newLife(this.name)
    this.#world = world
    this.#oracle = oracle
    this.#random = randomFrom(Math.imul(world.seed + 7, 0x27d4eb2f) + index)
    this.#readShare = this.#random.chance(0.4) ? 0.9 : 0
    const changed = (shown: ShownMarket) => void this.#changed.add(shown)
    const listener = { followed: changed, loaded: changed, forgotten() {} }
    this.#board = makeBoard({ isWhole: () => true, isCurrent: () => true }, listener)
    const after = (delayMs: number, act: () => void) =>
      world.scheduler.after(delayMs * 1_000, act, this.life)
    this.#load = makeBoardLoad(this.#board, this.#thread, () => true, { after })
    this.#funds = makeFundsGateway([this.#accounts], () => 0, {
      nowMs: () => world.scheduler.nowMs,
    })
    this.#actSoon()
    const again = () => {
      for (const session of this.#endedSessions) this.#watch(this.#endSession(session))
    }
    world.scheduler.every(END_AGAIN_US, again, this.life)
  }

  connect(port: MessagePort): void {
    const load = this.#load
    const options = {
      ...channelOptions(this.#world.settings),
      forms: MARKET_FORMS,
      loop: this.#world.scheduler.loop(this.life),
    }
    const handlers: {
      [K in keyof MarketFollowerProtocol]: (message: MarketFollowerProtocol[K]['takes']) => void
    } = {
      MarketEvents: ({ rows }) => {
        const events = readRows(rows)
        for (const { marketId, seq } of events) this.#delivered.set(marketId, seq)
        load.follow(events)
      },
      MarketFacts: ({ events }) => load.followFacts(events),
      MarketsReloaded: ({ views }) => {
        for (const view of views) this.#board.load(view)
      },
      MarketsGone: ({ marketIds }) => load.forget(marketIds),
    }
    this.#thread.replace(
      new Channel(port, options, {
        received: (type, message) => {
          handlers[type as keyof MarketFollowerProtocol]?.(message as never)
          this.#checkBoard()
          this.#checkDeliveredSoon()
        },
        closed: () => load.closed(),
        lost: () => load.lost(),
      }),
    )
    this.#delivered.clear()
    if (this.#sessions.size > 0) {
      void this.#thread.ask('ClaimSessions', { sessions: [...this.#sessions] })
    }
    for (const session of this.#endedSessions) this.#watch(this.#endSession(session))
    load.begin()
  }

  connectFunds(port: MessagePort): void {
    const options = {
      ...channelOptions(this.#world.settings),
      forms: ACCOUNTS_FORMS,
      loop: this.#world.scheduler.loop(this.life),
    }
    this.#accounts.replace(new Channel(port, options, { received() {} }))
  }

  #deadline(): { readonly deadlineAtMs: number } {
    const { scheduler, settings } = this.#world
    return { deadlineAtMs: scheduler.nowMs + settings.front.deadlineMs }
  }

  /** Returns a trader's funds, or why they are not known. */
  fundsOf(trader: Address): ReturnType<FundsGateway['funds']> {
    const [chain] = this.#world.settings.chains
    return this.#funds.funds(chain?.chainId ?? 0, trader, this.#deadline())
  }

  /**
   * Reserves the funds of an order. Returns true if the order may be placed, and false if it must not be placed.
   * Returns undefined if the result is unknown.
   */
  async #reserve(
    order: VerifiedOrder,
    pending: Pending,
    deadline: { readonly deadlineAtMs: number },
  ): Promise<boolean | undefined> {
    const [chain] = this.#world.settings.chains
    const refused = await this.#funds.reserve(order, chain?.chainId ?? 0, deadline)
    if (refused === undefined) return true
    this.#trace('Reserve', order, refused)
    // The queue is full of requests for funds, because reservations alone cannot fill it. Requests for funds must never
    // keep a reservation out.
    if (/^too many requests wait/.test(refused.detail ?? '')) {
      throw new Violation('reserve-room', `${order.orderHash} waits behind requests for funds`)
    }
    if (!isFinal(refused)) return undefined
    // An earlier request may already have placed the order. Then the market repeats its first answer, although this
    // reservation was refused.
    const { marketId, orderHash, outcome } = order
    const before = await this.#thread.ask('RecallOrder', { marketId, orderHash, outcome })
    this.#oracle.recalled(order, pending, before)
    return isFinal(before) ? false : undefined
  }

  #release(order: VerifiedOrder, answer: OrderAccepted | Rejection | Unanswered): void {
    const isUnknown = isUnanswered(answer)
      ? answer.unanswered === 'closed' || answer.unanswered === 'late'
      : isRejection(answer) && answer.rejected === 'OUTCOME_UNKNOWN'
    const isNew = 'status' in answer && answer.duplicate !== true
    if (!isNew && !isUnknown) this.#funds.release(order)
  }

  #checkBoard(): void {
    for (const { market, seq, closed, books } of this.#changed) {
      // Does not compare resolved markets with the log. If the market thread has unloaded a market, the board closes it
      // without an event of the log.
      if (closed === 'resolved') continue
      const levels = books.map((book) => [book.levels(BUY), book.levels(SELL)])
      this.#oracle.checkBook(market.id, seq, digestOf(levels), this.name)
    }
    this.#changed.clear()
  }

  #checkDeliveredSoon(): void {
    if (this.#isChecking) return
    this.#isChecking = true
    const check = () => {
      this.#isChecking = false
      this.#checkDelivered()
    }
    this.#world.scheduler.after(1, check, this.life)
  }

  /** Checks that the board, if it is loaded, has every event that the link to the market thread has delivered. */
  #checkDelivered(): void {
    if (!this.#load.isLoaded()) return
    for (const [id, seq] of this.#delivered) {
      const shown = this.#board.markets.get(id)
      const isIdle = this.#idlePartitions.has(partitionOf(id, topologyOf(this.#world.settings)))
      if (shown === undefined || shown.seq >= seq || shown.closed === 'resolved' || isIdle) continue
      const told = `${this.name}: ${id.slice(-4)} at ${shown.seq}, delivered: ${seq}`
      throw new Violation('delivered-shown', told)
    }
  }

  #actSoon(): void {
    const { scheduler } = this.#world
    scheduler.after(
      this.#random.int(1_000, 400_000),
      () => {
        if (this.isTrading) this.#act()
        this.#actSoon()
      },
      this.life,
    )
  }

  #act(): void {
    const random = this.#random
    const { faults, hasFunds } = this.#world
    if (hasFunds === true && faults.strikes('funds-flood')) this.#flood(faults.of('funds-flood'))
    const dice = random.chance(this.#readShare) ? random.int(85, 96) / 100 : random.next()
    const sent = this.#sent.length === 0 ? undefined : random.pick(this.#sent)
    if (dice < 0.5 || this.#sent.length < 5 || sent === undefined) this.#placeNew()
    else if (dice < 0.66) this.#watch(this.#cancel(sent.order))
    else if (dice < 0.78) this.#watch(this.#place(sent))
    else if (dice < 0.82) {
      // The same request twice at once.
      this.#watch(this.#place(sent))
      this.#watch(this.#place(sent))
    } else if (dice < 0.85) this.#watch(this.#cancelAll(sent.order.marketId, sent.order.trader))
    else if (dice < 0.9) this.#watch(this.view(sent.order.marketId))
    else if (dice < 0.94) this.#watch(this.list(sent.order.trader))
    else if (dice < 0.97) this.#watch(this.#recall(sent.order))
    else if (dice < 0.98) this.#idle()
    else if (this.#sessions.size > 0)
      this.#watch(this.#endSession(random.pick([...this.#sessions])))
  }

  /** Sends many requests for funds at once. Requests for funds wait for the chain, but must not delay reservations. */
  #flood(random: Random): void {
    const trader = random.pick(TRADERS)
    for (let count = random.int(50, 400); count > 0; count--) this.#watch(this.fundsOf(trader))
  }

  #watch(work: Promise<unknown>): void {
    work.catch((error) => this.#world.scheduler.fail(error))
  }

  #placeNew(): void {
    const isRush = this.#world.hasFunds === true && this.#random.chance(RUSH_SHARE)
    if (!isRush) this.#placeOne()
    else this.#rush()
  }

  /** Places several orders of one trader at once. The trader's funds cover about one of them. */
  #rush(): void {
    const random = this.#random
    const marketId = this.#openMarket()
    if (marketId === undefined) return
    const side = random.int(0, 1) as Side
    const rush = {
      marketId,
      ...{ trader: traderOf(random.int(0, 7)), outcome: random.int(0, 1) as Outcome, side },
      price: (500_000 + (side === BUY ? 30_000 : -30_000)) as Price,
    }
    const [least, most] = side === BUY ? [700, 1_800] : [25, 60]
    for (let count = random.int(2, 3); count > 0; count--) {
      this.#placeOne({ ...rush, size: (random.int(least, most) * 1_000_000) as Shares })
    }
  }

  #openMarket(): MarketId | undefined {
    const markets = [...this.#oracle.markets.values()].filter(({ closed }) => closed === undefined)
    return markets.length === 0 ? undefined : this.#random.pick(markets).id
  }

  #placeOne(rush: Partial<Order> = {}): void {
    const random = this.#random
    const marketId = this.#openMarket()
    if (marketId === undefined) return
    const nowSec = Math.floor(this.#world.scheduler.nowMs / 1_000)
    const isShort = rush.size !== undefined || random.chance(0.3)
    const life = isShort ? random.int(20, 90) : 100_000
    const { people } = this.#world
    const order = {
      marketId,
      trader: traderOf(random.int(0, 7)),
      side: random.int(0, 1) as Side,
      outcome: random.int(0, 1) as Outcome,
      price: (500_000 + random.int(-3, 3) * 10_000) as Price,
      size: (random.int(1, 8) * 1_000_000) as Shares,
      nonce: String(random.int(1, 2 ** 40)) as Uint64,
      expiration: String(nowSec + life) as Uint64,
      makerFeeRecipient: ZERO_ADDRESS,
      ...rush,
    }
    const signed = people?.sign(order) ?? {
      orderHash: random.hex(32) as OrderHash,
      signature: `0x${'11'.repeat(65)}`,
    }
    const timeInForce = random.chance(0.25) ? random.pick(TIMES_IN_FORCE) : undefined
    const session = random.chance(0.15) ? this.#session() : undefined
    const how = {
      ...(timeInForce === undefined ? {} : { timeInForce }),
      ...(session === undefined ? {} : { session }),
    }
    const sent: Sent = { order: { ...order, ...signed }, how, isOpenQuestion: true }
    this.#sent.push(sent)
    if (this.#sent.length > SENT_MAX) {
      const settled = this.#sent.findIndex(({ isOpenQuestion }) => !isOpenQuestion)
      this.#sent.splice(Math.max(0, settled), 1)
    }
    this.#watch(this.#place(sent))
  }

  #session(): string {
    if (this.#sessions.size < 2) this.#sessions.add(`${this.name}-s${++this.#sessionsMade}`)
    return this.#random.pick([...this.#sessions])
  }

  async #place(sent: Sent): Promise<boolean> {
    const { order, how } = sent
    if (how.session !== undefined && !this.#sessions.has(how.session)) return true
    const pending = this.#oracle.asked()
    sent.isOpenQuestion = true
    const deadline = this.#deadline()
    if (this.#world.hasFunds === true) {
      const mayPlace = await this.#reserve(order, pending, deadline)
      if (mayPlace === false) sent.isOpenQuestion = false
      if (mayPlace !== true) return mayPlace === false
    }
    this.#oracle.placing(order, how)
    const reserved =
      this.#world.hasFunds === true
        ? { reservedMs: Math.max(1, deadline.deadlineAtMs - this.#world.scheduler.nowMs) }
        : undefined
    const answer = await this.#thread.ask('PlaceOrder', { order, ...how, ...reserved })
    this.#trace('PlaceOrder', order, answer)
    this.#oracle.placed(order, pending, answer)
    if (this.#world.hasFunds === true) this.#release(order, answer)
    if (isFinal(answer)) sent.isOpenQuestion = false
    return isFinal(answer)
  }

  async #cancel(order: VerifiedOrder): Promise<void> {
    const { marketId, orderHash, side } = order
    const pending = this.#oracle.asked()
    this.#oracle.cancelling(orderHash)
    const answer = await this.#thread.ask('CancelOrder', { marketId, orderHash, side })
    this.#trace('CancelOrder', order, answer)
    this.#oracle.cancelled(order, pending, answer)
  }

  async #cancelAll(marketId: MarketId, trader: Address): Promise<void> {
    this.#oracle.cancellingAll(trader)
    const answer = await this.#thread.ask('CancelOrders', { marketId, trader })
    if (isUnanswered(answer) || isRejection(answer)) return
    this.#oracle.cancelledAll(marketId, answer.orderHashes)
  }

  async #recall(order: VerifiedOrder): Promise<void> {
    const { marketId, orderHash, outcome } = order
    const pending = this.#oracle.asked()
    const answer = await this.#thread.ask('RecallOrder', { marketId, orderHash, outcome })
    this.#trace('RecallOrder', order, answer)
    this.#oracle.recalled(order, pending, answer)
  }

  /** Returns whether the market was read. */
  async view(marketId: MarketId): Promise<boolean> {
    const pending = this.#oracle.asked()
    const answer = await this.#thread.ask('Snapshot', { marketId })
    const told = 'seq' in answer ? answer.seq : JSON.stringify(answer)
    this.#world.scheduler.trace(`${this.name} Snapshot ${marketId.slice(-4)} ${told}`)
    if (isUnanswered(answer) || isRejection(answer)) return false
    this.#oracle.viewed(answer, pending, this.name)
    return true
  }

  /** Compares the trader's open orders with the log. Returns whether the orders could be read. */
  async list(trader: Address): Promise<boolean> {
    const pending = this.#oracle.asked()
    const answer = await this.#thread.ask('OpenOrdersPage', { trader, limit: 500 })
    if (isUnanswered(answer) || isRejection(answer)) return false
    this.#oracle.listed(trader, pending, answer)
    return true
  }

  async #endSession(session: string): Promise<void> {
    this.#sessions.delete(session)
    this.#endedSessions.add(session)
    const orders = this.#sent.filter(({ how }) => how.session === session).map(({ order }) => order)
    const pending = this.#oracle.asked()
    const answer = await this.#thread.ask('EndSession', { session })
    this.#world.scheduler.trace(`${this.name} EndSession ${session} ${JSON.stringify(answer)}`)
    if (isUnanswered(answer)) return
    this.#endedSessions.delete(session)
    this.#oracle.sessionEnded(orders, pending)
    this.#over.push({ orders, pending })
  }

  /** Stops following a partition for a while. */
  #idle(): void {
    const { partitions } = this.#world.settings.markets
    const partition = this.#random.int(0, partitions - 1)
    if (this.#idlePartitions.has(partition)) return
    this.#idlePartitions.add(partition)
    this.#load.doze([partition])
    const wake = () => this.#watch(this.#wake(partition))
    this.#world.scheduler.after(this.#random.int(10_000, 5_000_000), wake, this.life)
  }

  /**
   * Follows a partition again. Checks that the loaded markets contain every event that was in the log before this call.
   */
  async #wake(partition: number): Promise<void> {
    const { seqs } = this.#oracle.asked()
    const { scheduler, settings } = this.#world
    scheduler.trace(`${this.name} wakes partition ${partition}`)
    await this.#load.wake(partition)
    this.#idlePartitions.delete(partition)
    for (const [id, before] of seqs) {
      const shown = this.#board.markets.get(id)
      if (partitionOf(id, topologyOf(settings)) !== partition || shown === undefined) continue
      if (shown.seq >= before) continue
      throw new Violation(
        'wake-current',
        `${this.name}: ${id.slice(-4)} at ${shown.seq}, not ${before}`,
      )
    }
  }

  /** Sends every order with an unknown outcome again, after the faults have ended. */
  async askAgain(): Promise<void> {
    const questions = this.#sent.filter(({ isOpenQuestion }) => isOpenQuestion)
    for (const sent of questions) {
      if (!(await this.#place(sent))) {
        throw new Violation('answers', `${this.name}: ${sent.order.orderHash} has no final answer`)
      }
    }
  }

  /** Compares the displayed data with the log at the end of a run, when nothing changes any more. */
  async compare(): Promise<void> {
    for (const { id, closed, seq } of this.#oracle.markets.values()) {
      if (closed === 'resolved') continue
      if (!(await this.view(id))) throw new Violation('answers', `${this.name}: no view of ${id}`)
      const shown = this.#board.markets.get(id)
      // The market may expire while its view is on the way. This adds an event, so the board may be ahead of `seq`.
      if (shown === undefined || shown.seq < seq) {
        throw new Violation(
          'board-current',
          `${this.name}: ${id.slice(-4)} at ${shown?.seq}, not ${seq}`,
        )
      }
    }
    for (let index = 0; index < 8; index++) {
      if (!(await this.list(traderOf(index))))
        throw new Violation('answers', `${this.name}: no list`)
    }
    for (const { orders, pending } of this.#over) this.#oracle.sessionEnded(orders, pending)
    for (const session of this.#endedSessions) {
      throw new Violation('session-ends', `${this.name}: the end of ${session} is not confirmed`)
    }
  }

  #trace(type: string, { orderHash }: VerifiedOrder, answer: unknown): void {
    const told = JSON.stringify(answer, (key, value) => (key === 'orderHash' ? undefined : value))
    this.#world.scheduler.trace(`${this.name} ${type} ${orderHash.slice(2, 10)} ${told}`)
  }
}

function traderOf(index: number): Address {
  return `0x${(index + 1).toString(16).padStart(40, '0')}` as Address
}

export const TRADERS: readonly Address[] = Array.from({ length: 8 }, (_, index) => traderOf(index))
