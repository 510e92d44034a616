/**
 * What a chain knows of funds, for a `World`: dollars, shares of one outcome, allowances and approvals, with what the
 * contract says of trades one after the other. A reorg takes back what was settled; what traders did is mined again.
 */

import type { Address, TradeId } from '#domain/ids.ts'
import { costCeil } from '#domain/money.ts'
import type { Refusal, World } from './settlement-fixture.ts'

export type Wallet = {
  readonly dollars: number
  readonly shares: number
  readonly allowance: number
  readonly isApproved: boolean
}

/** The first time that settlement found out what would become of a trade. */
type Look = { readonly block: number; readonly refusal: Refusal | undefined; last: number }

type Step =
  | { readonly type: 'set'; readonly block: number; readonly trader: Address; readonly to: Wallet }
  | { readonly type: 'settled'; readonly id: TradeId; readonly nonce: number }

const NOTHING: Wallet = { dollars: 0, shares: 0, allowance: 0, isApproved: false }
const PLENTY: Wallet = { dollars: 1_000, shares: 1_000, allowance: 1_000, isApproved: true }

export class ModelChain {
  block = 0
  readonly looks = new Map<TradeId, Look>()
  /** When each trade last came into a block, and since when it is decided. */
  readonly minedAt = new Map<TradeId, number>()
  readonly decidedAt = new Map<TradeId, number>()
  /** When a trader had less of something than before by an act of their own. */
  readonly taken: { readonly block: number; readonly trader: Address }[] = []
  /** When blocks were removed. */
  readonly reorgs: number[] = []
  readonly #world: World
  /** By nonce, where its transaction was when it was last looked for. */
  readonly #seen = new Map<number, unknown>()
  #steps: Step[] = []
  #wallets = new Map<Address, Wallet>()

  constructor(world: World) {
    this.#world = world
    world.verdicts = (ids, isLook) => this.#judge(ids, isLook)
    world.settled = (id, nonce) => this.#do({ type: 'settled', id, nonce })
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

  reorg(nonce: number): void {
    this.reorgs.push(this.block)
    this.#world.reorg(nonce)
    const kept = this.#steps.filter((step) => step.type === 'set' || step.nonce < nonce)
    this.#wallets = new Map()
    this.#steps = []
    for (const step of kept) this.#do(step)
  }

  /** After each block: what has been sent and told by now. */
  note(): void {
    for (const { tradeIds, nonce } of this.#world.rows) {
      const mined = this.#world.mined.get(nonce)
      if (mined === this.#seen.get(nonce)) continue
      this.#seen.set(nonce, mined)
      for (const id of tradeIds) this.minedAt.set(id, this.block)
    }
    for (const [id, { status }] of this.#world.markets) {
      const isDecided = status === 'confirmed' || status === 'failed'
      if (!isDecided) this.decidedAt.delete(id)
      else if (!this.decidedAt.has(id)) this.decidedAt.set(id, this.block)
    }
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

  /** What the contract would say of these, each after those before it that settle. */
  #judge(ids: readonly TradeId[], isLook: boolean): ReadonlyMap<TradeId, Refusal> {
    const wallets = new Map(this.#wallets)
    const refusals = new Map<TradeId, Refusal>()
    for (const id of ids) {
      const terms = this.#tradeOf(id)
      const found = refusalOf(wallets, terms)
      const refusal = found === undefined ? undefined : { ...found, has: this.#holdings(terms) }
      const known = this.looks.get(id)
      if (isLook && known !== undefined) known.last = this.block
      else if (isLook) this.looks.set(id, { block: this.block, refusal, last: this.block })
      if (refusal === undefined) move(wallets, terms)
      else refusals.set(id, refusal)
    }
    return refusals
  }

  /** As the look at funds tells it: nothing of a side without an allowance or approval. */
  #holdings({ buyer, seller, cost }: Terms): NonNullable<Refusal['has']> {
    const [paying, selling] = [this.#of(buyer), this.#of(seller)]
    return {
      ...(paying.allowance >= cost ? { buyer: BigInt(paying.dollars) } : {}),
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
  const change = (who: Address, by: Partial<Wallet>): void => {
    const had = wallets.get(who) ?? NOTHING
    wallets.set(who, {
      ...had,
      dollars: had.dollars + (by.dollars ?? 0),
      shares: had.shares + (by.shares ?? 0),
      allowance: had.allowance + (by.allowance ?? 0),
    })
  }
  change(buyer, { dollars: -cost, shares: size, allowance: -cost })
  change(seller, { dollars: cost, shares: -size })
}
