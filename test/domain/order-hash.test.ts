import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { hashTypedData, type TypedDataDomain } from 'viem'
import { type Address, type MarketId, UINT64_MAX, type Uint64 } from '#domain/ids.ts'
import { PRICE_MAX, PRICE_MIN, type Price, type Shares, SIZE_MAX } from '#domain/money.ts'
import type { Order, Outcome, Side } from '#domain/order.ts'
import { makeOrderHasher, type OrderDomain, orderHash } from '#domain/order-hash.ts'
import { ORDER_TYPES, settlementDomain } from '#domain/typed-data.ts'
import { loadKeccak } from '#verify/keccak.ts'
import fixture from './order-vectors.json' with { type: 'json' }

function hex(bytes: number): fc.Arbitrary<string> {
  return fc
    .uint8Array({ minLength: bytes, maxLength: bytes })
    .map((value) => `0x${Buffer.from(value).toString('hex')}`)
}

const uint64 = fc
  .oneof(
    fc.bigInt({ min: 0n, max: UINT64_MAX }),
    fc.constantFrom(0n, 1n, 2n ** 32n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 63n, UINT64_MAX),
    fc.integer({ min: 0, max: 2_000_000_000 }).map(BigInt),
    fc.bigInt({ min: 10n ** 14n, max: 10n ** 17n }),
  )
  .map(String)

const orders: fc.Arbitrary<Order> = fc.record({
  marketId: hex(32) as fc.Arbitrary<MarketId>,
  trader: hex(20) as fc.Arbitrary<Address>,
  side: fc.constantFrom<Side>(0, 1),
  outcome: fc.constantFrom<Outcome>(0, 1),
  price: fc.oneof(
    fc.integer({ min: PRICE_MIN, max: PRICE_MAX }),
    fc.constantFrom(PRICE_MIN, PRICE_MAX),
  ) as fc.Arbitrary<Price>,
  size: fc.oneof(
    fc.integer({ min: 1, max: SIZE_MAX }),
    fc.constantFrom(1, 2 ** 32 - 1, 2 ** 32, SIZE_MAX),
  ) as fc.Arbitrary<Shares>,
  nonce: uint64 as fc.Arbitrary<Uint64>,
  expiration: uint64 as fc.Arbitrary<Uint64>,
  makerFeeRecipient: hex(20) as fc.Arbitrary<Address>,
})

const domains: fc.Arbitrary<OrderDomain> = fc.record({
  chainId: fc.oneof(fc.integer({ min: 1, max: SIZE_MAX }), fc.constantFrom(1, 137, 31337)),
  verifyingContract: hex(20) as fc.Arbitrary<Address>,
})

function viemHash(order: Order, domain: OrderDomain): string {
  return hashTypedData({
    domain: settlementDomain(domain.chainId, domain.verifyingContract) as TypedDataDomain,
    types: ORDER_TYPES,
    primaryType: 'Order',
    message: {
      ...order,
      marketId: order.marketId as string as `0x${string}`,
      trader: order.trader as string as `0x${string}`,
      makerFeeRecipient: order.makerFeeRecipient as string as `0x${string}`,
      price: BigInt(order.price),
      size: BigInt(order.size),
      nonce: BigInt(order.nonce),
      expiration: BigInt(order.expiration),
    },
  })
}

test('the hash of each example order equals the hash that another library computed', () => {
  for (const { domain, order, digest } of fixture.vectors) {
    assert.equal(orderHash(order as unknown as Order, domain as OrderDomain), digest)
  }
})

test('the hash of a random order equals the hash that the library viem computes', () => {
  fc.assert(
    fc.property(orders, domains, (order, domain) => {
      assert.equal(orderHash(order, domain), viemHash(order, domain))
    }),
    { numRuns: 300 },
  )
})

test('an order hasher that is reused for many orders computes the right hash for each', () => {
  const domain = { chainId: 31337, verifyingContract: `0x${'5a'.repeat(20)}` as Address }
  const hash = makeOrderHasher(domain, loadKeccak().keccak256)
  fc.assert(
    fc.property(fc.array(orders, { minLength: 1, maxLength: 20 }), (many) => {
      const digests = many.map((order) => hash(order))
      for (const [index, digest] of digests.entries()) {
        const expected = orderHash(many[index]!, domain)
        assert.equal(`0x${Buffer.from(digest).toString('hex')}`, expected)
      }
    }),
    { numRuns: 50 },
  )
})

test('an order with upper-case hex digits has the same hash as with lower-case digits', () => {
  fc.assert(
    fc.property(orders, domains, (order, domain) => {
      const shouted = {
        ...order,
        marketId: `0x${order.marketId.slice(2).toUpperCase()}` as MarketId,
        trader: `0x${order.trader.slice(2).toUpperCase()}` as Address,
      }
      assert.equal(orderHash(shouted, domain), orderHash(order, domain))
    }),
    { numRuns: 20 },
  )
})

test('hashing a value that is not a valid order throws an error', () => {
  const { domain, order } = fixture.vectors[0] as unknown as { domain: OrderDomain; order: Order }
  const broken: object[] = [
    { marketId: '0x12' },
    { marketId: `0x${'g'.repeat(64)}` },
    { marketId: `0x${'é'.repeat(64)}` },
    { marketId: `1x${'0'.repeat(64)}` },
    { trader: `0x${'0'.repeat(42)}` },
    { price: 1.5 },
    { size: -1 },
    { size: 2 ** 53 },
    { nonce: 'abc' },
    { nonce: '18446744073709551616' },
    { expiration: '-1' },
  ]
  for (const fields of broken) {
    assert.throws(() => orderHash({ ...order, ...fields } as Order, domain), JSON.stringify(fields))
  }
})
