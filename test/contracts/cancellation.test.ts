import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { Hex } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import {
  assertReverts,
  eventsOf,
  type Market,
  type Order,
  SETTINGS,
  type SignedOrder,
  startWorld,
  UNIT,
  type World,
  ZERO,
} from './support/world.ts'

const DELAY = SETTINGS.cancelDelaySeconds

let world: World
let market: Market
let restore: () => Promise<void>

before(async () => {
  world = await startWorld()
  market = await world.createMarket({ expiration: 4_000_000_000n })
  await world.fund(world.ann, { collateral: 1_000n * UNIT })
  await world.fund(world.bob, { shares: 1_000n * UNIT, market: market.id })
})
after(() => world.chain.close())
beforeEach(async () => {
  await restore?.()
  restore = await world.chain.snapshot()
})

/** Returns Ann's buy with this nonce, and a sell of Bob that matches it. */
async function pair(nonce: bigint): Promise<[SignedOrder, SignedOrder]> {
  const { ann, bob, buy, sell, chain } = world
  const terms = { price: 500_000n, size: 10n * UNIT, expiration: (await chain.now()) + 1_000_000n }
  return [
    await buy(ann, market.id, { ...terms, nonce }),
    await sell(bob, market.id, { ...terms, nonce: 10n ** 18n }),
  ]
}

/** Settles one share of the pair; returns the result as text. */
async function outcomeOf([buy, sell]: readonly [SignedOrder, SignedOrder]): Promise<string> {
  const verdict = await world.trade(buy, sell, { size: UNIT })
  return verdict.settled ? 'settled' : `${verdict.reason} (${verdict.fault})`
}

async function cancelAll(trader: PrivateKeyAccount, nonce: bigint) {
  const receipt = await world.chain.send(trader, world.settlement, 'cancelAllBefore', [nonce])
  return eventsOf(receipt, world.settlement)
}

describe('a trader can cancel orders on chain by a signature', () => {
  const submit = (args: readonly [Hex, Order[], bigint, number, Hex, Hex]) =>
    world.chain.send(world.relayer, world.settlement, 'cancelOrdersWithPermit', args)

  test('a signed cancellation voids the listed orders after the delay; submitting the cancellation again changes nothing', async () => {
    const { ann, chain, settlement, hashOrder, signCancellation } = world
    const orders = [await pair(1n), await pair(2n), await pair(3n)] as const
    const cancelled = [orders[0][0].order, orders[1][0].order]
    const signed = await signCancellation(ann, cancelled, {
      deadline: (await chain.now()) + 50_000n,
    })
    const receipt = await submit(signed)
    const effectiveAt = (await chain.now()) + DELAY
    assert.deepEqual(
      eventsOf(receipt, settlement),
      cancelled.map((order) => ({
        eventName: 'OrderCancelled',
        args: { orderHash: hashOrder(order), trader: ann.address, effectiveAt },
      })),
    )
    assert.equal(await outcomeOf(orders[0]), 'settled')
    await chain.warpTo(effectiveAt)
    assert.equal(await outcomeOf(orders[0]), 'OrderCancelled (Buyer)')
    assert.equal(await outcomeOf(orders[1]), 'OrderCancelled (Buyer)')
    assert.equal(await outcomeOf(orders[2]), 'settled')
    assert.deepEqual(eventsOf(await submit(signed), settlement), [])
  })

  test('a signed cancellation is refused if expired, changed, or made for another trader’s order, chain or contract', async () => {
    const { ann, bob, chain, signCancellation, hashOrder } = world
    const [[buy, sell], [other]] = [await pair(1n), await pair(2n)]
    const good = await signCancellation(ann, [buy.order])
    const [trader, orders, deadline, v, r, s] = good
    const foreign = [
      [trader, [other.order], deadline, v, r, s],
      [trader, [buy.order, other.order], deadline, v, r, s],
      [trader, [], deadline, v, r, s],
      [trader, orders, deadline + 1n, v, r, s],
      [trader, orders, deadline, 29, r, s],
      [ZERO, [], deadline, 29, r, s],
      [bob.address, [sell.order], deadline, v, r, s],
      await signCancellation(ann, [buy.order], { chainId: 1 }),
      await signCancellation(ann, [buy.order], { contract: bob.address }),
    ] as const
    for (const args of foreign) await assertReverts(submit(args as never), 'PermitSignerMismatch')
    await assertReverts(submit(await signCancellation(ann, [sell.order])), 'NotTrader', [
      hashOrder(sell.order),
    ])
    const late = (await chain.now()) - 1n
    const expired = await signCancellation(ann, [buy.order], { deadline: late })
    await assertReverts(submit(expired), 'PermitExpired', [late])
    await submit(good)
  })
})

describe('a trader can cancel all orders below a nonce on chain', () => {
  test('after the delay, a nonce limit voids exactly its trader’s orders with lower nonces', async () => {
    const { ann, chain, settlement, read } = world
    const [below, at] = [await pair(99n), await pair(100n)]
    const events = await cancelAll(ann, 100n)
    const effectiveAt = (await chain.now()) + DELAY
    assert.deepEqual(events, [
      {
        eventName: 'AllOrdersCancelled',
        args: { trader: ann.address, beforeNonce: 100n, effectiveAt },
      },
    ])
    assert.deepEqual(await read(settlement, 'epochOf', [ann.address]), [0n, 100n, effectiveAt])
    await chain.warpTo(effectiveAt - 2n)
    assert.equal(await outcomeOf(below), 'settled')
    assert.equal(await outcomeOf(below), 'OrderCancelled (Buyer)')
    assert.equal(await outcomeOf(at), 'settled')
    const later = await pair(98n)
    assert.equal(await outcomeOf(later), 'OrderCancelled (Buyer)')
  })

  test('a nonce limit voids only orders of the trader who set it, not the counterparty’s', async () => {
    const { ann, bob, chain } = world
    await cancelAll(bob, 5n)
    await chain.warp(DELAY)
    assert.equal(await outcomeOf(await pair(1n)), 'settled')
    await cancelAll(bob, 2n ** 64n - 1n)
    await cancelAll(ann, 2n)
    await chain.warp(DELAY)
    assert.equal(await outcomeOf(await pair(1n)), 'OrderCancelled (Both)')
    assert.equal(await outcomeOf(await pair(2n)), 'OrderCancelled (Seller)')
  })

  test('a nonce limit never decreases, and cannot be raised before an earlier limit has taken effect', async () => {
    const { ann, chain, settlement, read } = world
    await cancelAll(ann, 10n)
    const first = (await chain.now()) + DELAY
    assert.deepEqual(await cancelAll(ann, 10n), [])
    assert.deepEqual(await cancelAll(ann, 3n), [])
    await assertReverts(cancelAll(ann, 20n), 'EpochPending', [first])
    await chain.warpTo(first)
    assert.equal(await outcomeOf(await pair(9n)), 'OrderCancelled (Buyer)')
    await cancelAll(ann, 20n)
    const second = (await chain.now()) + DELAY
    assert.deepEqual(await read(settlement, 'epochOf', [ann.address]), [10n, 20n, second])
    assert.equal(await outcomeOf(await pair(9n)), 'OrderCancelled (Buyer)')
    assert.equal(await outcomeOf(await pair(19n)), 'settled')
    await chain.warpTo(second)
    assert.equal(await outcomeOf(await pair(19n)), 'OrderCancelled (Buyer)')
    assert.equal(await outcomeOf(await pair(20n)), 'settled')
  })

  test('any account may submit a nonce limit that the trader signed', async () => {
    const { ann, bob, relayer, chain, settlement, signEpoch } = world
    const submit = (args: readonly [Hex, bigint, bigint, number, Hex, Hex]) =>
      chain.send(relayer, settlement, 'cancelAllBeforeWithPermit', args)
    const good = await signEpoch(ann, 50n)
    const [trader, nonce, deadline, v, r, s] = good
    const foreign = [
      [trader, nonce + 1n, deadline, v, r, s],
      [trader, nonce, deadline + 1n, v, r, s],
      [trader, nonce, deadline, 29, r, s],
      [ZERO, nonce, deadline, 29, r, s],
      [bob.address, nonce, deadline, v, r, s],
      await signEpoch(ann, 50n, { chainId: 1 }),
      await signEpoch(ann, 50n, { contract: bob.address }),
    ] as const
    for (const args of foreign) await assertReverts(submit(args as never), 'PermitSignerMismatch')
    const late = (await chain.now()) - 1n
    await assertReverts(submit(await signEpoch(ann, 50n, { deadline: late })), 'PermitExpired', [
      late,
    ])
    const receipt = await submit(good)
    assert.equal(eventsOf(receipt, settlement)[0]?.eventName, 'AllOrdersCancelled')
    assert.deepEqual(eventsOf(await submit(good), settlement), [])
    await chain.warp(DELAY)
    assert.equal(await outcomeOf(await pair(49n)), 'OrderCancelled (Buyer)')
  })

  test('a trader can set a nonce limit while settlement is paused', async () => {
    const { owner, ann, chain, settlement } = world
    await chain.send(owner, settlement, 'pause', [])
    assert.equal((await cancelAll(ann, 7n)).length, 1)
  })
})
