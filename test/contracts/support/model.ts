/**
 * A second, simple implementation of the settlement contract's expected behaviour. It keeps numbers in maps and settles
 * one trade after the other. The fuzz test compares the chain with this model.
 */
import type { Hex } from 'viem'
import { costCeil, isPrice, isShares } from '#domain/money.ts'
import { type Fault, type Order, type Reason, ZERO } from './world.ts'

export const UNLIMITED = 2n ** 256n - 1n

export type KnownOrder = {
  readonly order: Order
  readonly hash: Hex
  /** The account whose key made the signature. */
  readonly signer: Hex
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

export function newModel(settings: { grace: bigint; cancelDelay: bigint; tokens: Hex }) {
  return {
    ...settings,
    /**
     * Collateral by holder. The amount of the address `tokens` (the conditional tokens contract) is locked in complete
     * sets.
     */
    collateral: new Map<Hex, bigint>(),
    allowance: new Map<Hex, bigint>(),
    /** By `trader marketId outcome`. */
    shares: new Map<string, bigint>(),
    approved: new Set<Hex>(),
    markets: new Set<Hex>(),
    filled: new Map<Hex, bigint>(),
    cancelledFrom: new Map<Hex, bigint>(),
    /**
     * Epochs by trader: orders with a nonce below `nonce` are void. From the time `from`, orders with a nonce
     * below `next` are void.
     */
    epochs: new Map<Hex, { nonce: bigint; next: bigint; from: bigint }>(),
    settled: new Set<Hex>(),
    /** Accounts that the collateral has blocked. */
    blocked: new Set<Hex>(),
    /** True if the collateral refuses every transfer. */
    refusesAll: false,
    /** Divisor of the collateral's fee: the collateral keeps 1/`feePart` of each transfer. 0 for no fee. */
    feePart: 0n,
    /** True if the collateral's transfers return nothing, which the conditional tokens reject. */
    isMute: false,
    feeReceiver: '0x' as Hex,
    /** Accounts whose own code refuses outcome tokens. */
    unwilling: new Set<Hex>(),
    /** Accounts whose own code accepts every signature. */
    credulous: new Set<Hex>(),
    /** Time until which orders that a delegate signed can settle. The key is `account delegate`. */
    delegates: new Map<string, bigint>(),
    /** Time until which a delegate may cancel orders. The key is `account delegate`. */
    appointed: new Map<string, bigint>(),
  }
}

/** Returns whether the trader or an active delegate signed the order, or the trader's code accepts every signature. */
export function isSigned(model: Model, { order, signer }: KnownOrder, now: bigint): boolean {
  const { trader } = order
  if (signer === trader || model.credulous.has(trader)) return true
  return now <= amount(model.delegates, `${trader} ${signer}`)
}

/**
 * Appoints a delegate until a time. `until` 0 revokes the delegate. If the new end is earlier, orders that the delegate
 * signed can still settle until the cancel delay ends.
 */
export function setDelegate(
  model: Model,
  [account, delegate]: readonly [Hex, Hex],
  until: bigint,
  now: bigint,
): void {
  const pair = `${account} ${delegate}`
  const before = amount(model.delegates, pair)
  const end = until === 0n ? 0n : until + model.grace
  const soonest = now + model.cancelDelay < before ? now + model.cancelDelay : before
  model.delegates.set(pair, end < before && end < soonest ? soonest : end)
  model.appointed.set(pair, until)
}

/**
 * Returns whether a signature of this key can cancel orders of the trader. The key of a revoked delegate can cancel
 * none.
 */
export function mayCancel(model: Model, trader: Hex, signer: Hex, now: bigint): boolean {
  if (signer === trader || model.credulous.has(trader)) return true
  return now < amount(model.appointed, `${trader} ${signer}`)
}

export const holding = (trader: Hex, marketId: Hex, outcome: number): string =>
  `${trader} ${marketId} ${outcome}`

export const amount = <K>(map: ReadonlyMap<K, bigint>, key: K): bigint => map.get(key) ?? 0n

/** Predicts the result of a fill. If the fill should settle, settles it in the model. */
export function settleInModel(model: Model, fill: ModelFill, tradeId: Hex, now: bigint): Expected {
  const reject = (reason: Reason, buyer = false, seller = false): Expected => {
    const fault = buyer ? (seller ? 'Both' : 'Buyer') : seller ? 'Seller' : 'None'
    return { settled: false, fault, reason }
  }
  const { buy, sell, price, size } = fill
  const orders = [buy, sell] as const
  if (model.settled.has(tradeId)) return reject('AlreadySettled')
  const kind = kindOf(fill)
  if (kind === undefined) return reject('WrongSide')
  if (buy.order.marketId !== sell.order.marketId) return reject('MarketMismatch')
  const isSameOutcome = buy.order.outcome === sell.order.outcome
  if (kind === 'trade' && !isSameOutcome) return reject('OutcomeMismatch')
  if (kind !== 'trade' && isSameOutcome) return reject('WrongSide')
  if (size === 0n) return reject('SizeZero')
  if (!isPrice(Number(price))) return reject('PriceOutOfRange')
  const buyLimit = kind === 'merge' ? 1_000_000n - buy.order.price : buy.order.price
  const sellLimit = kind === 'mint' ? 1_000_000n - sell.order.price : sell.order.price
  if (price > buyLimit) return reject('PriceAboveBuyLimit')
  if (price < sellLimit) return reject('PriceBelowSellLimit')

  const failing = (reason: Reason, fails: (known: KnownOrder) => boolean) => {
    const [buyer, seller] = orders.map(fails)
    return buyer || seller ? reject(reason, buyer, seller) : undefined
  }
  const bad =
    failing('InvalidSignature', (known) => !isSigned(model, known, now)) ??
    failing('FeeRecipientNotZero', ({ order }) => order.makerFeeRecipient !== ZERO) ??
    failing('OrderExpired', ({ order }) => now > order.expiration + model.grace) ??
    failing('OrderCancelled', (known) => isCancelled(model, known, now)) ??
    failing('OrderOverfilled', ({ hash, order }) => amount(model.filled, hash) + size > order.size)
  if (bad !== undefined) return bad

  const { marketId } = buy.order
  const cost = costOf(price, size)
  const legs = legsOf(fill, kind, cost)
  const [buyer, seller] = legs
  // If one trader is both buyers of a mint, the trader must be able to pay for both sides.
  const isAlone = kind === 'mint' && buyer.trader === seller.trader
  const lacks = [
    shortage(model, marketId, buyer),
    shortage(model, marketId, isAlone ? { ...seller, pays: size } : seller),
  ] as const
  const isKnown = model.markets.has(marketId)
  if (!isKnown && (kind === 'mint' || lacks.some((reason) => reason !== undefined))) {
    return reject('MarketUnknown')
  }
  if (lacks[0] !== undefined && lacks[1] !== undefined) return reject('BothUnfunded', true, true)
  if (lacks[0] !== undefined) return reject(lacks[0], true)
  if (lacks[1] !== undefined) return reject(lacks[1], false, true)

  const isRefused = ({ trader }: Leg) => model.refusesAll || model.blocked.has(trader)
  const [refusesBuyer, refusesSeller] = [isRefused(buyer), isRefused(seller)]
  if (refusesBuyer && refusesSeller) return reject('CollateralRefused')
  if (refusesBuyer || refusesSeller) {
    return reject('CollateralRefused', refusesBuyer, refusesSeller)
  }
  const isFeeTaken = (value: bigint) => model.feePart > 0n && value >= model.feePart
  if (kind !== 'trade') {
    const moved = kind === 'mint' ? [cost, size - cost] : [size]
    if (model.isMute || moved.some(isFeeTaken)) return reject('CollateralRefused')
  }
  if (buyer.gets !== undefined && model.unwilling.has(buyer.trader)) {
    return reject('SharesRefused', true)
  }
  if (seller.gets !== undefined && model.unwilling.has(seller.trader)) {
    return reject('SharesRefused', false, true)
  }

  model.settled.add(tradeId)
  for (const { hash } of orders) model.filled.set(hash, amount(model.filled, hash) + size)
  for (const leg of legs) apply(model, leg, marketId)
  const locked = model.tokens
  if (kind === 'mint') model.collateral.set(locked, amount(model.collateral, locked) + size)
  if (kind === 'merge') model.collateral.set(locked, amount(model.collateral, locked) - size)
  if (kind === 'trade' && isFeeTaken(cost)) {
    move(model.collateral, seller.trader, model.feeReceiver, cost / model.feePart)
  }
  return { settled: true, cost }
}

type Kind = 'trade' | 'mint' | 'merge'

/** Amounts that one side of a mint or merge pays, delivers and receives. */
type Leg = {
  readonly trader: Hex
  readonly size: bigint
  readonly pays: bigint
  readonly earns: bigint
  /** Outcomes of the tokens. */
  readonly gives?: number
  readonly gets?: number
}

export function kindOf({ buy, sell }: Pick<ModelFill, 'buy' | 'sell'>): Kind | undefined {
  if (buy.order.side === 0) return sell.order.side === 0 ? 'mint' : 'trade'
  return sell.order.side === 1 ? 'merge' : undefined
}

function legsOf({ buy, sell, size }: ModelFill, kind: Kind, cost: bigint): [Leg, Leg] {
  const [buyer, seller] = [buy.order.trader, sell.order.trader]
  const [b, s] = [buy.order.outcome, sell.order.outcome]
  const rest = size - cost
  if (kind === 'mint') {
    return [
      { trader: buyer, size, pays: cost, earns: 0n, gets: b },
      { trader: seller, size, pays: rest, earns: 0n, gets: s },
    ]
  }
  if (kind === 'merge') {
    return [
      { trader: buyer, size, pays: 0n, earns: rest, gives: b },
      { trader: seller, size, pays: 0n, earns: cost, gives: s },
    ]
  }
  return [
    { trader: buyer, size, pays: cost, earns: 0n, gets: b },
    { trader: seller, size, pays: 0n, earns: cost, gives: s },
  ]
}

function shortage(
  model: Model,
  marketId: Hex,
  { trader, pays, gives, size }: Leg,
): Reason | undefined {
  if (gives === undefined) {
    if (amount(model.collateral, trader) < pays) return 'InsufficientCollateral'
    return amount(model.allowance, trader) < pays ? 'InsufficientAllowance' : undefined
  }
  if (amount(model.shares, holding(trader, marketId, gives)) < size) return 'InsufficientShares'
  return model.approved.has(trader) ? undefined : 'SharesNotApproved'
}

function apply(model: Model, leg: Leg, marketId: Hex): void {
  const { trader, pays, earns, gives, gets, size } = leg
  model.collateral.set(trader, amount(model.collateral, trader) - pays + earns)
  const allowance = amount(model.allowance, trader)
  if (allowance !== UNLIMITED) model.allowance.set(trader, allowance - pays)
  for (const [outcome, change] of [
    [gives, -size],
    [gets, size],
  ] as const) {
    if (outcome === undefined) continue
    const key = holding(trader, marketId, outcome)
    model.shares.set(key, amount(model.shares, key) + change)
  }
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
