/** Models the checks that the settlement contract makes for each fill. */

import type { OrderHash } from '#domain/ids.ts'
import { costCeil, ONE, type Price, type Shares } from '#domain/money.ts'
import { BUY, expiresAtSec, type Order, SELL } from '#domain/order.ts'
import type { FaultySide } from '#domain/trade.ts'
import type { Funds, Verdict } from './contracts.ts'
import { isVoid } from './rights-model.ts'

/** Makes the contract's checks of a fill, in the contract's order. Returns the side at fault and the reason. */
export function verdictOf(fill: {
  readonly buy: Order
  readonly sell: Order
  readonly buyHash: OrderHash
  readonly sellHash: OrderHash
  readonly price: Price
  readonly size: Shares
  readonly funds: Funds
  readonly graceSec: number
  readonly isSettled: boolean
  readonly areSigned: readonly [boolean, boolean]
  readonly filled: (hash: OrderHash) => number
}): readonly [FaultySide, Verdict['reason']] {
  const { buy, sell, price, size, funds } = fill
  if (fill.isSettled) return ['none', 'AlreadySettled']
  if (buy.side !== BUY || sell.side !== SELL) return ['none', 'WrongSide']
  if (buy.marketId !== sell.marketId) return ['none', 'MarketMismatch']
  if (buy.outcome !== sell.outcome) return ['none', 'OutcomeMismatch']
  if (size === 0) return ['none', 'SizeZero']
  if (price <= 0 || price >= ONE) return ['none', 'PriceOutOfRange']
  if (price > buy.price) return ['none', 'PriceAboveBuyLimit']
  if (price < sell.price) return ['none', 'PriceBelowSellLimit']
  const sides = (buyer: boolean, seller: boolean, reason: Verdict['reason']) => {
    if (!buyer && !seller) return undefined
    return [buyer && seller ? 'both' : buyer ? 'buyer' : 'seller', reason] as const
  }
  const isOver = ({ expiration }: Order) => funds.nowSec > expiresAtSec(expiration) + fill.graceSec
  const [buySigned, sellSigned] = fill.areSigned
  const flaw =
    sides(!buySigned, !sellSigned, 'InvalidSignature') ??
    sides(isOver(buy), isOver(sell), 'OrderExpired') ??
    sides(isVoid(buy, fill.buyHash, funds), isVoid(sell, fill.sellHash, funds), 'OrderCancelled') ??
    sides(
      fill.filled(fill.buyHash) + size > buy.size,
      fill.filled(fill.sellHash) + size > sell.size,
      'OrderOverfilled',
    )
  if (flaw !== undefined) return flaw
  if (!funds.isPrepared(buy.marketId)) return ['none', 'MarketUnknown']
  const cost = BigInt(costCeil(price, size))
  const [buyer, seller] = [funds.wallet(buy.trader), funds.wallet(sell.trader)]
  const poor =
    buyer.dollars < cost
      ? 'InsufficientCollateral'
      : buyer.allowance < cost
        ? 'InsufficientAllowance'
        : undefined
  const held = seller.shares.get(`${buy.marketId}/${buy.outcome}`) ?? 0n
  const bare =
    held < BigInt(size) ? 'InsufficientShares' : seller.isApproved ? undefined : 'SharesNotApproved'
  if (poor !== undefined && bare !== undefined) return ['both', 'BothUnfunded']
  if (poor !== undefined) return ['buyer', poor]
  return bare === undefined ? ['none', 'None'] : ['seller', bare]
}
