/** Orders signed for the devnet, field by field, including invalid ones. */

import { accountOf } from '#client/local-key.ts'
import type { OrderSubmission } from '#client/order-submission.ts'
import { signOrder } from '#client/sign-order.ts'
import { type Address, type MarketId, toAddress, type Uint64, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Order } from '#domain/order.ts'
import type { OrderDomain } from '#domain/order-hash.ts'

export const DEVNET: OrderDomain = {
  chainId: 31_337,
  verifyingContract: '0x0B306BF915C4d645ff596e518fAf3F9669b97016' as Address,
}

export type TestTrader = {
  readonly key: `0x${string}`
  /** As the API writes it. */
  readonly address: string
}

/** Returns the trader whose private key is this number. */
export function traderNumbered(number: number): TestTrader {
  const key = `0x${number.toString(16).padStart(64, '0')}` as const
  return { key, address: accountOf(key).address }
}

let nonces = 0

export type SigningOptions = {
  readonly trader?: TestTrader
  readonly domain?: OrderDomain
  /** Trader of the order, if it is not the signer. */
  readonly claims?: string
}

/** Signs an order: by default, a buy of one YES at 0.50 that is valid for an hour. */
export async function signedOrder(
  marketId: MarketId,
  fields: Partial<Record<keyof Order, number | string>> = {},
  { trader = traderNumbered(11), domain = DEVNET, claims }: SigningOptions = {},
): Promise<OrderSubmission> {
  const draft = {
    marketId,
    side: 0,
    outcome: 0,
    price: 500_000 as Price,
    size: 1_000_000 as Shares,
    nonce: String(++nonces) as Uint64,
    expiration: String(Math.floor(Date.now() / 1_000) + 3_600) as Uint64,
    makerFeeRecipient: ZERO_ADDRESS,
    ...fields,
  } as Omit<Order, 'trader'>
  const submission = await signOrder(draft, trader.key, domain)
  if (claims === undefined) return submission
  return { ...submission, order: { ...submission.order, trader: toAddress(claims) } }
}
