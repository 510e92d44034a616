/**
 * Makes traders, and signs orders before a run. Signing uses a native library, so that the sender is never the
 * bottleneck. By default, sells and buys at one price alternate, and each buy matches the sell before it.
 */

import { createHash, randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import type { PermitInput } from '#client/order-submission.ts'
import { type Address, type MarketId, UINT256_MAX, type Uint64, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, type Order, SELL, type Side, YES } from '#domain/order.ts'
import { makeOrderHasher, type OrderDomain } from '#domain/order-hash.ts'
import { PERMIT_TYPES, type Stablecoin, stablecoinDomain } from '#domain/typed-data.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { makeTypedDataHasher } from '#verify/typed-data-hash.ts'

type Secp256k1 = {
  publicKeyCreate(key: Uint8Array, compressed: boolean): Uint8Array
  ecdsaSign(digest: Uint8Array, key: Uint8Array): { signature: Uint8Array; recid: number }
  ecdsaRecover(signature: Uint8Array, recid: number, digest: Uint8Array): Uint8Array
}

export const secp256k1 = createRequire(import.meta.url)('secp256k1') as Secp256k1

export type SignedOrder = {
  readonly order: Order
  readonly signature: string
  readonly permitSignature?: PermitInput
}

export type Trader = { readonly key: Uint8Array; readonly address: Address }

const keccak = loadKeccak()

export function makeTrader(key: Uint8Array = randomBytes(32)): Trader {
  const hash = keccak.keccak256(secp256k1.publicKeyCreate(key, false).subarray(1))
  return { key, address: `0x${Buffer.from(hash).toString('hex', 12)}` as Address }
}

/** Returns the trader of this name: always the same one, and a different one for every other name. */
export function traderNamed(name: string): Trader {
  return makeTrader(createHash('sha256').update(name).digest())
}

export type OrderSigner = (order: Order, key: Uint8Array) => { hash: Uint8Array; signature: string }

/** Returns a function that signs orders. The memory of the returned hash is reused by the next call. */
export function makeOrderSigner(domain: OrderDomain): OrderSigner {
  const hashOrder = makeOrderHasher(domain, keccak.keccak256)
  return (order, key) => {
    const hash = hashOrder(order)
    const { signature, recid } = secp256k1.ecdsaSign(hash, key)
    const hex = Buffer.from(signature).toString('hex')
    return { hash, signature: `0x${hex}${(27 + recid).toString(16)}` }
  }
}

/**
 * Signs one unlimited permit per trader. If the exchange reserves no funds, all orders of a trader may carry the same
 * permit.
 */
export function signPermits(
  traders: readonly Trader[],
  domain: OrderDomain,
  stablecoin: Stablecoin,
): ReadonlyMap<Address, PermitInput> {
  const terms = { value: String(UINT256_MAX), nonce: '0', deadline: '4000000000' }
  const hashPermit = makeTypedDataHasher(
    {
      domain: stablecoinDomain(domain.chainId, stablecoin),
      primaryType: 'Permit',
      types: PERMIT_TYPES,
    },
    keccak.keccak256,
  )
  const spender = domain.verifyingContract
  return new Map(
    traders.map(({ key, address }) => {
      const digest = hashPermit({ ...terms, owner: address, spender })
      const { signature, recid } = secp256k1.ecdsaSign(digest, key)
      const hex = Buffer.from(signature).toString('hex')
      const [r, s] = [`0x${hex.slice(0, 64)}`, `0x${hex.slice(64)}`]
      return [address, { ...terms, v: 27 + recid, r, s }] as const
    }),
  )
}

/**
 * Signs `count` orders of these traders in these markets. Unless `side` is set, every second order matches the order
 * before it.
 */
export function signOrders(options: {
  readonly count: number
  readonly traders: readonly Trader[]
  readonly markets: readonly MarketId[]
  readonly domain: OrderDomain
  readonly price?: number
  readonly size?: number
  /** Side of all orders; if undefined, sells and buys alternate. */
  readonly side?: Side
  /** Goes with every buy. */
  readonly permits?: ReadonlyMap<Address, PermitInput>
}): SignedOrder[] {
  const { count, traders, markets, domain, price = 500_000, size = 1_000_000 } = options
  const sign = makeOrderSigner(domain)
  const expiration = String(Math.floor(Date.now() / 1_000) + 86_400) as Uint64
  return Array.from({ length: count }, (_, index) => {
    const trader = traders[index % traders.length] as Trader
    const order: Order = {
      marketId: markets[(index >> 1) % markets.length] as MarketId,
      trader: trader.address,
      side: options.side ?? (index % 2 === 0 ? SELL : BUY),
      outcome: YES,
      price: price as Price,
      size: size as Shares,
      nonce: randomBytes(8).readBigUInt64BE().toString() as Uint64,
      expiration,
      makerFeeRecipient: ZERO_ADDRESS,
    }
    const permitSignature = order.side === BUY ? options.permits?.get(order.trader) : undefined
    return {
      order,
      signature: sign(order, trader.key).signature,
      ...(permitSignature === undefined ? {} : { permitSignature }),
    }
  })
}
