import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import fc from 'fast-check'
import {
  type BaseError,
  decodeFunctionResult,
  encodeAbiParameters,
  encodeFunctionData,
  getAddress,
  type Hex,
  keccak256,
  stringToHex,
  toFunctionSelector,
} from 'viem'
import { ours } from '#devnet/artifact.ts'
import { costCeil, isPrice, isShares, PRICE_MAX, PRICE_MIN, SIZE_MAX } from '#domain/money.ts'
import {
  CANCEL_ALL_BEFORE_TYPES,
  CANCEL_ORDERS_TYPES,
  ORDER_TYPES,
  typeString,
} from '#domain/typed-data.ts'
import {
  assertReverts,
  compact,
  eventsOf,
  FAULTS,
  type Fault,
  type Fill,
  type Market,
  NO,
  REASONS,
  type Reason,
  SETTINGS,
  type SignedOrder,
  startWorld,
  UNIT,
  type World,
  YES,
  ZERO,
} from './support/world.ts'

const STAKE = 1_000n * UNIT

let world: World
let market: Market
let restore: () => Promise<void>

before(async () => {
  world = await startWorld()
  market = await world.createMarket()
  await world.fund(world.ann, { collateral: STAKE })
  await world.fund(world.bob, { shares: STAKE, market: market.id })
})
after(() => world.chain.close())
beforeEach(async () => {
  await restore?.()
  restore = await world.chain.snapshot()
})

/** Makes Ann's buy and Bob's sell of 10 YES, which cross at 0.55. */
async function crossing(): Promise<[SignedOrder, SignedOrder]> {
  const { ann, bob, buy, sell } = world
  return [
    await buy(ann, market.id, { price: 600_000n, size: 10n * UNIT }),
    await sell(bob, market.id, { price: 550_000n, size: 10n * UNIT }),
  ]
}

const fillOf = (terms: Partial<Fill> = {}): Fill => ({
  buy: 0,
  sell: 1,
  seq: 1n,
  fillIndex: 0,
  price: 550_000n,
  size: 10n * UNIT,
  ...terms,
})

async function assertHoldsNothing(): Promise<void> {
  const { settlement, balance, shares } = world
  assert.equal(await balance(settlement.address), 0n)
  assert.equal(await shares(settlement.address, market.id, YES), 0n)
  assert.equal(await shares(settlement.address, market.id, NO), 0n)
}

describe('the settlement contract settles fills', () => {
  test('a fill moves the cost to the seller and the shares to the buyer, and nothing else', async () => {
    const { ann, bob, balance, shares, settlement, chain, owner, hashOrder, read } = world
    const [buyOrder, sellOrder] = await crossing()
    const receipt = await chain.send(owner, settlement, 'settle', [
      [buyOrder, sellOrder],
      [fillOf({ size: 4n * UNIT })],
      [],
    ])

    assert.equal(await balance(ann.address), STAKE - 2_200_000n)
    assert.equal(await balance(bob.address), 2_200_000n)
    assert.equal(await shares(ann.address, market.id, YES), 4n * UNIT)
    assert.equal(await shares(bob.address, market.id, YES), STAKE - 4n * UNIT)
    assert.equal(await shares(bob.address, market.id, NO), STAKE)
    await assertHoldsNothing()

    const buyHash = hashOrder(buyOrder.order)
    const sellHash = hashOrder(sellOrder.order)
    const tradeId = keccak256(
      encodeAbiParameters(
        [
          { type: 'uint256' },
          { type: 'address' },
          { type: 'bytes32' },
          { type: 'uint64' },
          { type: 'uint32' },
          { type: 'bytes32' },
          { type: 'bytes32' },
          { type: 'uint64' },
          { type: 'uint64' },
        ],
        [
          BigInt(chain.id),
          settlement.address,
          market.id,
          1n,
          0,
          buyHash,
          sellHash,
          550_000n,
          4n * UNIT,
        ],
      ),
    )
    assert.deepEqual(eventsOf(receipt, settlement), [
      {
        eventName: 'TradeSettled',
        args: {
          tradeId,
          buyer: ann.address,
          seller: bob.address,
          marketId: market.id,
          buyHash,
          sellHash,
          outcome: YES,
          price: 550_000n,
          size: 4n * UNIT,
          cost: 2_200_000n,
        },
      },
    ])
    assert.equal(await read(settlement, 'isSettled', [tradeId, buyHash, sellHash]), true)
    assert.deepEqual(await read(settlement, 'orderState', [buyHash]), [4n * UNIT, 0n])
    assert.deepEqual(await read(settlement, 'orderState', [sellHash]), [4n * UNIT, 0n])
    assert.equal(
      await read(settlement, 'tradeIdOf', [
        market.id,
        1n,
        0,
        buyHash,
        sellHash,
        550_000n,
        4n * UNIT,
      ]),
      tradeId,
    )
  })

  test('the contract computes the same cost of a fill as the exchange, for extreme and random values', async () => {
    const { settlement, multicall, chain } = world
    const sample = fc.sample(
      fc.tuple(fc.integer({ min: PRICE_MIN, max: PRICE_MAX }), fc.maxSafeNat()),
      { numRuns: 1_000, seed: 7 },
    )
    const cases = [
      [PRICE_MIN, 1],
      [PRICE_MIN, SIZE_MAX],
      [PRICE_MAX, 1],
      [PRICE_MAX, SIZE_MAX],
      [500_000, 1],
      [1, 1_000_000],
      [1, 1_000_001],
      [333_333, 3],
      ...sample,
    ] as const
    const fits = cases.filter(([price, size]) => isPrice(price) && isShares(size))
    const { result } = await chain.publicClient.simulateContract({
      ...multicall,
      functionName: 'aggregate3',
      args: [
        fits.map(([price, size]) => ({
          target: settlement.address,
          allowFailure: false,
          callData: encodeFunctionData({
            abi: settlement.abi,
            functionName: 'costOf',
            args: [BigInt(price), BigInt(size)],
          }),
        })),
      ],
    })
    assert.ok(fits.length > 900)
    fits.forEach(([price, size], index) => {
      assert.ok(isPrice(price) && isShares(size))
      const onChain = decodeFunctionResult({
        abi: settlement.abi,
        functionName: 'costOf',
        data: result[index]!.returnData,
      })
      assert.equal(onChain, BigInt(costCeil(price, size)), `${price} × ${size}`)
    })
  })

  test('if two orders for NO match, the buyer receives NO shares and no YES shares', async () => {
    const { ann, bob, buy, sell, trade, shares } = world
    const no = { price: 400_000n, size: UNIT, outcome: NO }
    const verdict = await trade(await buy(ann, market.id, no), await sell(bob, market.id, no))
    assert.equal(verdict.settled, true)
    assert.equal(await shares(ann.address, market.id, NO), UNIT)
    assert.equal(await shares(ann.address, market.id, YES), 0n)
  })

  test('a fill between two orders of one trader leaves the trader’s balances unchanged', async () => {
    const { bob, buy, sell, trade, fund, balance, shares } = world
    await fund(bob, { collateral: STAKE })
    const verdict = await trade(
      await buy(bob, market.id, { price: 600_000n, size: UNIT }),
      await sell(bob, market.id, { price: 500_000n, size: UNIT }),
    )
    assert.equal(verdict.settled, true)
    assert.equal(await balance(bob.address), STAKE)
    assert.equal(await shares(bob.address, market.id, YES), STAKE)
  })

  test('many partial fills never exceed the size of an order', async () => {
    const { ann, bob, buy, sell, settle, read, settlement, hashOrder } = world
    const buyOrder = await buy(ann, market.id, { price: 600_000n, size: 10n })
    const sellOrder = await sell(bob, market.id, { price: 500_000n, size: 1_000n })
    const fills = Array.from({ length: 8 }, (_, index) =>
      fillOf({ seq: 9n, fillIndex: index, size: 3n }),
    )
    const verdicts = await settle([buyOrder, sellOrder], fills)
    assert.deepEqual(
      verdicts.map((verdict) => (verdict.settled ? 'settled' : verdict.reason)),
      ['settled', 'settled', 'settled', ...Array(5).fill('OrderOverfilled')],
    )
    assert.ok(verdicts.every((verdict) => verdict.settled || verdict.fault === 'Buyer'))
    const [beyond, last] = await settle(
      [buyOrder, sellOrder],
      [fillOf({ seq: 10n, size: 2n }), fillOf({ seq: 11n, size: 1n })],
    )
    assert.equal(beyond?.settled === false && beyond.reason, 'OrderOverfilled')
    assert.equal(last?.settled, true)
    assert.deepEqual(await read(settlement, 'orderState', [hashOrder(buyOrder.order)]), [10n, 0n])
  })
})

describe('the settlement contract rejects an invalid fill without affecting other fills', () => {
  type Case = {
    name: string
    fault: Fault
    reason: Reason
    buy?: object
    sell?: object
    fill?: Partial<Fill>
    prepare?: () => Promise<unknown>
  }
  const other: Hex = `0x${'11'.repeat(32)}`
  const approveCollateral = (amount: bigint) => () =>
    world.chain.send(world.ann, world.collateral, 'approve', [world.settlement.address, amount])
  const approveShares = (approved: boolean) => () =>
    world.chain.send(world.bob, world.conditionalTokens, 'setApprovalForAll', [
      world.settlement.address,
      approved,
    ])
  const cases: Case[] = [
    { name: 'two buy orders', fault: 'None', reason: 'WrongSide', sell: { side: 0 } },
    { name: 'two sell orders', fault: 'None', reason: 'WrongSide', buy: { side: 1 } },
    { name: 'a side that does not exist', fault: 'None', reason: 'WrongSide', buy: { side: 2 } },
    {
      name: 'orders for two markets',
      fault: 'None',
      reason: 'MarketMismatch',
      sell: { marketId: other },
    },
    {
      name: 'orders for two outcomes',
      fault: 'None',
      reason: 'OutcomeMismatch',
      sell: { outcome: NO },
    },
    {
      name: 'an outcome that does not exist',
      fault: 'None',
      reason: 'OutcomeMismatch',
      buy: { outcome: 2 },
      sell: { outcome: 2 },
    },
    { name: 'a size of zero', fault: 'None', reason: 'SizeZero', fill: { size: 0n } },
    {
      name: 'a price of zero',
      fault: 'None',
      reason: 'PriceOutOfRange',
      sell: { price: 0n },
      fill: { price: 0n },
    },
    {
      name: 'a price of one',
      fault: 'None',
      reason: 'PriceOutOfRange',
      buy: { price: 1_000_000n },
      fill: { price: 1_000_000n },
    },
    {
      name: 'a price above the buyer’s limit',
      fault: 'None',
      reason: 'PriceAboveBuyLimit',
      fill: { price: 600_001n },
    },
    {
      name: 'a price below the seller’s limit',
      fault: 'None',
      reason: 'PriceBelowSellLimit',
      fill: { price: 549_999n },
    },
    {
      name: 'a fee recipient in the buy order',
      fault: 'Buyer',
      reason: 'FeeRecipientNotZero',
      buy: { makerFeeRecipient: `0x${'22'.repeat(20)}` },
    },
    {
      name: 'a fee recipient in the sell order',
      fault: 'Seller',
      reason: 'FeeRecipientNotZero',
      sell: { makerFeeRecipient: `0x${'22'.repeat(20)}` },
    },
    {
      name: 'a larger size than the buy order',
      fault: 'Buyer',
      reason: 'OrderOverfilled',
      buy: { size: 9n * UNIT },
    },
    {
      name: 'a larger size than the sell order',
      fault: 'Seller',
      reason: 'OrderOverfilled',
      sell: { size: 9n * UNIT },
    },
    {
      name: 'a larger size than either order',
      fault: 'Both',
      reason: 'OrderOverfilled',
      buy: { size: 1n },
      sell: { size: 1n },
    },
    {
      name: 'a market that the chain does not know',
      fault: 'None',
      reason: 'MarketUnknown',
      buy: { marketId: other },
      sell: { marketId: other },
    },
    {
      name: 'a buyer without collateral',
      fault: 'Buyer',
      reason: 'InsufficientCollateral',
      prepare: () =>
        world.chain.send(world.ann, world.collateral, 'transfer', [
          world.carol.address,
          STAKE - 5_499_999n,
        ]),
    },
    {
      name: 'a buyer without allowance',
      fault: 'Buyer',
      reason: 'InsufficientAllowance',
      prepare: approveCollateral(5_499_999n),
    },
    {
      name: 'a seller without shares',
      fault: 'Seller',
      reason: 'InsufficientShares',
      buy: { size: 2_000n * UNIT, price: 10_000n },
      sell: { size: 2_000n * UNIT, price: 10_000n },
      fill: { size: 1_001n * UNIT, price: 10_000n },
    },
    {
      name: 'a seller without approval',
      fault: 'Seller',
      reason: 'SharesNotApproved',
      prepare: approveShares(false),
    },
    {
      name: 'two traders without funds',
      fault: 'Both',
      reason: 'BothUnfunded',
      prepare: async () => {
        await approveShares(false)()
        await approveCollateral(0n)()
      },
    },
  ]
  for (const { name, fault, reason, prepare, ...terms } of cases) {
    test(`a fill with ${name} is rejected with reason ${reason}; the side at fault is ${fault}`, async () => {
      const { ann, bob, buy, sell, settle, balance, shares } = world
      await prepare?.()
      const good = await crossing()
      const annBefore = await balance(ann.address)
      const bad = [
        await buy(ann, market.id, { price: 600_000n, size: 10n * UNIT, ...terms.buy }),
        await sell(bob, market.id, { price: 550_000n, size: 10n * UNIT, ...terms.sell }),
      ]
      const fills = [fillOf({ seq: 2n, ...terms.fill }), fillOf({ seq: 3n, buy: 2, sell: 3 })]
      const [first, second] = await settle([...bad, ...good] as SignedOrder[], fills)
      assert.ok(first && !first.settled)
      assert.deepEqual([first.fault, first.reason], [fault, reason])
      // The second fill of the batch has the same two traders. It settles, unless `prepare` has removed funds or
      // approvals that it needs.
      assert.equal(second?.settled, prepare === undefined)
      if (prepare !== undefined) {
        assert.equal(await balance(ann.address), annBefore)
        assert.equal(await shares(bob.address, market.id, YES), STAKE)
      }
      await assertHoldsNothing()
    })
  }

  test('a fill is rejected with InvalidSignature if other accounts have signed its orders', async () => {
    const { ann, bob, carol, buy, sell, sign, trade } = world
    const terms = { price: 550_000n, size: UNIT }
    const buyOrder = await buy(ann, market.id, terms)
    const sellOrder = await sell(bob, market.id, terms)
    const forgedBuy = await sign(carol, buyOrder.order)
    const forgedSell = await sign(carol, sellOrder.order)
    const tampered = { ...buyOrder, order: { ...buyOrder.order, price: 600_000n } }
    const garbage = { ...buyOrder, r: `0x${'ff'.repeat(32)}` as Hex }
    const highS = { ...buyOrder, vs: flipS(buyOrder.vs) }
    const nobody = { ...garbage, order: { ...buyOrder.order, trader: ZERO } }
    const cases: [SignedOrder, SignedOrder, Fault][] = [
      [forgedBuy, sellOrder, 'Buyer'],
      [buyOrder, forgedSell, 'Seller'],
      [forgedBuy, forgedSell, 'Both'],
      [tampered, sellOrder, 'Buyer'],
      [garbage, sellOrder, 'Buyer'],
      [highS, sellOrder, 'Buyer'],
      [nobody, sellOrder, 'Buyer'],
    ]
    for (const [b, s, fault] of cases) {
      const verdict = await trade(b, s)
      assert.deepEqual(verdict.settled ? 'settled' : [verdict.fault, verdict.reason], [
        fault,
        'InvalidSignature',
      ])
    }
  })

  test('a fill of an expired order settles until the grace period ends, and then fails with OrderExpired', async () => {
    const { ann, bob, buy, sell, trade, chain } = world
    const now = await chain.now()
    const terms = { price: 550_000n, size: 10n * UNIT }
    const short = { ...terms, expiration: now + 100n }
    const long = { ...terms, expiration: now + 100_000n }
    const deadline = now + 100n + SETTINGS.settlementGraceSeconds
    const shortBuy = await buy(ann, market.id, short)
    const longSell = await sell(bob, market.id, long)
    // The node mines the trade one second after this time, which is exactly the deadline.
    await chain.warpTo(deadline - 1n)
    assert.equal((await trade(shortBuy, longSell, { size: UNIT })).settled, true)
    assert.equal(await chain.now(), deadline)
    const late = await trade(shortBuy, longSell, { size: UNIT })
    assert.deepEqual(!late.settled && [late.fault, late.reason], ['Buyer', 'OrderExpired'])
    const shortSell = await sell(bob, market.id, short)
    const longBuy = await buy(ann, market.id, long)
    const lateSell = await trade(longBuy, shortSell)
    assert.deepEqual(!lateSell.settled && lateSell.fault, 'Seller')
    const both = await trade(shortBuy, shortSell)
    assert.deepEqual(!both.settled && both.fault, 'Both')
  })

  test('a fill of an order cancelled on chain settles until the delay ends, then fails with OrderCancelled', async () => {
    const { ann, bob, buy, sell, trade, chain, settlement, hashOrder, read } = world
    const terms = { price: 550_000n, size: 10n * UNIT, expiration: (await chain.now()) + 100_000n }
    const buyOrder = await buy(ann, market.id, terms)
    const sellOrder = await sell(bob, market.id, terms)
    const hash = hashOrder(buyOrder.order)
    const receipt = await chain.send(ann, settlement, 'cancelOrders', [[buyOrder.order]])
    const effectiveAt = (await chain.now()) + SETTINGS.cancelDelaySeconds
    assert.deepEqual(eventsOf(receipt, settlement), [
      {
        eventName: 'OrderCancelled',
        args: { orderHash: hash, trader: ann.address, effectiveAt },
      },
    ])

    await chain.warpTo(effectiveAt - 2n)
    assert.equal((await trade(buyOrder, sellOrder, { size: UNIT })).settled, true)
    const late = await trade(buyOrder, sellOrder, { size: UNIT })
    assert.deepEqual(!late.settled && [late.fault, late.reason], ['Buyer', 'OrderCancelled'])

    // Cancelling again neither changes the time nor emits another event.
    const again = await chain.send(ann, settlement, 'cancelOrders', [[buyOrder.order]])
    assert.deepEqual(eventsOf(again, settlement), [])
    assert.deepEqual(await read(settlement, 'orderState', [hash]), [UNIT, effectiveAt])

    await chain.send(bob, settlement, 'cancelOrders', [[sellOrder.order]])
    await chain.warp(SETTINGS.cancelDelaySeconds)
    const both = await trade(buyOrder, sellOrder, { size: UNIT })
    assert.deepEqual(!both.settled && [both.fault, both.reason], ['Both', 'OrderCancelled'])
  })

  test('an account cannot cancel an order of another trader, and the order stays valid', async () => {
    const { carol, chain, settlement, hashOrder, trade } = world
    const [buyOrder, sellOrder] = await crossing()
    await assertReverts(
      chain.send(carol, settlement, 'cancelOrders', [[buyOrder.order]]),
      'NotTrader',
      [hashOrder(buyOrder.order)],
    )
    assert.equal((await trade(buyOrder, sellOrder)).settled, true)
  })
})

describe('the settlement contract refuses replays', () => {
  test('a fill that is repeated in the same batch or in a later batch is refused with AlreadySettled', async () => {
    const { settle, balance, ann } = world
    const orders = await crossing()
    const fill = fillOf({ size: UNIT })
    const [first, second] = await settle(orders, [fill, fill])
    assert.equal(first?.settled, true)
    assert.deepEqual(second && !second.settled && [second.fault, second.reason], [
      'None',
      'AlreadySettled',
    ])
    assert.equal(second?.tradeId, first?.tradeId)
    const before = await balance(ann.address)
    const [third] = await settle(orders, [fill])
    assert.equal(third && !third.settled && third.reason, 'AlreadySettled')
    assert.equal(await balance(ann.address), before)
  })

  test('two orders can settle several trades with each other, and a repetition of any is refused with AlreadySettled', async () => {
    const { settle, read, settlement, hashOrder } = world
    const orders = await crossing()
    const fills = [0, 1, 2, 3].map((fillIndex) => fillOf({ fillIndex, size: UNIT }))
    const settled = await settle(orders, fills)
    assert.ok(settled.every((verdict) => verdict.settled))
    const again = await settle(orders, fills)
    assert.deepEqual(
      again.map((verdict) => verdict.settled || verdict.reason),
      Array(4).fill('AlreadySettled'),
    )
    const [buyHash, sellHash] = orders.map(({ order }) => hashOrder(order)) as [Hex, Hex]
    for (const { tradeId } of settled) {
      assert.equal(await read(settlement, 'isSettled', [tradeId, buyHash, sellHash]), true)
    }
    assert.equal(await read(settlement, 'isSettled', [buyHash, buyHash, sellHash]), false)
  })

  test('after the cause of a rejection is removed, the rejected fill can settle', async () => {
    const { settle, chain, ann, owner, collateral, settlement, verdicts, hashOrder } = world
    const orders = await crossing()
    await chain.send(ann, collateral, 'approve', [settlement.address, 0n])
    const receipt = await chain.send(owner, settlement, 'settle', [orders, [fillOf()], []])
    const [first] = verdicts(receipt)
    assert.equal(first?.settled, false)
    assert.deepEqual(eventsOf(receipt, settlement), [
      {
        eventName: 'TradeRejected',
        args: {
          tradeId: first.tradeId,
          buyHash: hashOrder(orders[0].order),
          sellHash: hashOrder(orders[1].order),
          fault: FAULTS.indexOf('Buyer'),
          reason: REASONS.indexOf('InsufficientAllowance'),
        },
      },
    ])
    await chain.send(ann, collateral, 'approve', [settlement.address, STAKE])
    const [second] = await settle(orders, [fillOf()])
    assert.equal(second?.settled, true)
    assert.equal(second.tradeId, first.tradeId)
  })

  test('an order signed for another chain or another contract is refused', async () => {
    const { ann, bob, sell, trade, chain, settlement } = world
    const sellOrder = await sell(bob, market.id, { price: 550_000n, size: UNIT })
    const domains = [
      { chainId: chain.id + 1, verifyingContract: settlement.address },
      { chainId: chain.id, verifyingContract: world.collateral.address },
    ]
    for (const domain of domains) {
      const order = { ...sellOrder.order, side: 0, trader: ann.address }
      const signature = await ann.signTypedData({
        domain: { name: 'SibylSettlement', version: '1', ...domain },
        types: ORDER_TYPES,
        primaryType: 'Order',
        message: order,
      })
      const verdict = await trade({ order, ...compact(signature) }, sellOrder)
      assert.deepEqual(!verdict.settled && [verdict.fault, verdict.reason], [
        'Buyer',
        'InvalidSignature',
      ])
    }
  })

  test('an order signed on one chain is invalid on a fork of this chain with another chain id', async () => {
    const other = await startWorld({ chainId: 31_338 })
    try {
      const there = await other.createMarket()
      await other.fund(other.ann, { collateral: STAKE })
      await other.fund(other.bob, { shares: STAKE, market: there.id })
      // Both chains have the same contracts at the same addresses. Only the chain id differs.
      assert.equal(other.settlement.address, world.settlement.address)
      const here = await crossing()
      const [buyOrder, sellOrder] = here.map(({ order }) => ({ ...order, marketId: there.id }))
      assert.ok(buyOrder && sellOrder)
      const signedHere = await Promise.all([
        world.sign(world.ann, buyOrder),
        world.sign(world.bob, sellOrder),
      ])
      const verdict = await other.trade(...signedHere)
      assert.deepEqual(!verdict.settled && [verdict.fault, verdict.reason], [
        'Both',
        'InvalidSignature',
      ])
      const signedThere = await Promise.all([
        other.sign(world.ann, buyOrder),
        other.sign(world.bob, sellOrder),
      ])
      assert.equal((await other.trade(...signedThere)).settled, true)
    } finally {
      await other.chain.close()
    }
  })
})

describe('a buyer can pay by a permit', () => {
  const terms = { price: 500_000n, size: 2n * UNIT }

  async function withoutAllowance(): Promise<[SignedOrder, SignedOrder]> {
    const { ann, bob, buy, sell, chain, collateral, settlement } = world
    await chain.send(ann, collateral, 'approve', [settlement.address, 0n])
    return [await buy(ann, market.id, terms), await sell(bob, market.id, terms)]
  }

  test('a buyer without an allowance can pay by a permit that the batch contains', async () => {
    const { ann, settle, usdcPermit, settlement, read, collateral } = world
    const orders = await withoutAllowance()
    const permit = await usdcPermit(ann, settlement.address, 5n * UNIT)
    const [verdict] = await settle(orders, [fillOf({ ...terms })], [permit])
    assert.equal(verdict?.settled, true)
    assert.equal(await read(collateral, 'allowance', [ann.address, settlement.address]), 4n * UNIT)
  })

  test('a fill settles even if another account has already submitted the buyer’s permit', async () => {
    const { ann, carol, settle, usdcPermit, settlement, chain, collateral } = world
    const orders = await withoutAllowance()
    const permit = await usdcPermit(ann, settlement.address, 5n * UNIT)
    await chain.send(carol, collateral, 'permit', [
      permit.owner,
      settlement.address,
      permit.value,
      permit.deadline,
      permit.v,
      permit.r,
      permit.s,
    ])
    const [verdict] = await settle(orders, [fillOf({ ...terms })], [permit, permit])
    assert.equal(verdict?.settled, true)
  })

  test('a fill fails with InsufficientAllowance if its permit is expired, forged, or for another spender or nonce', async () => {
    const { ann, bob, carol, settle, usdcPermit, settlement, chain } = world
    const orders = await withoutAllowance()
    const permits = [
      await usdcPermit(ann, settlement.address, STAKE, { deadline: (await chain.now()) - 1n }),
      { ...(await usdcPermit(carol, settlement.address, STAKE)), owner: ann.address },
      await usdcPermit(ann, bob.address, STAKE),
      await usdcPermit(ann, settlement.address, STAKE, { nonce: 7n }),
    ]
    const [verdict] = await settle(orders, [fillOf({ ...terms })], permits)
    assert.deepEqual(verdict && !verdict.settled && [verdict.fault, verdict.reason], [
      'Buyer',
      'InsufficientAllowance',
    ])
  })
})

describe('a batch can contain two permits of one owner', () => {
  const terms = { price: 500_000n, size: 2n * UNIT }

  test('if a batch contains two permits of one buyer, each permit pays the fills of its own order', async () => {
    const { ann, bob, buy, sell, settle, usdcPermit, settlement, chain, collateral, read } = world
    await chain.send(ann, collateral, 'approve', [settlement.address, 0n])
    const orders = [
      await buy(ann, market.id, terms),
      await buy(ann, market.id, terms),
      await sell(bob, market.id, { ...terms, size: 10n * UNIT }),
    ]
    const permits = [
      await usdcPermit(ann, settlement.address, UNIT, { nonce: 0n }),
      { ...(await usdcPermit(ann, settlement.address, UNIT, { nonce: 1n })), fill: 2 },
    ]
    const fills = [
      fillOf({ buy: 0, sell: 2, price: terms.price, size: UNIT }),
      fillOf({ buy: 0, sell: 2, price: terms.price, size: UNIT, fillIndex: 1 }),
      fillOf({ buy: 1, sell: 2, price: terms.price, size: 2n * UNIT, fillIndex: 2 }),
    ]
    const verdicts = await settle(orders, fills, permits)
    assert.deepEqual(
      verdicts.map(({ settled }) => settled),
      [true, true, true],
    )
    assert.equal(await read(collateral, 'allowance', [ann.address, settlement.address]), 0n)
  })

  test('a batch reverts if its permits are not sorted by fill, or if one names a missing fill', async () => {
    const { ann, usdcPermit, settlement, chain, owner } = world
    const orders = await crossing()
    const fills = [fillOf({ size: UNIT }), fillOf({ size: UNIT, fillIndex: 1 })]
    const permit = await usdcPermit(ann, settlement.address, UNIT)
    for (const [at, places] of [
      [1, [1, 0]],
      [0, [2]],
    ] as const) {
      const permits = places.map((fill) => ({ ...permit, fill }))
      const call = chain.send(owner, settlement, 'settle', [orders, fills, permits])
      await assertReverts(call, 'PermitOutOfOrder', [BigInt(at)])
    }
  })
})

describe('the settlement contract has an owner and operators', () => {
  test('only operators settle trades, and the owner appoints the operators', async () => {
    const { owner, carol, chain, settlement } = world
    const call = () => chain.send(carol, settlement, 'settle', [[], [], []])
    await assertReverts(call(), 'NotOperator', [carol.address])
    await assertReverts(
      chain.send(carol, settlement, 'setOperator', [carol.address, true]),
      'OwnableUnauthorizedAccount',
    )
    const receipt = await chain.send(owner, settlement, 'setOperator', [carol.address, true])
    assert.deepEqual(eventsOf(receipt, settlement), [
      { eventName: 'OperatorSet', args: { account: carol.address, allowed: true } },
    ])
    await call()
    await chain.send(owner, settlement, 'setOperator', [carol.address, false])
    await assertReverts(call(), 'NotOperator', [carol.address])
  })

  test('an operator can pause settlement, only the owner can resume settlement, and traders can cancel meanwhile', async () => {
    const { owner, ann, bob, carol, chain, settlement } = world
    const [buyOrder] = await crossing()
    await assertReverts(chain.send(bob, settlement, 'pause', []), 'NotOperator', [bob.address])
    await chain.send(owner, settlement, 'setOperator', [carol.address, true])
    const paused = await chain.send(carol, settlement, 'pause', [])
    assert.deepEqual(eventsOf(paused, settlement), [
      { eventName: 'Paused', args: { account: carol.address } },
    ])
    await assertReverts(chain.send(carol, settlement, 'settle', [[], [], []]), 'EnforcedPause')
    await chain.send(ann, settlement, 'cancelOrders', [[buyOrder.order]])
    await assertReverts(chain.send(carol, settlement, 'unpause', []), 'OwnableUnauthorizedAccount')
    const resumed = await chain.send(owner, settlement, 'unpause', [])
    assert.equal(eventsOf(resumed, settlement)[0]?.eventName, 'Unpaused')
    await chain.send(carol, settlement, 'settle', [[], [], []])
  })

  test('ownership of the settlement contract moves in two steps and cannot be renounced', async () => {
    const { owner, carol, chain, settlement, read } = world
    await assertReverts(
      chain.publicClient.readContract({
        ...settlement,
        functionName: 'renounceOwnership',
        account: owner.address,
      }),
      'OwnershipNotRenounceable',
    )
    await chain.send(owner, settlement, 'transferOwnership', [carol.address])
    assert.equal(await read(settlement, 'owner', []), owner.address)
    await chain.send(carol, settlement, 'acceptOwnership', [])
    assert.equal(await read(settlement, 'owner', []), carol.address)
  })

  test('no account can call executeFill and probeCollateral of the settlement contract directly', async () => {
    const { owner, ann, chain, settlement } = world
    const execution = {
      tradeId: market.id,
      marketId: market.id,
      buyHash: market.id,
      sellHash: market.id,
      buyer: ann.address,
      seller: owner.address,
      outcome: 0,
      price: 1n,
      size: 1n,
      cost: STAKE,
      positionId: 0n,
    }
    await assertReverts(chain.send(owner, settlement, 'executeFill', [execution]), 'OnlySelf')
    await assertReverts(chain.send(owner, settlement, 'probeCollateral', [ann.address]), 'OnlySelf')
  })

  test('the settlement contract cannot be deployed with an invalid configuration', async () => {
    const { chain, owner, collateral, conditionalTokens } = world
    const good = [
      collateral.address,
      conditionalTokens.address,
      owner.address,
      owner.address,
      60n,
      61n,
    ] as unknown[]
    const bad: [number, unknown][] = [
      [0, owner.address],
      [1, owner.address],
      [5, 60n],
      [5, 604_801n],
    ]
    await chain.deploy(owner, ours('Settlement'), good)
    for (const [index, value] of bad) {
      const attempt = chain.deploy(owner, ours('Settlement'), good.with(index, value))
      await assert.rejects(attempt, (error: BaseError) => {
        const { data } = error.walk((cause) => 'data' in (cause as object)) as { data?: Hex }
        assert.equal(data, toFunctionSelector('InvalidConfiguration()'))
        return true
      })
    }
  })
})

describe('a batch settles as a whole or reverts as a whole', () => {
  test('a batch reverts if a fill refers to an order outside the batch', async () => {
    const { settle } = world
    const orders = await crossing()
    await assertReverts(settle(orders, [fillOf(), fillOf({ sell: 2 })]), 'OrderIndexOutOfRange', [
      1n,
    ])
    await assertReverts(settle(orders, [fillOf({ buy: 2 })]), 'OrderIndexOutOfRange', [0n])
  })

  test('a batch that runs short of gas reverts as a whole instead of rejecting a valid fill', async () => {
    const { chain, owner, settlement, verdicts } = world
    const orders = await crossing()
    const fills = Array.from({ length: 5 }, (_, index) => fillOf({ fillIndex: index, size: UNIT }))
    const args = [orders, fills, []] as const
    await assertReverts(
      chain.send(owner, settlement, 'settle', args, { gas: 400_000n }),
      'TooLittleGas',
      [0n],
    )
    let settledAt = 0n
    for (let gas = 60_000n; gas <= 1_200_000n; gas += 20_000n) {
      const undo = await chain.snapshot()
      const data = encodeFunctionData({ abi: settlement.abi, functionName: 'settle', args })
      const hash = (await chain
        .request('eth_sendTransaction', [
          { from: owner.address, to: settlement.address, data, gas: `0x${gas.toString(16)}` },
        ])
        .catch(() => undefined)) as Hex | undefined
      if (hash !== undefined) {
        const receipt = await chain.publicClient.getTransactionReceipt({ hash })
        const outcome = verdicts(receipt)
        assert.equal(outcome.length, 5)
        assert.ok(
          outcome.every(({ settled }) => settled),
          `rejected with ${gas} gas`,
        )
        if (settledAt === 0n) settledAt = gas
      }
      await undo()
    }
    assert.ok(settledAt > 500_000n && settledAt < 1_200_000n)
  })

  test('a batch settles as a whole with exactly the gas that an Ethereum node estimates', async () => {
    const { chain, owner, settlement, verdicts } = world
    const orders = await crossing()
    const fills = Array.from({ length: 5 }, (_, index) => fillOf({ fillIndex: index, size: UNIT }))
    const args = [orders, fills, []] as const
    const gas = await chain.publicClient.estimateContractGas({
      ...settlement,
      functionName: 'settle',
      args,
      account: owner.address,
    })
    const receipt = await chain.send(owner, settlement, 'settle', args, { gas })
    assert.equal(verdicts(receipt).filter(({ settled }) => settled).length, 5)
  })
})

test('the type hashes of the settlement contract equal those of the published EIP-712 types', async () => {
  const { settlement, read } = world
  assert.equal(
    await read(settlement, 'ORDER_TYPEHASH', []),
    keccak256(stringToHex(typeString('Order', ORDER_TYPES))),
  )
  assert.equal(
    await read(settlement, 'CANCEL_ORDERS_TYPEHASH', []),
    keccak256(stringToHex(typeString('CancelOrders', CANCEL_ORDERS_TYPES))),
  )
  assert.equal(
    await read(settlement, 'CANCEL_ALL_BEFORE_TYPEHASH', []),
    keccak256(stringToHex(typeString('CancelAllBefore', CANCEL_ALL_BEFORE_TYPES))),
  )
  const [order] = await crossing()
  assert.equal(getAddress(order.order.trader), order.order.trader)
  assert.equal(await read(settlement, 'hashOrder', [order.order]), world.hashOrder(order.order))
})

/** Returns the other valid signature of the same message. Its s is in the upper half, so OpenZeppelin refuses it. */
function flipS(vs: Hex): Hex {
  const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
  const parity = BigInt(vs) >> 255n
  const s = BigInt(vs) & ((1n << 255n) - 1n)
  const flipped = (order - s) % (1n << 255n)
  return `0x${(flipped | ((1n - parity) << 255n)).toString(16).padStart(64, '0')}`
}
