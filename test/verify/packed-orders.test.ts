import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VERIFY_BATCH_MAX } from '#domain/limits.ts'
import type { Price, Shares } from '#domain/money.ts'
import { makeOrderInspector, type SignedOrder } from '#verify/inspect-orders.ts'
import { loadKeccak, portableKeccak } from '#verify/keccak.ts'
import { makeOrderPacker, makePackedInspector, makePackedMemory } from '#verify/packed-orders.ts'
import { loadRecovery, wasmRecovery } from '#verify/recover.ts'
import { alice, bob, DOMAIN, OTHER_DOMAIN, signedOrder } from './signed-order.ts'

const domains = [DOMAIN, OTHER_DOMAIN]
const engines = [
  { recovery: await loadRecovery(), keccak: loadKeccak() },
  { recovery: await wasmRecovery(), keccak: portableKeccak },
]

/** Makes valid orders, and one for each kind of invalid order. */
async function someOrders(): Promise<SignedOrder[]> {
  const right = await signedOrder(alice)
  const { signature } = right
  const with_ = (text: string): SignedOrder => ({ ...right, signature: text })
  return [
    right,
    { ...right, chainId: OTHER_DOMAIN.chainId },
    { ...right, chainId: 5 },
    with_(''),
    with_(`0x${'1'.repeat(130)}`),
    with_(`0x${'0'.repeat(130)}`),
    with_(`0x${'f'.repeat(128)}1b`),
    with_(`${signature.slice(0, -2)}1d`),
    with_(`${signature.slice(0, -1)}\u0131`),
    with_(`0x${signature.slice(2).toUpperCase()}`),
    { ...right, order: { ...right.order, size: (right.order.size + 1) as Shares } },
    await signedOrder(bob, { trader: right.order.trader }),
    await signedOrder(bob, { size: 7 as Shares }),
    right,
  ]
}

test('inspecting orders through shared memory gives exactly the same results as inspecting order objects', async () => {
  const orders = await someOrders()
  for (const { recovery, keccak } of engines) {
    const memory = makePackedMemory(1)
    const inspectPacked = makePackedInspector({ memory, domains, recovery, keccak })
    const ask = makeOrderPacker({ memory, domains, run: async (packed) => inspectPacked(packed) })
    const expected = makeOrderInspector(domains, recovery, keccak)(orders)
    assert.deepEqual(await ask(orders), expected)
    // The second call reuses the memory for other orders. No data of the earlier orders may appear in its results.
    assert.deepEqual(await ask(orders.toReversed()), expected.toReversed())
  }
})

test('an order that cannot be hashed fails its batch, and the batch’s shared memory is released', async () => {
  const { recovery, keccak } = engines[0]!
  const memory = makePackedMemory(1)
  const inspectPacked = makePackedInspector({ memory, domains, recovery, keccak })
  const ask = makeOrderPacker({ memory, domains, run: async (packed) => inspectPacked(packed) })
  const right = await signedOrder(alice)
  const poison = { ...right, order: { ...right.order, price: -1 as Price } }
  for (let times = 0; times < 10; times++) await assert.rejects(ask([right, poison]), RangeError)
  const [answer] = await ask([right])
  assert.ok(answer !== undefined && 'flaw' in answer && answer.flaw === null)
})

test('batches in progress use separate parts of the shared memory', async () => {
  const { recovery, keccak } = engines[0]!
  const memory = makePackedMemory(1)
  const inspectPacked = makePackedInspector({ memory, domains, recovery, keccak })
  const begin: (() => void)[] = []
  const ask = makeOrderPacker({
    ...{ memory, domains },
    run: async (packed) => {
      await new Promise<void>((resolve) => begin.push(resolve))
      return inspectPacked(packed)
    },
  })
  const [one, other] = [await signedOrder(alice), await signedOrder(bob)]
  const asked = [ask([one, other]), ask([other])]
  await assert.rejects(ask([one]), /no free place for another batch/)
  await assert.rejects(
    ask(new Array(VERIFY_BATCH_MAX + 1).fill(one)),
    /the batch has too many orders/,
  )
  for (const go of begin.toReversed()) go()
  const inspect = makeOrderInspector(domains, recovery, keccak)
  assert.deepEqual(await Promise.all(asked), [inspect([one, other]), inspect([other])])
})
