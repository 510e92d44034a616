/**
 * What the settlement contract should do, written a second time and as plainly as possible: numbers
 * in maps, one trade after the other. The fuzz test compares the chain with it.
 */
import type { Hex } from 'viem'
import { costCeil, isPrice, isShares } from '#domain/money.ts'
import { type Fault, type Order, type Reason, ZERO } from './world.ts'

export const UNLIMITED = 2n ** 256n - 1n

export type KnownOrder = {
  readonly order: Order
  readonly hash: Hex
  /** Whether the signature sent with it is the trader's own. */
  readonly genuine: boolean
}
export type ModelFill = {
  readonly buy: KnownOrder
  readonly sell: KnownOrder
  readonly seq: bigint
  readonly fillIndex: number
  readonly price: bigint
  readonly size: bigint
}
export type Expected =
  | { readonly settled: true; readonly cost: bigint }
  | { readonly settled: false; readonly fault: Fault; readonly reason: Reason }

export type Model = ReturnType<typeof newModel>

export function newModel(settings: { grace: bigint; cancelDelay: bigint }) {
  return {
    ...settings,
    collateral: new Map<Hex, bigint>(),
    allowance: new Map<Hex, bigint>(),
    /** By `trader marketId outcome`. */
    shares: new Map<string, bigint>(),
    approved: new Set<Hex>(),
    markets: new Set<Hex>(),
    filled: new Map<Hex, bigint>(),
    cancelledFrom: new Map<Hex, bigint>(),
    /** By trader: below `nonce` everything is void, and below `next` from `from` on. */
    epochs: new Map<Hex, { nonce: bigint; next: bigint; from: bigint }>(),
    settled: new Set<Hex>(),
    /** Accounts that the collateral has blocked. */
    blocked: new Set<Hex>(),
    /** Whether the collateral refuses every transfer. */
    refusesAll: false,
    /** The collateral keeps one part in this many of what a receiver gets; zero for nothing. */
    feePart: 0n,
    feeReceiver: '0x' as Hex,
    /** Accounts whose own code refuses outcome tokens. */
    unwilling: new Set<Hex>(),
  }
}

export const holding = (trader: Hex, marketId: Hex, outcome: number): string =>
  `${trader} ${marketId} ${outcome}`

export const amount = <K>(map: ReadonlyMap<K, bigint>, key: K): bigint => map.get(key) ?? 0n

/** Settles the fill in the model if it should settle, and says what should be reported. */
export function settleInModel(model: Model, fill: ModelFill, tradeId: Hex, now: bigint): Expected {
  const reject = (reason: Reason, buyer = false, seller = false): Expected => {
    const fault = buyer ? (seller ? 'Both' : 'Buyer') : seller ? 'Seller' : 'None'
    return { settled: false, fault, reason }
  }
  const { buy, sell, price, size } = fill
  const orders = [buy, sell] as const
  if (model.settled.has(tradeId)) return reject('AlreadySettled')
  if (buy.order.side !== 0 || sell.order.side !== 1) return reject('WrongSide')
  if (buy.order.marketId !== sell.order.marketId) return reject('MarketMismatch')
  if (buy.order.outcome !== sell.order.outcome) return reject('OutcomeMismatch')
  if (size === 0n) return reject('SizeZero')
  if (!isPrice(Number(price))) return reject('PriceOutOfRange')
  if (price > buy.order.price) return reject('PriceAboveBuyLimit')
  if (price < sell.order.price) return reject('PriceBelowSellLimit')

  const failing = (reason: Reason, fails: (known: KnownOrder) => boolean) => {
    const [buyer, seller] = orders.map(fails)
    return buyer || seller ? reject(reason, buyer, seller) : undefined
  }
  const bad =
    failing('InvalidSignature', ({ genuine }) => !genuine) ??
    failing('FeeRecipientNotZero', ({ order }) => order.makerFeeRecipient !== ZERO) ??
    failing('OrderExpired', ({ order }) => now > order.expiration + model.grace) ??
    failing('OrderCancelled', (known) => isCancelled(model, known, now)) ??
    failing('OrderOverfilled', ({ hash, order }) => amount(model.filled, hash) + size > order.size)
  if (bad !== undefined) return bad

  const [payer, giver] = [buy.order.trader, sell.order.trader]
  const { marketId, outcome } = buy.order
  const cost = costOf(price, size)
  const poor = amount(model.collateral, payer) < cost
  const unallowed = amount(model.allowance, payer) < cost
  const empty = amount(model.shares, holding(giver, marketId, outcome)) < size
  const unapproved = !model.approved.has(giver)
  if (poor || unallowed || empty || unapproved) {
    if (!model.markets.has(marketId)) return reject('MarketUnknown')
    const buyer = poor || unallowed
    const seller = empty || unapproved
    if (buyer && seller) return reject('BothUnfunded', true, true)
    if (buyer) return reject(poor ? 'InsufficientCollateral' : 'InsufficientAllowance', true)
    return reject(empty ? 'InsufficientShares' : 'SharesNotApproved', false, true)
  }

  // The collateral moves first, and the contract asks it about each of the two when it does not.
  const isRefused = (account: Hex) => model.refusesAll || model.blocked.has(account)
  const [refusesPayer, refusesGiver] = [isRefused(payer), isRefused(giver)]
  if (refusesPayer && refusesGiver) return reject('CollateralRefused')
  if (refusesPayer || refusesGiver) return reject('CollateralRefused', refusesPayer, refusesGiver)
  if (model.unwilling.has(payer)) return reject('SharesRefused', true)

  model.settled.add(tradeId)
  for (const { hash } of orders) model.filled.set(hash, amount(model.filled, hash) + size)
  move(model.collateral, payer, giver, cost)
  if (model.feePart > 0n) move(model.collateral, giver, model.feeReceiver, cost / model.feePart)
  move(model.shares, holding(giver, marketId, outcome), holding(payer, marketId, outcome), size)
  const allowance = amount(model.allowance, payer)
  if (allowance !== UNLIMITED) model.allowance.set(payer, allowance - cost)
  return { settled: true, cost }
}

export function isCancelled(model: Model, { hash, order }: KnownOrder, now: bigint): boolean {
  const from = model.cancelledFrom.get(hash)
  if (from !== undefined && now >= from) return true
  const epoch = model.epochs.get(order.trader)
  if (epoch === undefined) return false
  return order.nonce < (now >= epoch.from ? epoch.next : epoch.nonce)
}

export function move<K>(map: Map<K, bigint>, from: K, to: K, value: bigint): void {
  map.set(from, amount(map, from) - value)
  map.set(to, amount(map, to) + value)
}

function costOf(price: bigint, size: bigint): bigint {
  const [p, s] = [Number(price), Number(size)]
  if (!isPrice(p) || !isShares(s)) throw new RangeError('the fuzz left the domain of money.ts')
  return BigInt(costCeil(p, s))
}
