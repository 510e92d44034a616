/**
 * A model of the funds on a chain, for a `World`: dollars, shares of both outcomes, allowances and approvals. It
 * computes the contract's verdicts on trades in sequence. A reorg undoes settled trades, but not actions of traders,
 * which are mined again.
 */

import type { Address, TradeId } from '#domain/ids.ts'
import { costCeil } from '#domain/money.ts'
import { keyOf, type Refusal, type World } from './settlement-fixture.ts'

export type Wallet = {
  readonly dollars: number
  /** `shares` are shares of YES, `others` shares of NO. */
  readonly shares: number
  readonly others: number
  readonly allowance: number
  readonly isApproved: boolean
}

/** Checks of a trade: block and verdict of the first check, and in `last` the block of the newest check. */
type Look = { readonly block: number; readonly refusal: Refusal | undefined; last: number }

/** The contract's verdict on a trade, in a check or in a block. */
type Verdict = {
  readonly block: number
  readonly isLook: boolean
  readonly refusal: Refusal | undefined
}

type Step =
  | { readonly type: 'set'; readonly block: number; readonly trader: Address; readonly to: Wallet }
  | { readonly type: 'settled'; readonly id: TradeId; readonly nonce: number }

const NOTHING: Wallet = { dollars: 0, shares: 0, others: 0, allowance: 0, isApproved: false }
const PLENTY: Wallet = {
  dollars: 1_000,
  shares: 1_000,
  others: 1_000,
  allowance: 1_000,
  isApproved: true,
}

export class ModelChain {
  block = 0
  readonly looks = new Map<TradeId, Look>()
  /** The newest of each trade. */
  readonly verdicts = new Map<TradeId, Verdict>()
  /**
   * By trade: the number of the newest block when settlement first received a refusal of the trade by a block. Refusals
   * without a side at fault are left out.
   */
  readonly refusedAt = new Map<TradeId, number>()
  /** Trades of a trader whose funds, at some block, did not cover all unsettled trades of this trader. */
  readonly short = new Set<TradeId>()
  /**
   * `minedAt` has the block at which each trade's transaction was last mined, or last removed by a reorg. `decidedAt`
   * has the block at which the trade's status in its market became confirmed or failed.
   */
  readonly minedAt = new Map<TradeId, number>()
  readonly decidedAt = new Map<TradeId, number>()
  /** Blocks in which a trader reduced their own funds. */
  readonly taken: { readonly block: number; readonly trader: Address }[] = []
  /** When blocks were removed. */
  readonly reorgs: number[] = []
  readonly #world: World
  /**
   * By nonce: the transaction as `note` last saw it, and the block at which `note` saw this. `mined` is undefined if a
   * reorg removed the transaction.
   */
  readonly #seen = new Map<number, { readonly mined: unknown; readonly block: number }>()
  #steps: Step[] = []
  #wallets = new Map<Address, Wallet>()

  constructor(world: World) {
    this.#world = world
    world.verdicts = (ids, isLook) => this.#judge(ids, isLook)
    world.settled = (id, nonce) => this.#do({ type: 'settled', id, nonce })
    world.blockTold = (ids, verdicts) => {
      for (const id of ids) {
        const verdict = verdicts.find(({ tradeKey }) => tradeKey === keyOf({ tradeId: id }))
        if (verdict === undefined || verdict.fault === 'none') continue
        if (!this.refusedAt.has(id)) this.refusedAt.set(id, this.block)
      }
    }
  }

  set(trader: Address, to: Wallet): void {
    const before = this.#of(trader)
    const isLess =
      to.dollars < before.dollars ||
      to.shares < before.shares ||
      to.others < before.others ||
      to.allowance < before.allowance ||
      (before.isApproved && !to.isApproved)
    if (isLess) this.taken.push({ block: this.block, trader })
    this.#do({ type: 'set', block: this.block, trader, to })
  }

  giveAll(trader: Address): void {
    this.set(trader, PLENTY)
  }

  takeAll(trader: Address): void {
    this.set(trader, NOTHING)
  }

  /** Removes the content of the last `depth` blocks. */
  reorg(depth: number): void {
    const removed = [...this.#seen].flatMap(([each, { mined, block }]) =>
      mined !== undefined && block >= this.block - depth ? [each] : [],
    )
    if (removed.length === 0) return
    const nonce = Math.min(...removed)
    this.reorgs.push(this.block)
    this.#world.reorg(nonce)
    const kept = this.#steps.filter((step) => step.type === 'set' || step.nonce < nonce)
    this.#wallets = new Map()
    this.#steps = []
    for (const step of kept) this.#do(step)
  }

  /** Called after each block. Records new and removed transactions, and decided trades. */
  note(): void {
    for (const { tradeIds, nonce } of this.#world.rows) {
      const mined = this.#world.mined.get(nonce)
      if (mined === this.#seen.get(nonce)?.mined) continue
      this.#seen.set(nonce, { mined, block: this.block })
      for (const id of tradeIds) this.minedAt.set(id, this.block)
    }
    for (const [id, { status }] of this.#world.markets) {
      const isDecided = status === 'confirmed' || status === 'failed'
      if (!isDecided) this.decidedAt.delete(id)
      else if (!this.decidedAt.has(id)) this.decidedAt.set(id, this.block)
    }
    this.noteShort()
  }

  /** Compares the funds of each trader with the needs of all their unsettled trades. */
  noteShort(): void {
    const { trades, markets, settledBy } = this.#world
    const open = [...trades.keys()].filter(
      (id) => markets.get(id)?.status !== 'failed' && !settledBy.has(keyOf({ tradeId: id })),
    )
    const wallets = new Map(this.#wallets)
    const poor = new Set<Address>()
    for (const id of open) {
      for (const { trader, takes, amount } of this.#tradeOf(id)) {
        take(wallets, trader, takes, amount)
        const { dollars, allowance, shares, others } = wallets.get(trader)!
        if (Math.min(dollars, allowance, shares, others) < 0) poor.add(trader)
        if (takes !== 'dollars' && !this.#of(trader).isApproved) poor.add(trader)
      }
    }
    for (const id of open) {
      if (this.#tradeOf(id).some(({ trader }) => poor.has(trader))) this.short.add(id)
    }
  }

  /** Returns the block that decided the trade. After it, no trader may change the trade's result. */
  decisionOf(id: TradeId): number {
    const refusedAt = this.refusedAt.get(id)
    if (refusedAt !== undefined) return refusedAt
    const verdict = this.verdicts.get(id)
    if (verdict?.isLook === false) return verdict.block
    return this.decidedAt.get(id) ?? Number.POSITIVE_INFINITY
  }

  #of(trader: Address): Wallet {
    return this.#wallets.get(trader) ?? NOTHING
  }

  #do(step: Step): void {
    this.#steps.push(step)
    if (step.type === 'set') this.#wallets.set(step.trader, step.to)
    else move(this.#wallets, this.#tradeOf(step.id))
  }

  #tradeOf(id: TradeId): Terms {
    const { buyer, seller, price, size, kind } = this.#world.trades.get(id)!
    const [cost, rest] = [costCeil(price, size), size - costCeil(price, size)]
    const pays = {
      trader: buyer,
      takes: 'dollars',
      amount: cost,
      brings: { shares: size },
    } as const
    const gives = {
      trader: seller,
      takes: 'shares',
      amount: size,
      brings: { dollars: cost },
    } as const
    if (kind === 'mint') {
      return [pays, { trader: seller, takes: 'dollars', amount: rest, brings: { others: size } }]
    }
    if (kind === undefined) return [pays, gives]
    return [{ trader: buyer, takes: 'others', amount: size, brings: { dollars: rest } }, gives]
  }

  /**
   * Executes these trades in sequence on a copy of the funds. Records the contract's verdicts, and returns its refusals
   * by trade.
   */
  #judge(ids: readonly TradeId[], isLook: boolean): ReadonlyMap<TradeId, Refusal> {
    const wallets = new Map(this.#wallets)
    const refusals = new Map<TradeId, Refusal>()
    for (const id of ids) {
      const terms = this.#tradeOf(id)
      const found = refusalOf(wallets, terms)
      const refusal = found === undefined ? undefined : { ...found, has: this.#holdings(terms) }
      this.verdicts.set(id, { block: this.block, isLook, refusal })
      const known = this.looks.get(id)
      if (isLook && known !== undefined) known.last = this.block
      else if (isLook) this.looks.set(id, { block: this.block, refusal, last: this.block })
      if (refusal === undefined) move(wallets, terms)
      else refusals.set(id, refusal)
    }
    return refusals
  }

  /**
   * Returns the funds of both sides, as a check reports them. A side without a sufficient allowance or approval is left
   * out.
   */
  #holdings([buyer, seller]: Terms): NonNullable<Refusal['has']> {
    const all = isShared([buyer, seller]) ? { amount: buyer.amount + seller.amount } : {}
    const [paying, selling] = [buyer, seller].map((leg) => this.#heldBy({ ...leg, ...all })) as [
      Held,
      Held,
    ]
    return {
      ...(paying.balance === undefined ? {} : { buyer: paying.balance }),
      ...(paying.allowance === undefined ? {} : { allowance: paying.allowance }),
      ...(selling.balance === undefined ? {} : { seller: selling.balance }),
      ...(selling.allowance === undefined ? {} : { sellerAllowance: selling.allowance }),
    }
  }

  #heldBy({ trader, takes, amount }: Leg): Held {
    const wallet = this.#of(trader)
    const balance = BigInt(wallet[takes])
    if (takes !== 'dollars') return wallet.isApproved ? { balance } : {}
    return wallet.allowance >= amount ? { balance, allowance: BigInt(wallet.allowance) } : {}
  }
}

type Token = 'dollars' | 'shares' | 'others'

type Held = { readonly balance?: bigint; readonly allowance?: bigint }

/** One side of a trade: the tokens that the trade takes from a trader, and those that it brings. */
type Leg = {
  readonly trader: Address
  readonly takes: Token
  readonly amount: number
  readonly brings: Partial<Record<Token, number>>
}

/** The buyer and the seller. */
type Terms = readonly [Leg, Leg]

function refusalOf(
  wallets: ReadonlyMap<Address, Wallet>,
  [buyer, seller]: Terms,
): Refusal | undefined {
  const poor = shortageOf(wallets, buyer, buyer.amount)
  const bare = shortageOf(
    wallets,
    seller,
    seller.amount + (isShared([buyer, seller]) ? buyer.amount : 0),
  )
  if (poor !== undefined && bare !== undefined) return { reason: 'BothUnfunded', fault: 'both' }
  if (poor !== undefined) return { reason: poor, fault: 'buyer' }
  return bare === undefined ? undefined : { reason: bare, fault: 'seller' }
}

/** True if one trader pays both parts of a mint. */
function isShared([buyer, seller]: Terms): boolean {
  return buyer.trader === seller.trader && buyer.takes === seller.takes
}

function shortageOf(
  wallets: ReadonlyMap<Address, Wallet>,
  { trader, takes }: Leg,
  amount: number,
): string | undefined {
  const wallet = wallets.get(trader) ?? NOTHING
  if (takes === 'dollars') {
    if (wallet.dollars < amount) return 'InsufficientCollateral'
    return wallet.allowance < amount ? 'InsufficientAllowance' : undefined
  }
  if (wallet[takes] < amount) return 'InsufficientShares'
  return wallet.isApproved ? undefined : 'SharesNotApproved'
}

function move(wallets: Map<Address, Wallet>, legs: Terms): void {
  for (const { trader, takes, amount, brings } of legs) {
    take(wallets, trader, takes, amount)
    change(wallets, trader, brings)
  }
}

/** Each payment uses some of the allowance. */
function take(wallets: Map<Address, Wallet>, trader: Address, token: Token, amount: number): void {
  const allowance = token === 'dollars' ? -amount : 0
  change(wallets, trader, { [token]: -amount, allowance })
}

function change(
  wallets: Map<Address, Wallet>,
  trader: Address,
  by: Partial<Record<Token | 'allowance', number>>,
): void {
  const had = wallets.get(trader) ?? NOTHING
  wallets.set(trader, {
    ...had,
    dollars: had.dollars + (by.dollars ?? 0),
    shares: had.shares + (by.shares ?? 0),
    others: had.others + (by.others ?? 0),
    allowance: had.allowance + (by.allowance ?? 0),
  })
}
