/**
 * Settlement without a chain, a database or a thread: all ports answer from tables in memory. The chain mines
 * transactions in the order of their nonces, settles a trade once, and can be reorganised. A kill deletes the lane's
 * knowledge of blocks, but not the journal. Markets know the status of each trade. By default requests are answered at
 * once. With `byHand`, the test decides whether a request is executed, and whether and when it is answered.
 */

import assert from 'node:assert/strict'
import { Fault } from '#domain/fault.ts'
import { type Address, type MarketId, type OrderHash, type TradeId, tradeId } from '#domain/ids.ts'
import {
  BUY,
  NO,
  type PermitSignature,
  SELL,
  type Side,
  type VerifiedOrder,
  YES,
} from '#domain/order.ts'
import type {
  FaultySide,
  FillKind,
  TradeNote,
  TradeStatus,
  TradeToSettle,
  TradeWithOrders,
} from '#domain/trade.ts'
import type { TradeReport } from '#protocol/market.ts'
import { type Served, serve } from '#runtime/serve.ts'
import type {
  SettlementLane,
  SettlementUpdate,
  Submission,
  TradeVerdict,
} from '#services/settlement/chain/settlement-lane.ts'
import type { RefusedTrade } from '#services/settlement/chain/simulation.ts'
import { settlement } from '#services/settlement/settlement.ts'
import {
  newSettlement,
  type ReportAnswer,
  type SettlementEvent,
  type SettlementPorts,
  type SettlementProtocol,
  type SettlementRules,
  type SettlementState,
} from '#services/settlement/state.ts'
import { takerOf } from '#services/settlement/turns.ts'

export const NOON_MS = 1_800_014_400_000
export const AWAY = new Fault('AWAY', 'it is away', { retryable: true })
const SENDER = `0x${'5'.repeat(40)}` as Address
const GRACE_SEC = 3_600

const RULES: SettlementRules = {
  chainId: 1,
  batchMax: 45,
  batchWaitMs: 0,
  inFlightMax: 4,
  readEveryMs: 0,
  pollEveryMs: 0,
  maxLagMs: 0,
  tradeDeadlineMs: 1_800_000,
  retryGasMax: 1_000_000,
}

export type Port =
  | 'recover'
  | 'readPending'
  | 'readTrades'
  | 'submit'
  | 'poll'
  | 'acknowledge'
  | 'report'
  | 'readNotes'
  | 'saveNotes'

/** A request that settlement has made to one of its ports. */
export type Call = {
  readonly port: Port
  /** It is done and answered. */
  run(): void
  /** Does the work now; the returned function delivers the answer. */
  work(): () => void
  /** Does the work, and loses the answer. */
  lose(): void
  /** It is not done. */
  fail(error: unknown): void
}

export type Refusal = {
  readonly reason: string
  readonly fault: FaultySide
  /**
   * Balances of both sides in the tokens that they deliver. By default a side at fault has nothing, and the other side
   * has plenty.
   */
  readonly has?: RefusedTrade['has']
}

/** Refusal reasons that mean that a balance is too low. */
const BALANCES: ReadonlySet<string> = new Set([
  'InsufficientCollateral',
  'InsufficientShares',
  'BothUnfunded',
])

function refusedAs(id: TradeId, { reason, fault, has }: Refusal): RefusedTrade {
  if (!BALANCES.has(reason)) return { tradeId: id, reason, fault }
  const plenty = { buyer: 1_000_000n, seller: 1_000_000n }
  const nothing = {
    ...(fault === 'seller' ? {} : { buyer: 0n }),
    ...(fault === 'buyer' ? {} : { seller: 0n }),
  }
  return { tradeId: id, reason, fault, has: has ?? { ...plenty, ...nothing } }
}

/** One transaction, as the journal has it. */
export type Row = {
  readonly nonce: number
  readonly tradeIds: readonly TradeId[]
  txHash: string
  closed: boolean
  /** The block that contained the transaction when the journal's row was closed. */
  block: number | undefined
  /** True if the lane has replaced the transaction by an empty one. */
  blank: boolean
}

type Mined = {
  readonly block: number
  readonly outcome: 'succeeded' | 'reverted' | 'cancelled'
  readonly verdicts: readonly TradeVerdict[]
}

/** Knowledge of the lane about a transaction. It is lost when the process is killed. */
type Followed = {
  block: number | undefined
  finished: boolean
  reopened: boolean
  abandoned: boolean
}

type Life = {
  readonly state: SettlementState
  readonly served: Served
  readonly lane: Map<number, Followed>
  over: boolean
}

type Known = { status: TradeStatus; txHash: string; attempts: number }

/** A permit with its value. Settlement compares the value with the payments that the permit has to cover. */
type Wide = { readonly nonce: number; readonly value: number }

function permitOf(wish: boolean | number | Wide): PermitSignature {
  if (typeof wish !== 'object') return { nonce: String(Number(wish)) } as PermitSignature
  const [nonce, value] = [String(wish.nonce), String(wish.value)]
  const word = `0x${'1'.repeat(64)}`
  return { nonce, value, deadline: '1', v: 27, r: word, s: word } as PermitSignature
}

export class World {
  nowMs = NOON_MS
  readonly rules: SettlementRules
  readonly said: SettlementEvent[] = []

  // The chain.
  readonly rows: Row[] = []
  readonly mined = new Map<number, Mined>()
  readonly pool = new Set<number>()
  readonly settledBy = new Map<string, string>()
  readonly unknownMarkets = new Set<MarketId>()
  /** Returns the contract's refusal of a trade; undefined if it settles. */
  refuses: (tradeId: TradeId) => Refusal | undefined = () => undefined
  /**
   * Executes these trades in sequence, and returns the contract's refusals. `isLook` is true for a check, and false for
   * a block.
   */
  verdicts: (ids: readonly TradeId[], isLook: boolean) => ReadonlyMap<TradeId, Refusal> = (ids) =>
    new Map(
      ids.flatMap((id) => {
        const refusal = this.refuses(id)
        return refusal === undefined ? [] : [[id, refusal] as const]
      }),
    )
  /** Called with each trade that settles, and the nonce of its transaction. */
  settled: (tradeId: TradeId, nonce: number) => void = () => {}
  /** Called with the trades of each block that settlement receives. */
  blockTold: (tradeIds: readonly TradeId[], verdicts: readonly TradeVerdict[]) => void = () => {}
  /** Returns the reason why a call with these trades would revert as a whole; undefined if it would succeed. */
  reverts: (tradeIds: readonly TradeId[]) => { name: string; words: string } | undefined = () =>
    undefined
  /** Returns the error with which sending these trades fails; undefined if it succeeds. */
  throws: (tradeIds: readonly TradeId[]) => unknown = () => undefined
  /**
   * If true, simulations find the refusals of trades. If false, simulations find none, and only blocks refuse trades,
   * as if the state had changed in between.
   */
  foresees = true
  gasUsed = 100_000
  /** True if a block is mined for every sent transaction. */
  automine = true
  confirmations = 0
  unconfirmed = new Set<TradeId>()
  trouble = ''
  graceSec = GRACE_SEC
  blocks = 0
  /** Extra updates that the next poll reports about the first transaction. */
  news: 'replaced'[] = []

  // The markets and the database.
  readonly trades = new Map<TradeId, TradeWithOrders>()
  readonly markets = new Map<TradeId, Known>()
  /** The log of the markets, in order. */
  readonly told: { tradeId: TradeId; status: TradeStatus; txHash: string; reason: string }[] = []
  /** The fault in the market's report of each failed trade. */
  readonly faults = new Map<TradeId, FaultySide>()
  readonly database = new Map<TradeId, Known>()
  /** Notes of settlement in the database. */
  readonly notes = new Map<TradeId, TradeNote>()
  /** True if the database gets the markets' events at once. */
  projecting = true
  /** Status that the market reports for a trade, in place of the real one. */
  knows: (tradeId: TradeId) => ReportAnswer | undefined = () => undefined
  /** Replaces the market's answer to a report. */
  answers: (report: TradeReport) => ReportAnswer | undefined = () => undefined

  // Requests so far.
  readonly asked = new Map<Port, number>()
  readonly submissions: TradeId[][] = []
  readonly permits: OrderHash[][] = []
  readonly acknowledged: number[] = []
  readonly abandoned: number[] = []
  readonly away = new Map<Port, unknown>()
  byHand = false
  pending: Call[] = []
  #life: Life
  #made = 0

  constructor(rules: Partial<SettlementRules> = {}) {
    this.rules = { ...RULES, ...rules }
    this.#life = this.#begin()
  }

  get state(): SettlementState {
    return this.#life.state
  }

  /**
   * Kills settlement: only the journal, the chain, the markets and the database remain. `isDone` selects pending
   * requests that are still carried out.
   */
  kill(isDone: (call: Call) => boolean = () => false): void {
    this.#life.over = true
    for (const call of this.pending.splice(0)) if (isDone(call)) call.run()
    this.#life = this.#begin()
  }

  /** Makes a trade that its market has just matched, and returns the trade's id. */
  trade(
    wish: {
      market?: number
      matchedAtMs?: number
      expiresInSec?: number
      permit?: boolean | number | Wide
      /** Permit of a seller who also pays. With this permit the trade is a mint. */
      sellerPermit?: Wide
      kind?: FillKind | undefined
      size?: number
      buyer?: Address
      seller?: Address
      takerSide?: Side
      known?: Partial<Known>
    } = {},
  ): TradeId {
    const number = ++this.#made
    const marketId = marketNumbered(wish.market ?? 1)
    const id = tradeId(marketId, number, 0)
    const expiration = String(Math.floor(this.nowMs / 1_000) + (wish.expiresInSec ?? 7_200))
    const order = (side: typeof BUY | typeof SELL): VerifiedOrder =>
      ({
        marketId,
        side,
        outcome: YES,
        expiration,
        price: 500_000,
        orderHash: `0x${side}${number}` as OrderHash,
        ...(side === BUY && (wish.permit ?? false) !== false
          ? { permit: permitOf(wish.permit === true ? 0 : (wish.permit ?? 0)) }
          : {}),
      }) as VerifiedOrder
    const { sellerPermit } = wish
    const kind = sellerPermit === undefined ? wish.kind : 'mint'
    const buy = kind === 'merge' ? { ...order(BUY), side: SELL, outcome: NO } : order(BUY)
    const paying = { side: BUY, outcome: NO, permit: sellerPermit && permitOf(sellerPermit) }
    const sell = { ...order(SELL), ...(kind === 'mint' ? paying : {}) }
    this.trades.set(id, {
      tradeId: id,
      marketId,
      chainId: 1,
      seq: number,
      fillIndex: 0,
      outcome: YES,
      matchedAtMs: wish.matchedAtMs ?? this.nowMs,
      buyOrderHash: buy.orderHash,
      sellOrderHash: sell.orderHash,
      price: 500_000,
      size: wish.size ?? 1,
      buyer: wish.buyer ?? traderNumbered(2 * number),
      seller: wish.seller ?? traderNumbered(2 * number + 1),
      takerSide: wish.takerSide ?? BUY,
      buy,
      sell,
      ...(kind === undefined ? {} : { kind }),
    } as unknown as TradeWithOrders)
    const known: Known = { status: 'matched', txHash: '', attempts: 0, ...wish.known }
    this.markets.set(id, { ...known })
    this.database.set(id, { ...known })
    return id
  }

  /** Writes all events of the markets, or those of the selected trades, to the database. */
  project(isMeant: (known: Known) => boolean = () => true): void {
    for (const [id, known] of this.markets) if (isMeant(known)) this.database.set(id, { ...known })
  }

  status(id: TradeId): TradeStatus {
    return this.markets.get(id)?.status ?? assert.fail(`nobody knows ${id}`)
  }

  /** Returns the statuses that the trade's market emitted, in order. */
  wayOf(id: TradeId): TradeStatus[] {
    return this.told.filter((each) => each.tradeId === id).map(({ status }) => status)
  }

  saidOf<Type extends SettlementEvent['type']>(
    type: Type,
  ): Extract<SettlementEvent, { type: Type }>[] {
    return this.said.filter((each) => each.type === type) as never
  }

  /** Advances the time, runs the thread's timer, and completes all work that follows. */
  async step(ms = 1_000): Promise<void> {
    this.nowMs += ms
    this.tick()
    await this.#life.served.drained()
  }

  async steps(times: number, ms = 1_000): Promise<void> {
    for (let step = 0; step < times; step++) await this.step(ms)
  }

  tick(): void {
    this.#life.served.hear('Tick', {}, 0, undefined)
  }

  /** Announces new trades, as the store does, and completes all work that follows. */
  async written(): Promise<void> {
    this.#life.served.hear('TradesWritten', {}, 0, undefined)
    await this.#life.served.drained()
  }

  /**
   * Advances until the condition is true. Each step answers the pending requests (see `byHand`), or those that
   * `isMeant` selects.
   */
  async until(isSo: () => boolean, isMeant?: (call: Call) => boolean): Promise<void> {
    for (let turns = 0; turns < 100; turns++) {
      if (isSo()) return
      await this.turn(isMeant)
    }
    assert.fail('it did not come about')
  }

  /** Answers all pending requests, or the selected ones. */
  async turn(isMeant: (call: Call) => boolean = () => true): Promise<void> {
    this.nowMs += 1_000
    this.tick()
    await turnOver()
    const calls = this.pending
    this.pending = calls.filter((call) => !isMeant(call))
    for (const call of calls) if (isMeant(call)) call.run()
    await turnOver()
  }

  /** Mines a block with the pooled transactions, up to the first missing nonce; returns their number. */
  mine(): number {
    this.blocks++
    let taken = 0
    for (const row of this.rows) {
      if (this.mined.has(row.nonce)) continue
      if (!this.pool.delete(row.nonce)) break
      this.mined.set(row.nonce, this.#execute(row))
      taken++
    }
    return taken
  }

  /** Removes the block of the transaction with this nonce, and the blocks of all later transactions. */
  reorg(nonce: number): void {
    for (const [each, { verdicts }] of this.mined) {
      if (each < nonce) continue
      this.mined.delete(each)
      for (const { tradeKey, settled } of verdicts) if (settled) this.settledBy.delete(tradeKey)
    }
    this.blocks += 2
  }

  #execute({ nonce, blank, tradeIds, txHash }: Row): Mined {
    const block = this.blocks
    if (blank) return { block, outcome: 'cancelled', verdicts: [] }
    if (this.reverts(tradeIds) !== undefined) return { block, outcome: 'reverted', verdicts: [] }
    const verdicts = tradeIds.map((id): TradeVerdict => {
      const tradeKey = keyOf({ tradeId: id })
      const marketId = this.trades.get(id)?.marketId
      assert(marketId !== undefined)
      const refusal = this.settledBy.has(tradeKey)
        ? { reason: 'AlreadySettled', fault: 'none' as const }
        : this.unknownMarkets.has(marketId)
          ? { reason: 'MarketUnknown', fault: 'none' as const }
          : this.verdicts([id], false).get(id)
      if (refusal !== undefined) {
        return { tradeKey, settled: false, reason: refusal.reason, fault: refusal.fault }
      }
      this.settledBy.set(tradeKey, txHash)
      this.settled(id, nonce)
      return { tradeKey, settled: true, fault: 'none', reason: '' }
    })
    return { block, outcome: 'succeeded', verdicts }
  }

  #begin(): Life {
    const lane = new Map<number, Followed>()
    const call =
      <Args extends readonly unknown[], T>(port: Port, work: (...args: Args) => T) =>
      (...args: Args): Promise<T> =>
        new Promise<T>((resolve, reject) => {
          // A killed process receives no answers.
          const hear = (then: () => void) => life.over || then()
          const asked: Call = {
            port,
            run: () => asked.work()(),
            work() {
              const value = work(...args)
              return () => void hear(() => resolve(value))
            },
            lose() {
              work(...args)
              hear(() => reject(AWAY))
            },
            fail: (error) => hear(() => reject(error)),
          }
          this.asked.set(port, (this.asked.get(port) ?? 0) + 1)
          if (this.byHand) this.pending.push(asked)
          else if (this.away.has(port)) asked.fail(this.away.get(port))
          else asked.run()
        })
    const followed = (row: Row): Followed => {
      const known = lane.get(row.nonce) ?? {
        block: row.closed ? row.block : undefined,
        finished: false,
        reopened: false,
        abandoned: false,
      }
      lane.set(row.nonce, known)
      return known
    }
    const settlementLane: SettlementLane = {
      recover: call('recover', () =>
        this.rows.filter(({ closed }) => !closed).map((row) => ({ ...this.#named(row) })),
      ),
      submit: call('submit', (trades, options) => this.#submit(trades, options)),
      poll: call('poll', () => {
        const [first] = this.rows
        const updates = this.rows.flatMap((row) => this.#look(row, followed(row)))
        for (const type of first === undefined ? [] : this.news.splice(0)) {
          updates.push({ ...this.#named(first as Row), type })
        }
        if (this.automine) this.mine()
        const { blocks: headNumber, trouble, graceSec } = this
        return { updates, headNumber, trouble, graceSec }
      }),
      acknowledge: call('acknowledge', ({ nonce }) => {
        const row = this.rows[nonce]
        assert(row !== undefined)
        const { finished, block } = followed(row)
        // Only a finished transaction can be acknowledged. If a reorg reopens it, settlement must acknowledge its next
        // result, too.
        if (!finished || row.closed) return
        row.closed = true
        row.block = block
        this.acknowledged.push(nonce)
      }),
      abandon: ({ nonce }) => {
        const row = this.rows[nonce]
        assert(row !== undefined)
        followed(row).abandoned = true
        this.abandoned.push(nonce)
      },
    }
    const ports: SettlementPorts = {
      lane: settlementLane,
      readPending: call('readPending', ({ limit, exceptMarkets, exceptTakers, exceptTrades }) => {
        const found = [...this.database]
          .filter(([, { status }]) => status !== 'confirmed' && status !== 'failed')
          .map(([id]) => id)
          .filter(
            (id) => !exceptMarkets.includes(this.trades.get(id)?.marketId ?? ('' as MarketId)),
          )
          .filter((id) => !exceptTakers.includes(takerOf(this.trades.get(id) as TradeWithOrders)))
          .slice(0, limit + exceptTrades.length)
        const fresh = found.filter((id) => !exceptTrades.includes(id)).slice(0, limit)
        return {
          trades: this.#stored(fresh),
          full: found.length === limit + exceptTrades.length,
        }
      }),
      readTrades: call('readTrades', (ids) => this.#stored(ids)),
      readNotes: call('readNotes', (ids) => ids.flatMap((id) => this.notes.get(id) ?? [])),
      saveNotes: call('saveNotes', ({ notes, ended }) => {
        for (const id of ended) this.notes.delete(id)
        for (const note of notes) this.notes.set(note.tradeId, note)
      }),
      keyOf,
      report: call('report', (_marketId, report) => this.#hear(report)),
    }
    const state = newSettlement(this.rules, ports)
    const served = serve<SettlementState, SettlementProtocol, SettlementEvent>({
      behaviour: settlement,
      select: () => ({ state }),
      clock: { nowMs: () => this.nowMs, after: () => () => {} },
      mailboxMax: 10_000,
      batchMax: 10_000,
      full: undefined,
      say: (said) => void (life.over || this.said.push(...said)),
    })
    const life: Life = { state, served, lane, over: false }
    return life
  }

  /** Returns the given trades that the database has. */
  #stored(ids: readonly TradeId[]): TradeWithOrders[] {
    return ids.flatMap((id) => {
      const [trade, known] = [this.trades.get(id), this.database.get(id)]
      if (trade === undefined || known === undefined) return []
      return [{ ...trade, status: known.status, attempts: known.attempts }]
    })
  }

  #named({ nonce, txHash, tradeIds }: Row) {
    return { sender: SENDER, nonce, txHash, tradeIds }
  }

  #submit(
    trades: readonly TradeToSettle[],
    { usedPermits }: Parameters<SettlementLane['submit']>[1],
  ): Submission {
    const error = this.throws(trades.map((trade) => trade.tradeId))
    if (error !== undefined) throw error
    this.submissions.push(trades.map((trade) => trade.tradeId))
    this.permits.push([...usedPermits])
    const settled: { tradeId: TradeId; txHash: string }[] = []
    const unconfirmed: TradeId[] = []
    const unknownMarkets = new Set<MarketId>()
    const refused: RefusedTrade[] = []
    const rest: TradeId[] = []
    const open = trades.filter(({ tradeKey }) => !this.settledBy.has(tradeKey))
    const verdicts = this.foresees
      ? this.verdicts(
          open.map((trade) => trade.tradeId),
          true,
        )
      : new Map<TradeId, Refusal>()
    for (const { tradeId: id, tradeKey, marketId, status, attempts, refusal: before } of trades) {
      const txHash = this.settledBy.get(tradeKey)
      const isAsked = this.foresees || status !== 'matched' || attempts > 0
      const refusal = before ?? verdicts.get(id)
      if (isAsked && txHash !== undefined && this.unconfirmed.has(id)) unconfirmed.push(id)
      else if (isAsked && txHash !== undefined) settled.push({ tradeId: id, txHash })
      else if (this.unknownMarkets.has(marketId)) unknownMarkets.add(marketId)
      else if (refusal !== undefined)
        refused.push({ ...refusedAs(id, refusal), block: this.blocks })
      else rest.push(id)
    }
    const found = { settled, unconfirmed, unknownMarkets: [...unknownMarkets], refused }
    if (rest.length === 0) return found
    const revert = this.reverts(rest)
    if (revert !== undefined) return { ...found, revert }
    const nonce = this.rows.length
    const row: Row = {
      nonce,
      tradeIds: rest,
      txHash: hashOf(nonce),
      closed: false,
      block: undefined,
      blank: false,
    }
    this.rows.push(row)
    this.pool.add(nonce)
    if (this.automine) this.mine()
    return { ...found, sent: this.#named(row) }
  }

  /** Advances one transaction of the lane by one step. Returns the updates for settlement. */
  #look(row: Row, known: Followed): SettlementUpdate[] {
    const mined = this.mined.get(row.nonce)
    const named = this.#named(row)
    if (known.finished || (row.closed && !known.reopened)) {
      if (mined?.block === known.block) return []
      Object.assign(known, { block: undefined, finished: false, reopened: row.closed })
      return [{ ...named, type: 'vanished' }]
    }
    if (known.reopened) {
      row.closed = false
      known.reopened = false
    }
    if (mined === undefined) {
      if (known.block !== undefined) {
        known.block = undefined
        return [{ ...named, type: 'vanished' }]
      }
      if (known.abandoned) row.blank = true
      this.pool.add(row.nonce)
      return []
    }
    const updates: SettlementUpdate[] = []
    const { outcome, verdicts } = mined
    if (known.block !== mined.block) {
      updates.push({ ...named, type: 'mined', block: mined.block, verdicts })
      this.blockTold(row.tradeIds, verdicts)
    }
    known.block = mined.block
    if (this.blocks - mined.block < this.confirmations) return updates
    known.finished = true
    return [...updates, { ...named, type: 'finished', outcome, gasUsed: this.gasUsed, verdicts }]
  }

  /** Advances the status of a trade if a market would allow that. Returns the status of the trade. */
  #hear(report: TradeReport): ReportAnswer {
    const { tradeId: id, status, txHash, reason } = report
    const known = this.markets.get(id)
    assert(known !== undefined, `nobody knows ${id}`)
    if (status === 'matched') return this.knows(id) ?? { status: known.status }
    const instead = this.answers(report)
    if (instead !== undefined) return instead
    const isDecided = known.status === 'confirmed' || known.status === 'failed'
    const may = status === 'reverted' ? known.status === 'confirmed' : !isDecided
    if (!may || (known.status === status && known.txHash === txHash)) {
      return { status: known.status }
    }
    known.status = status
    known.txHash = txHash
    if (status === 'submitted') known.attempts++
    this.told.push({ tradeId: id, status, txHash, reason })
    if (status === 'failed') this.faults.set(id, report.fault)
    if (this.projecting) this.database.set(id, { ...known })
    return { status }
  }
}

/** Waits four turns of the event loop, in which all work that was caused so far ends. */
export async function turnOver(): Promise<void> {
  for (let turns = 0; turns < 4; turns++) await new Promise((resolve) => setImmediate(resolve))
}

export function traderNumbered(number: number): Address {
  return `0x${String(number).padStart(40, '0')}` as Address
}

export function marketNumbered(number: number): MarketId {
  return `0x${String(number).padStart(64, '0')}` as MarketId
}

export function hashOf(nonce: number): string {
  return `0x${String(nonce).padStart(64, 'a')}`
}

export function keyOf({ tradeId: id }: { readonly tradeId: TradeId }): string {
  return `key of ${id}`
}
