import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import type { Shares } from '#domain/money.ts'
import { NO, type Order, SELL } from '#domain/order.ts'
import { type OrderDomain, orderHash } from '#domain/order-hash.ts'
import { isRejection } from '#domain/rejection.ts'
import {
  makeOrderInspector,
  type OrderInspection,
  type SignedOrder,
  verifiedOrder,
} from '#verify/inspect-orders.ts'
import { loadKeccak, portableKeccak } from '#verify/keccak.ts'
import { loadRecovery, wasmRecovery } from '#verify/recover.ts'
import fixture from '../domain/order-vectors.json' with { type: 'json' }
import {
  addressOf,
  alice,
  bob,
  CURVE_ORDER,
  DOMAIN,
  OTHER_DOMAIN,
  partsOf,
  signatureOf,
  signedOrder,
} from './signed-order.ts'

const engines = [
  makeOrderInspector([DOMAIN, OTHER_DOMAIN], await loadRecovery(), loadKeccak()),
  makeOrderInspector([DOMAIN, OTHER_DOMAIN], await wasmRecovery(), portableKeccak),
]

/** Inspects an order with both engines, which must return the same. */
function inspect(signed: SignedOrder): OrderInspection {
  const [fast, fallback] = engines.map((inspectOrders) => inspectOrders([signed])[0]!)
  assert.deepEqual(fast, fallback)
  assert.ok(fast !== undefined && !isRejection(fast))
  return fast
}

function assertRefused(signed: SignedOrder, words: RegExp): void {
  const inspection = inspect(signed)
  assert.match(inspection.flaw ?? 'no flaw', words)
  const digest = orderHash(signed.order, DOMAIN)
  assert.equal(inspection.orderHash, digest)
  assert.ok(inspection.flaw?.startsWith('invalid signature: '))
  assert.ok(inspection.flaw?.endsWith(`the server computed the digest ${digest}`))
  const answer = verifiedOrder(signed, inspection)
  assert.deepEqual(answer, {
    rejected: 'INVALID_SIGNATURE',
    field: 'signature',
    detail: inspection.flaw,
  })
}

test('the inspection of a correctly signed order returns the order’s hash and its trader as signer', async () => {
  const signed = await signedOrder(alice)
  const inspection = inspect(signed)
  assert.deepEqual(inspection, {
    orderHash: orderHash(signed.order, DOMAIN),
    recovered: addressOf(alice),
    flaw: null,
  })
  assert.deepEqual(verifiedOrder(signed, inspection), {
    ...signed.order,
    orderHash: inspection.orderHash,
    signature: signed.signature,
  })
})

test('signatures of the fixed test vectors, made by another library, are verified', async () => {
  const recovery = await loadRecovery()
  for (const { domain, order, digest, signature } of fixture.vectors) {
    const signed = { chainId: domain.chainId, order: order as unknown as Order, signature }
    const inspectOrders = makeOrderInspector(
      [{ ...DOMAIN, ...(domain as OrderDomain) }],
      recovery,
      loadKeccak(),
    )
    assert.deepEqual(inspectOrders([signed]), [
      { orderHash: digest, recovered: order.trader, flaw: null },
    ])
  }
})

test('signatures with v as 0, 1, 27 or 28, in either letter case, are accepted and normalised', async () => {
  for (const trader of [alice, bob]) {
    const signed = await signedOrder(trader)
    const parts = partsOf(signed.signature)
    const low = { ...signed, signature: signatureOf({ ...parts, v: parts.v - 27 }) }
    const shouted = { ...signed, signature: `0x${signed.signature.slice(2).toUpperCase()}` }
    for (const variant of [signed, low, shouted]) {
      const answer = verifiedOrder(variant, inspect(variant))
      assert.ok(!isRejection(answer))
      assert.equal(answer.signature, signed.signature)
    }
  }
})

test('a signature whose v is not 0, 1, 27 or 28 is refused', async () => {
  const signed = await signedOrder(alice)
  const parts = partsOf(signed.signature)
  for (const v of [2, 3, 26, 29, 30, 35, 128, 255]) {
    const refused = { ...signed, signature: signatureOf({ ...parts, v }) }
    assertRefused(refused, new RegExp(`v must be 0, 1, 27 or 28, not ${v};`))
  }
})

test('the malleable twin of a signature, with mirrored s and v, is refused', async () => {
  const signed = await signedOrder(alice)
  const { r, s, v } = partsOf(signed.signature)
  const mirrored = { ...signed, signature: signatureOf({ r, s: CURVE_ORDER - s, v: 55 - v }) }
  assertRefused(mirrored, /s must be in the lower half/)
})

test('the s of a signature may be at most half the curve order', async () => {
  const signed = await signedOrder(alice)
  const { r, v } = partsOf(signed.signature)
  const half = CURVE_ORDER / 2n
  assertRefused({ ...signed, signature: signatureOf({ r, s: half, v }) }, /recovered signer is 0x/)
  assertRefused({ ...signed, signature: signatureOf({ r, s: half + 1n, v }) }, /lower half/)
})

test('a signature is refused if r or s is zero or not below the curve order', async () => {
  const signed = await signedOrder(alice)
  const parts = partsOf(signed.signature)
  for (const value of [0n, CURVE_ORDER, CURVE_ORDER + 1n, 2n ** 256n - 1n]) {
    const badR = { ...signed, signature: signatureOf({ ...parts, r: value }) }
    assertRefused(badR, /r must be above zero and below the order/)
    const badS = { ...signed, signature: signatureOf({ ...parts, s: value }) }
    assertRefused(badS, /s must be above zero and below the order/)
  }
})

test('a signature whose r is not a point of the curve is refused', async () => {
  const signed = await signedOrder(alice)
  // No point of the curve has x = 5, because 5³ + 7 has no square root in the field.
  const unfit = { ...signed, signature: signatureOf({ ...partsOf(signed.signature), r: 5n }) }
  assertRefused(unfit, /no public key can be recovered from the signature/)
  assert.equal(inspect(unfit).recovered, null)
})

test('a signature is refused unless it is 0x followed by 130 hex digits', async () => {
  const signed = await signedOrder(alice)
  const { signature } = signed
  for (const text of [
    '',
    '0x',
    signature.slice(0, -1),
    signature.slice(0, -2),
    `${signature}00`,
    `${signature}0`,
    signature.slice(2),
    `00${signature.slice(2)}`,
    `${signature.slice(0, 40)}g${signature.slice(41)}`,
    `${signature.slice(0, -1)} `,
    `${signature.slice(0, 40)}é${signature.slice(41)}`,
  ]) {
    assertRefused({ ...signed, signature: text }, /the signature must be 0x and 130 hex digits/)
  }
})

test('if an order was changed after signing, the refusal names the recovered and the expected signer', async () => {
  const signed = await signedOrder(alice)
  for (const fields of [
    { size: 10_000_001 as Shares },
    { side: SELL },
    { outcome: NO },
    { nonce: '18446744073709551614' },
  ]) {
    const changed = { ...signed, order: { ...signed.order, ...fields } as Order }
    const expected = checksumAddress(addressOf(alice))
    assertRefused(
      changed,
      new RegExp(`the recovered signer is 0x[0-9a-fA-F]{40}, not ${expected};`),
    )
  }
})

test('a changed signature is refused', async () => {
  const signed = await signedOrder(alice)
  const parts = partsOf(signed.signature)
  for (const changed of [
    { ...parts, s: parts.s ^ 1n },
    { ...parts, s: parts.s ^ (1n << 200n) },
    { ...parts, v: 55 - parts.v },
  ]) {
    const signature = signatureOf(changed)
    assertRefused(
      { ...signed, signature },
      /recovered signer is 0x|no public key can be recovered from the signature|lower half/,
    )
  }
})

test('an order that another account signed is refused, with both addresses in the error', async () => {
  const signed = await signedOrder(alice, { trader: addressOf(bob) })
  assertRefused(signed, new RegExp(`the recovered signer is ${alice.address}, not ${bob.address};`))
  assert.equal(inspect(signed).recovered, addressOf(alice))
})

test('a signature for another chain or another contract is refused', async () => {
  const elsewhere = await signedOrder(alice, {}, OTHER_DOMAIN)
  assert.equal(inspect(elsewhere).flaw, null)
  assertRefused({ ...elsewhere, chainId: DOMAIN.chainId }, /the recovered signer is 0x.*, not 0x/)
  const verifyingContract = `0x${'1'.repeat(40)}` as Address
  const other = await signedOrder(alice, {}, { ...DOMAIN, verifyingContract })
  assertRefused(other, /the recovered signer is 0x.*, not 0x/)
})

test('an order for a chain without a settlement contract is rejected without affecting other orders', async () => {
  const signed = await signedOrder(alice)
  for (const inspectOrders of engines) {
    const [unknown, known] = inspectOrders([{ ...signed, chainId: 5 }, signed])
    assert.ok(isRejection(unknown))
    assert.equal(unknown.rejected, 'INVALID_FIELD')
    assert.ok(isRejection(verifiedOrder({ ...signed, chainId: 5 }, unknown)))
    assert.ok(known !== undefined && !isRejection(known) && known.flaw === null)
  }
})

test('the results for a batch of signed orders are in the same sequence as the orders', async () => {
  const batch: SignedOrder[] = []
  for (let index = 1; index <= 40; index++) {
    const signed = await signedOrder(index % 3 === 0 ? bob : alice, { size: index as Shares })
    batch.push(index % 4 === 0 ? { ...signed, signature: '0x' } : signed)
  }
  for (const inspectOrders of engines) {
    const answers = inspectOrders(batch)
    assert.equal(answers.length, batch.length)
    for (const [index, answer] of answers.entries()) {
      assert.ok(!isRejection(answer))
      const expected: OrderHash = orderHash(batch[index]!.order, DOMAIN)
      assert.equal(answer.orderHash, expected)
      assert.equal(answer.flaw === null, (index + 1) % 4 !== 0)
    }
  }
})
