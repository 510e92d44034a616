import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseSignature, toHex } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import type { Address, Uint64, Uint256 } from '#domain/ids.ts'
import type { PermitSignature } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import { PERMIT_TYPES, stablecoinDomain } from '#domain/typed-data.ts'
import { makeOrderInspector, type SignedOrder, verifiedOrder } from '#verify/inspect-orders.ts'
import { loadKeccak, portableKeccak } from '#verify/keccak.ts'
import { makeOrderPacker, makePackedInspector, makePackedMemory } from '#verify/packed-orders.ts'
import { loadRecovery, wasmRecovery } from '#verify/recover.ts'
import { addressOf, alice, bob, CURVE_ORDER, DOMAIN, signedOrder } from './signed-order.ts'

const engines = [
  makeOrderInspector([DOMAIN], await loadRecovery(), loadKeccak()),
  makeOrderInspector([DOMAIN], await wasmRecovery(), portableKeccak),
]

type Terms = { spender: Address; value: bigint; nonce: bigint; deadline: bigint; owner: Address }

async function permitOf(
  signer: PrivateKeyAccount,
  terms: Partial<Terms> = {},
  domain = DOMAIN,
): Promise<PermitSignature> {
  const signed = {
    owner: addressOf(signer),
    spender: domain.verifyingContract,
    value: 2n ** 256n - 1n,
    nonce: 7n,
    deadline: 1_900_000_000n,
    ...terms,
  }
  const signature = await signer.signTypedData({
    domain: stablecoinDomain(domain.chainId, domain.stablecoin),
    types: PERMIT_TYPES,
    primaryType: 'Permit',
    message: { ...signed, owner: hexOf(signed.owner), spender: hexOf(signed.spender) },
  })
  const { r, s, yParity } = parseSignature(signature)
  return {
    nonce: String(signed.nonce) as Uint64,
    value: String(signed.value) as Uint256,
    deadline: String(signed.deadline) as Uint64,
    v: yParity === 0 ? 27 : 28,
    r,
    s,
  }
}

const hexOf = (address: Address) => address as string as `0x${string}`

/** Returns the fault that both engines find in the permit of this order. */
function flawOf(signed: SignedOrder): string | undefined {
  const [fast, fallback] = engines.map((inspect) => inspect([signed])[0]!)
  assert.deepEqual(fast, fallback)
  assert.ok(fast !== undefined && !isRejection(fast))
  assert.equal(fast.flaw, null)
  return fast.permitFlaw
}

test('a permit that the trader signed for the settlement contract is returned with the verified order', async () => {
  const signed = { ...(await signedOrder(alice)), permit: await permitOf(alice) }
  assert.equal(flawOf(signed), undefined)
  const [inspection] = engines[0]!([signed])
  const order = verifiedOrder(signed, inspection!)
  assert.ok(!isRejection(order))
  assert.deepEqual(order.permit, signed.permit)
})

test('a permit of another account is refused with the recovered and the expected address', async () => {
  const permit = await permitOf(bob)
  const signed = { ...(await signedOrder(alice)), permit }
  const words = flawOf(signed) ?? ''
  assert.match(
    words,
    /the recovered signer is 0x[0-9a-fA-F]{40}, not 0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf/,
  )
  assert.match(words, /and the spender 0x5FbDB2315678afecb367f032d93F642f64180aa3/)
  const [inspection] = engines[0]!([signed])
  const answer = verifiedOrder(signed, inspection!)
  assert.ok(isRejection(answer))
  assert.deepEqual([answer.rejected, answer.field], ['INVALID_PERMIT', 'permitSignature'])
})

test('a permit is refused if any of its terms differs from the signed terms', async () => {
  const order = await signedOrder(alice)
  const good = await permitOf(alice)
  const stranger = `0x${'9'.repeat(40)}` as Address
  const token = { ...DOMAIN.stablecoin, domainVersion: '2' }
  for (const permit of [
    { ...(await permitOf(alice, { spender: stranger })) },
    { ...(await permitOf(alice, { owner: stranger })) },
    { ...(await permitOf(alice, {}, { ...DOMAIN, chainId: 1 })) },
    { ...(await permitOf(alice, {}, { ...DOMAIN, stablecoin: token })) },
    { ...good, value: '1' as Uint256 },
    { ...good, nonce: '8' as Uint64 },
    { ...good, deadline: '1900000001' as Uint64 },
    { ...good, v: good.v === 27 ? (28 as const) : (27 as const) },
    { ...good, r: `0x${'1'.repeat(64)}` },
    { ...good, s: `0x${'1'.repeat(64)}` },
  ]) {
    assert.match(
      flawOf({ ...order, permit }) ?? 'no flaw',
      /permitSignature must be signed by the trader/,
    )
  }
})

test('a permit signature whose s exceeds half the curve order is refused, as by the token contract', async () => {
  const good = await permitOf(alice)
  const s = toHex(CURVE_ORDER - BigInt(good.s), { size: 32 })
  const permit: PermitSignature = { ...good, s, v: good.v === 27 ? 28 : 27 }
  const signed = { ...(await signedOrder(alice)), permit }
  assert.match(flawOf(signed) ?? 'no flaw', /s must be in the lower half of its range/)
})

test('orders without permit, with a valid permit and with a wrong permit can share one batch', async () => {
  const memory = makePackedMemory(1)
  const recovery = await loadRecovery()
  const shared = { memory, domains: [DOMAIN] }
  const inspect = makePackedInspector({ ...shared, recovery, keccak: loadKeccak() })
  const ask = makeOrderPacker({ ...shared, run: async (packed) => inspect(packed) })
  const plain = await signedOrder(alice)
  const answers = await ask([
    plain,
    { ...plain, permit: await permitOf(alice) },
    { ...plain, permit: await permitOf(bob) },
  ])
  const flaws = answers.map((answer) => !isRejection(answer) && answer.permitFlaw === undefined)
  assert.deepEqual(flaws, [true, true, false])
})
