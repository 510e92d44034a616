import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { type Hex, keccak256, stringToHex } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { SET_DELEGATE_TYPES, typeString } from '#domain/typed-data.ts'
import {
  assertReverts,
  eventsOf,
  MAX_UINT256,
  type Market,
  type Order,
  SETTINGS,
  type SignedOrder,
  startWorld,
  UNIT,
  UNLIMITED,
  type World,
  YES,
  ZERO,
  ZERO_BYTES32,
} from './support/world.ts'

const { settlementGraceSeconds: GRACE, cancelDelaySeconds: DELAY } = SETTINGS
const DAY = 86_400n
const PRICE = 500_000n

let world: World
let market: Market
/** The delegate's account has no funds, because the delegate only signs. */
let bot: PrivateKeyAccount
let restore: () => Promise<void>

before(async () => {
  world = await startWorld()
  market = await world.createMarket({ expiration: 4_000_000_000n })
  await world.fund(world.ann, { collateral: 1_000n * UNIT, shares: 100n * UNIT, market: market.id })
  await world.fund(world.bob, { shares: 1_000n * UNIT, market: market.id })
  bot = world.chain.account(15)
})
after(() => world.chain.close())
beforeEach(async () => {
  await restore?.()
  restore = await world.chain.snapshot()
})

async function appoint(until: bigint, limits = UNLIMITED, by = world.ann) {
  const { chain, delegates } = world
  return chain.send(by, delegates, 'setDelegate', [bot.address, until, limits])
}

/** Returns Ann's buy of 10 shares, signed by `signer`, and a matching sell by Bob. */
async function pair(
  signer: PrivateKeyAccount,
  terms: Partial<Order> = {},
): Promise<[SignedOrder, SignedOrder]> {
  const { ann, bob, buy, sell, chain } = world
  const both = { price: PRICE, size: 10n * UNIT, expiration: (await chain.now()) + 90n * DAY }
  return [
    await buy(signer, market.id, { ...both, trader: ann.address, ...terms }),
    await sell(bob, market.id, both),
  ]
}

async function outcomeOf([buy, sell]: readonly [SignedOrder, SignedOrder]): Promise<string> {
  const verdict = await world.trade(buy, sell, { size: UNIT })
  return verdict.settled ? 'settled' : `${verdict.reason} (${verdict.fault})`
}

describe('an account can appoint a delegate', () => {
  test('a delegate’s orders settle for the account until the delegation and its grace period end', async () => {
    const { ann, chain, delegates, shares, balance } = world
    const until = (await chain.now()) + 10n * DAY
    const limits = { maxOrderSize: 5n * UNIT, maxOpenNotional: 7n * UNIT, markets: [market.id] }
    const receipt = await appoint(until, limits)
    assert.deepEqual(eventsOf(receipt, delegates), [
      {
        eventName: 'DelegateSet',
        args: {
          account: ann.address,
          delegate: bot.address,
          ...{ until, settlesUntil: until + GRACE, ...limits },
        },
      },
    ])
    const orders = await pair(bot)
    const before = await shares(ann.address, market.id, YES)
    assert.equal(await outcomeOf(orders), 'settled')
    assert.equal((await shares(ann.address, market.id, YES)) - before, UNIT)
    assert.equal(await balance(bot.address), 0n)
    await chain.warpTo(until + GRACE - 1n)
    assert.equal(await outcomeOf(orders), 'settled')
    assert.equal(await outcomeOf(orders), 'InvalidSignature (Buyer)')
  })

  test('orders signed by a key that the account never appointed, or by another account’s delegate, are refused', async () => {
    const { chain } = world
    assert.equal(await outcomeOf(await pair(bot)), 'InvalidSignature (Buyer)')
    await appoint((await chain.now()) + DAY, UNLIMITED, world.carol)
    assert.equal(await outcomeOf(await pair(bot)), 'InvalidSignature (Buyer)')
  })

  test('after a delegate is revoked, its matched orders still settle during the cancellation delay', async () => {
    const { chain, delegates, ann, read } = world
    await appoint((await chain.now()) + 30n * DAY)
    const orders = await pair(bot)
    const [event] = eventsOf(await appoint(0n), delegates)
    const effectiveAt = (await chain.now()) + DELAY
    assert.deepEqual(event?.args, {
      ...{ account: ann.address, delegate: bot.address, until: 0n, settlesUntil: effectiveAt },
      ...UNLIMITED,
    })
    assert.equal(await read(delegates, 'settlesUntil', [ann.address, bot.address]), effectiveAt)
    await chain.warpTo(effectiveAt - 1n)
    assert.equal(await outcomeOf(orders), 'settled')
    assert.equal(await outcomeOf(orders), 'InvalidSignature (Buyer)')
  })

  test('a second revocation of a delegate does not delay the effect of the first one', async () => {
    const { chain, delegates, ann, read } = world
    await appoint((await chain.now()) + 30n * DAY)
    await appoint(0n)
    const effectiveAt = await read(delegates, 'settlesUntil', [ann.address, bot.address])
    await chain.warp(DELAY / 2n)
    await appoint(0n)
    assert.equal(await read(delegates, 'settlesUntil', [ann.address, bot.address]), effectiveAt)
  })

  test('a delegation can be extended immediately, but cannot be shortened to less than the cancellation delay', async () => {
    const { chain, delegates, ann, read } = world
    const ends = () => read(delegates, 'settlesUntil', [ann.address, bot.address])
    const now = await chain.now()
    await appoint(now + DAY)
    await appoint(now + 5n * DAY)
    assert.equal(await ends(), now + 5n * DAY + GRACE)
    await appoint(now + 2n * DAY)
    assert.equal(await ends(), now + 2n * DAY + GRACE)
    await appoint(now + 60n)
    assert.equal(await ends(), (await chain.now()) + DELAY)
    await appoint(2n ** 64n - 1n)
    assert.equal(await ends(), 2n ** 64n - 1n)
  })

  test('a delegate can be neither the zero address nor the account itself, and has at most 32 markets', async () => {
    const { chain, delegates, ann, read } = world
    const until = (await chain.now()) + DAY
    for (const delegate of [ZERO, ann.address]) {
      await assertReverts(
        chain.send(ann, delegates, 'setDelegate', [delegate, until, UNLIMITED]),
        'InvalidDelegate',
      )
    }
    const max = Number(await read(delegates, 'MARKETS_MAX', []))
    const markets = Array.from({ length: max + 1 }, () => market.id)
    await assertReverts(appoint(until, { ...UNLIMITED, markets }), 'TooManyMarkets')
    await appoint(until, { ...UNLIMITED, markets: markets.slice(1) })
  })

  test('a delegate can cancel single orders by a signature, but cannot cancel all orders of the account at once', async () => {
    const { ann, chain, settlement, relayer, signCancellation, signEpoch } = world
    await appoint((await chain.now()) + DAY)
    const orders = await pair(ann)
    const cancellation = await signCancellation(bot, [orders[0].order], { trader: ann.address })
    await chain.send(relayer, settlement, 'cancelOrdersWithPermit', cancellation)
    await chain.warp(DELAY)
    assert.equal(await outcomeOf(orders), 'OrderCancelled (Buyer)')
    const all = await signEpoch(bot, 2n ** 64n - 1n, { trader: ann.address })
    await assertReverts(
      chain.send(relayer, settlement, 'cancelAllBeforeWithPermit', all),
      'PermitSignerMismatch',
      [bot.address, ann.address],
    )
  })

  test('a revoked delegate cannot cancel orders, but matched orders with its signature still settle', async () => {
    const { ann, chain, settlement, relayer, signCancellation } = world
    await appoint((await chain.now()) + DAY)
    const [matched, own] = [await pair(bot), await pair(ann)]
    const cancellation = await signCancellation(bot, [own[0].order], { trader: ann.address })
    await appoint(0n)
    await assertReverts(
      chain.send(relayer, settlement, 'cancelOrdersWithPermit', cancellation),
      'PermitSignerMismatch',
      [bot.address, ann.address],
    )
    assert.equal(await outcomeOf(matched), 'settled')
    assert.equal(await outcomeOf(own), 'settled')
  })

  test('if an account cancels all orders below a nonce, its delegates’ orders with lower nonces do not settle', async () => {
    const { ann, chain, settlement } = world
    await appoint((await chain.now()) + 30n * DAY)
    const orders = await pair(bot, { nonce: 5n })
    await chain.send(ann, settlement, 'cancelAllBefore', [6n])
    await chain.warp(DELAY)
    assert.equal(await outcomeOf(orders), 'OrderCancelled (Buyer)')
  })
})

describe('an account can appoint a delegate by a signature', () => {
  const submit = (args: Awaited<ReturnType<World['signDelegation']>>) =>
    world.chain.send(world.relayer, world.delegates, 'setDelegateWithPermit', args)

  test('the contract’s type hash of a signed delegation equals the hash of the published type', async () => {
    const hash = keccak256(stringToHex(typeString('SetDelegate', SET_DELEGATE_TYPES)))
    assert.equal(await world.read(world.delegates, 'SET_DELEGATE_TYPEHASH', []), hash)
  })

  test('any account can submit a signed delegation, but only once', async () => {
    const { ann, chain, signDelegation } = world
    const limits = { maxOrderSize: 1n, maxOpenNotional: 2n, markets: [market.id, ZERO_BYTES32] }
    const signed = await signDelegation(ann, bot.address, (await chain.now()) + DAY, { limits })
    await submit(signed)
    assert.equal(await outcomeOf(await pair(bot)), 'settled')
    await assertReverts(submit(signed), 'PermitNotSigned', [ann.address])
  })

  test('after a direct revocation, an older signed delegation that was never submitted is refused', async () => {
    const { ann, chain, signDelegation } = world
    const signed = await signDelegation(ann, bot.address, (await chain.now()) + DAY)
    await appoint(0n)
    await assertReverts(submit(signed), 'PermitNotSigned')
  })

  test('a signed delegation is refused if it is expired, changed, or made for another chain or contract', async () => {
    const { ann, chain, settlement, signDelegation } = world
    const until = (await chain.now()) + DAY
    const sign = (overrides: Parameters<typeof signDelegation>[3]) =>
      signDelegation(ann, bot.address, until, overrides)
    await assertReverts(submit(await sign({ deadline: 1n })), 'PermitExpired', [1n])
    for (const foreign of [{ chainId: 1 }, { contract: settlement.address }, { nonce: 1n }]) {
      await assertReverts(submit(await sign(foreign)), 'PermitNotSigned')
    }
    const [account, delegate, end, limits, ...rest] = await sign({})
    const wider = { ...limits, markets: [market.id] }
    await assertReverts(submit([account, delegate, end, wider, ...rest]), 'PermitNotSigned')
  })
})

describe('a thief of a delegate’s key can do only limited harm', () => {
  beforeEach(async () => {
    await appoint((await world.chain.now()) + 30n * DAY)
    await world.chain.send(world.owner, world.collateral, 'mint', [bot.address, UNIT])
  })

  test('the thief of a delegate’s key can trade the account’s money at any price', async () => {
    const { ann, bob, buy, sell, chain, balance } = world
    const expiration = (await chain.now()) + DAY
    const dear = { price: 999_999n, size: UNIT, expiration }
    const orders = [
      await buy(bot, market.id, { ...dear, trader: ann.address }),
      await sell(bob, market.id, dear),
    ] as const
    const before = await balance(bob.address)
    assert.equal(await outcomeOf(orders), 'settled')
    assert.equal((await balance(bob.address)) - before, 999_999n)
  })

  test('the thief of a delegate’s key can neither move, approve, split, merge nor redeem the account’s money', async () => {
    const { ann, chain, collateral, conditionalTokens, settlement, positionId } = world
    const { signApproval, signRedemption } = world
    const id = await positionId(market.id, YES)
    const thief = bot.address as Hex
    await assert.rejects(chain.send(bot, collateral, 'transferFrom', [ann.address, thief, 1n]))
    await assert.rejects(
      chain.send(bot, conditionalTokens, 'safeTransferFrom', [ann.address, thief, id, 1n, '0x']),
    )
    const approval = await signApproval(bot, thief, true, { nonce: 0n })
    await assert.rejects(
      chain.send(bot, conditionalTokens, 'setApprovalForAllWithPermit', [
        ...([ann.address, thief, true, approval.deadline] as const),
        ...([approval.v, approval.r, approval.s] as const),
      ]),
    )
    const [, ...redemption] = await signRedemption(bot, market.id)
    await assert.rejects(
      chain.send(bot, conditionalTokens, 'redeemPositionsWithPermit', [ann.address, ...redemption]),
    )
    const permit = await world.usdcPermit(bot, thief, MAX_UINT256)
    await assert.rejects(
      chain.send(bot, collateral, 'permit', [
        ...([ann.address, thief, permit.value, permit.deadline] as const),
        ...([permit.v, permit.r, permit.s] as const),
      ]),
    )
    assert.equal(await world.balance(thief), UNIT)
    assert.equal(await world.balance(settlement.address), 0n)
  })

  test('the thief of a delegate’s key can neither appoint delegates nor extend the delegation', async () => {
    const { ann, carol, chain, delegates, relayer, signDelegation, read } = world
    const until = (await chain.now()) + 60n * DAY
    for (const key of [carol.address, bot.address]) {
      const signed = await signDelegation(bot, key, until, { account: ann.address })
      await assertReverts(
        chain.send(relayer, delegates, 'setDelegateWithPermit', signed),
        'PermitNotSigned',
        [ann.address],
      )
    }
    await chain.send(bot, delegates, 'setDelegate', [carol.address, until, UNLIMITED])
    assert.equal(await read(delegates, 'settlesUntil', [ann.address, carol.address]), 0n)
  })

  test('the thief of a delegate’s key cannot set a nonce limit for the account', async () => {
    const { ann, chain, settlement, signEpoch } = world
    const all = await signEpoch(bot, 2n ** 64n - 1n, { trader: ann.address })
    await assertReverts(
      chain.send(bot, settlement, 'cancelAllBeforeWithPermit', all),
      'PermitSignerMismatch',
    )
  })

  test('the thief of a delegate’s key is stopped by revoking the delegate or by cancelling all orders', async () => {
    const { ann, chain, settlement } = world
    const first = await pair(bot, { nonce: 1n })
    const second = await pair(bot, { nonce: 9n })
    await chain.send(ann, settlement, 'cancelAllBefore', [5n])
    await appoint(0n)
    await chain.warp(DELAY)
    assert.equal(await outcomeOf(first), 'InvalidSignature (Buyer)')
    assert.equal(await outcomeOf(second), 'InvalidSignature (Buyer)')
  })
})
