/**
 * A model of the funds on a chain, for a `World`: dollars, shares of one outcome, allowances and approvals, and the
 * contract's verdicts on trades in sequence. A reorg removes settled trades; actions of traders are mined again.
 */

import type { Address, TradeId } from '#domain/ids.ts'
import { costCeil } from '#domain/money.ts'
import { keyOf, type Refusal, type World } from './settlement-fixture.ts'

export type Wallet = {
  readonly dollars: number
  readonly shares: number
  readonly allowance: number
  readonly isApproved: boolean
}

/** The time when settlement first learned the verdict on a trade. */
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

const NOTHING: Wallet = { dollars: 0, shares: 0, allowance: 0, isApproved: false }
const PLENTY: Wallet = { dollars: 1_000, shares: 1_000, allowance: 1_000, isApproved: true }

export class ModelChain {
  block = 0
  readonly looks = new Map<TradeId, Look>()
  /** The newest of each trade. */
  readonly verdicts = new Map<TradeId, Verdict>()
  /** The time when settlement first received a block that refused a trade by the fault of a side. */
  readonly refusedAt = new Map<TradeId, number>()
  /** Trades of which a side could not pay for all its unsettled trades at some block. */
  readonly short = new Set<TradeId>()
  /** When each trade last came into a block, and since when it is decided. */
  readonly minedAt = new Map<TradeId, number>()
  readonly decidedAt = new Map<TradeId, number>()
  /** When a trader had less of something than before by an act of their own. */
  readonly taken: { readonly block: number; readonly trader: Address }[] = []
  /** When blocks were removed. */
  readonly reorgs: number[] = []
  readonly #world: World
  /** By nonce, where its transaction was when it was last looked for, and since which block. */
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

  /** After each block: everything that has been sent and reported by now. */
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
      const { buyer, seller, cost, size } = this.#tradeOf(id)
      for (const [trader, by] of [
        [buyer, { dollars: -cost, allowance: -cost }],
        [seller, { shares: -size }],
      ] as const) {
        change(wallets, trader, by)
        const { dollars, allowance, shares } = wallets.get(trader)!
        if (Math.min(dollars, allowance, shares) < 0) poor.add(trader)
      }
      if (!this.#of(seller).isApproved) poor.add(seller)
    }
    for (const id of open) {
      const { buyer, seller } = this.#tradeOf(id)
      if (poor.has(buyer) || poor.has(seller)) this.short.add(id)
    }
  }

  /** The block after which nothing may change the result of the trade. */
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
    const { buyer, seller, price, size } = this.#world.trades.get(id)!
    return { buyer, seller, size, cost: costCeil(price, size) }
  }

  /** The contract's verdicts on these trades, each after the settled ones before it. */
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

  /** As in the funds check: nothing for a side without an allowance or approval. */
  #holdings({ buyer, seller, cost }: Terms): NonNullable<Refusal['has']> {
    const [paying, selling] = [this.#of(buyer), this.#of(seller)]
    return {
      ...(paying.allowance >= cost
        ? { buyer: BigInt(paying.dollars), allowance: BigInt(paying.allowance) }
        : {}),
      ...(selling.isApproved ? { seller: BigInt(selling.shares) } : {}),
    }
  }
}

type Terms = {
  readonly buyer: Address
  readonly seller: Address
  readonly size: number
  readonly cost: number
}

function refusalOf(
  wallets: ReadonlyMap<Address, Wallet>,
  { buyer, seller, size, cost }: Terms,
): Refusal | undefined {
  const paying = wallets.get(buyer) ?? NOTHING
  const selling = wallets.get(seller) ?? NOTHING
  const poor =
    paying.dollars < cost
      ? 'InsufficientCollateral'
      : paying.allowance < cost
        ? 'InsufficientAllowance'
        : undefined
  const bare =
    selling.shares < size
      ? 'InsufficientShares'
      : selling.isApproved
        ? undefined
        : 'SharesNotApproved'
  if (poor !== undefined && bare !== undefined) return { reason: 'BothUnfunded', fault: 'both' }
  if (poor !== undefined) return { reason: poor, fault: 'buyer' }
  return bare === undefined ? undefined : { reason: bare, fault: 'seller' }
}

function move(wallets: Map<Address, Wallet>, { buyer, seller, size, cost }: Terms): void {
  change(wallets, buyer, { dollars: -cost, shares: size, allowance: -cost })
  change(wallets, seller, { dollars: cost, shares: -size })
}

function change(
  wallets: Map<Address, Wallet>,
  trader: Address,
  { dollars = 0, shares = 0, allowance = 0 }: Partial<Wallet>,
): void {
  const had = wallets.get(trader) ?? NOTHING
  wallets.set(trader, {
    ...had,
    dollars: had.dollars + dollars,
    shares: had.shares + shares,
    allowance: had.allowance + allowance,
  })
}
