/**
 * Tests mints and merges. In a mint, two buyers of opposite outcomes pay dollars, which are split into both tokens. In
 * a merge, two sellers of opposite outcomes give tokens, which are merged into dollars.
 */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import fc from 'fast-check'
import { encodeFunctionData, type Hex } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { ours } from '#devnet/artifact.ts'
import { costCeil, isPrice, isShares, PRICE_MAX, PRICE_MIN } from '#domain/money.ts'
import { hostileCollateralAbi } from '../../contracts/artifacts/test/HostileCollateral.abi.ts'
import { hostileReceiverAbi } from '../../contracts/artifacts/test/HostileReceiver.abi.ts'
import {
  assertReverts,
  eventsOf,
  type Fault,
  type Fill,
  type Market,
  NO,
  type Reason,
  type SignedOrder,
  startWorld,
  UNIT,
  type Verdict,
  type World,
  YES,
  ZERO,
  ZERO_BYTES32,
} from './support/world.ts'

const STAKE = 1_000n * UNIT
const BUY = 0
const SELL = 1

let world: World
let market: Market
let restore: () => Promise<void>

before(async () => {
  world = await startWorld()
  market = await world.createMarket()
  for (const trader of [world.ann, world.carol]) {
    await world.fund(trader, { collateral: STAKE, shares: STAKE, market: market.id })
  }
})
after(() => world.chain.close())
beforeEach(async () => {
  await restore?.()
  restore = await world.chain.snapshot()
})

type Terms = Partial<SignedOrder['order']>

/** Signs an order of 10 shares. At the default price of 0.50, two such orders for opposite outcomes cross. */
function signed(trader: PrivateKeyAccount, side: number, outcome: number, terms: Terms = {}) {
  const sign = side === BUY ? world.buy : world.sell
  return sign(trader, market.id, { price: 500_000n, size: 10n * UNIT, outcome, ...terms })
}

/** Signs Ann's order for YES and Carol's for NO, both on the same side. */
async function pair(side: number, yes: Terms = {}, no: Terms = {}) {
  return [await signed(world.ann, side, YES, yes), await signed(world.carol, side, NO, no)] as [
    SignedOrder,
    SignedOrder,
  ]
}

const fillOf = (terms: Partial<Fill> = {}): Fill => ({
  buy: 0,
  sell: 1,
  seq: 1n,
  fillIndex: 0,
  price: 500_000n,
  size: 10n * UNIT,
  ...terms,
})

async function holdings(trader: PrivateKeyAccount): Promise<[bigint, bigint, bigint]> {
  const { balance, shares } = world
  return [
    await balance(trader.address),
    await shares(trader.address, market.id, YES),
    await shares(trader.address, market.id, NO),
  ]
}

/** Returns a trader's gains since the start of the test: dollars, YES shares and NO shares. */
async function gains(trader: PrivateKeyAccount): Promise<bigint[]> {
  return (await holdings(trader)).map((value) => value - STAKE)
}

async function assertHoldsNothing(collateral = 0n): Promise<void> {
  const { settlement, balance, shares } = world
  assert.equal(await balance(settlement.address), collateral)
  assert.equal(await shares(settlement.address, market.id, YES), 0n)
  assert.equal(await shares(settlement.address, market.id, NO), 0n)
}

function assertRejected(verdict: Verdict | undefined, fault: Fault, reason: Reason): void {
  assert.ok(verdict && !verdict.settled, `expected ${reason}`)
  assert.deepEqual([verdict.fault, verdict.reason], [fault, reason])
}

const locked = () => world.balance(world.conditionalTokens.address)

describe('the settlement contract mints complete sets for two buyers', () => {
  test('in a mint, the YES buyer pays the price and the NO buyer pays one dollar minus the price', async () => {
    const { ann, carol, settlement, chain, owner, hashOrder, read } = world
    const orders = await pair(BUY, { price: 600_000n }, { price: 450_000n })
    const before = await locked()
    const receipt = await chain.send(owner, settlement, 'settle', [
      orders,
      [fillOf({ price: 600_000n, size: 6n * UNIT })],
      [],
    ])
    assert.deepEqual(await gains(ann), [-3_600_000n, 6n * UNIT, 0n])
    assert.deepEqual(await gains(carol), [-2_400_000n, 0n, 6n * UNIT])
    assert.equal(await locked(), before + 6n * UNIT)
    await assertHoldsNothing()
    const [buyHash, sellHash] = orders.map(({ order }) => hashOrder(order)) as [Hex, Hex]
    const [event] = eventsOf(receipt, settlement)
    assert.equal(event?.eventName, 'TradeSettled')
    assert.deepEqual(
      { ...(event?.args as object), tradeId: undefined },
      {
        ...{ tradeId: undefined, buyer: ann.address, seller: carol.address, marketId: market.id },
        ...{ buyHash, sellHash, outcome: YES, price: 600_000n, size: 6n * UNIT, cost: 3_600_000n },
      },
    )
    for (const hash of [buyHash, sellHash]) {
      assert.equal((await read(settlement, 'orderState', [hash]))[0], 6n * UNIT)
    }
  })

  test('a mint’s price applies to the order in the buy position, whether that order buys YES or NO', async () => {
    const { ann, carol, settle } = world
    const [yes, no] = await pair(BUY, { price: 600_001n }, { price: 400_001n })
    // Carol's order, which buys NO, is passed as the buy order. A mint of 3 units costs 3 units of dollars in total. At
    // 0.400001 Carol's part is 1.200003 units, rounded up to 2. Ann pays the remaining 1.
    const [verdict] = await settle([no, yes], [fillOf({ price: 400_001n, size: 3n })])
    assert.deepEqual(verdict?.settled && verdict.cost, 2n)
    assert.deepEqual(await gains(carol), [-2n, 0n, 3n])
    assert.deepEqual(await gains(ann), [-1n, 3n, 0n])
  })

  test('a mint settles once, and a second settlement fails with AlreadySettled', async () => {
    const { settle } = world
    const orders = await pair(BUY)
    const fill = fillOf({ size: UNIT })
    const [first, again] = await settle(orders, [fill, fill])
    assert.equal(first?.settled, true)
    assertRejected(again, 'None', 'AlreadySettled')
  })

  test('if both orders of a mint belong to one trader, the trader pays one dollar per complete set', async () => {
    const { ann, settle } = world
    const orders = [await signed(ann, BUY, YES), await signed(ann, BUY, NO)]
    const [verdict] = await settle(orders, [fillOf()])
    assert.equal(verdict?.settled, true)
    assert.deepEqual(await gains(ann), [-10n * UNIT, 10n * UNIT, 10n * UNIT])
  })

  test('a mint is rejected if one trader owns both orders but can pay for only one', async () => {
    const { ann, chain, collateral, carol, settle } = world
    await chain.send(ann, collateral, 'transfer', [carol.address, STAKE - 6n * UNIT])
    const orders = [await signed(ann, BUY, YES), await signed(ann, BUY, NO)]
    const [verdict] = await settle(orders, [fillOf()])
    assertRejected(verdict, 'Seller', 'InsufficientCollateral')
  })

  test('a mint settles without earlier allowances if both orders have permits', async () => {
    const { ann, carol, chain, collateral, settlement, settle, usdcPermit } = world
    const permits = []
    for (const trader of [ann, carol]) {
      await chain.send(trader, collateral, 'approve', [settlement.address, 0n])
      permits.push(await usdcPermit(trader, settlement.address, 5n * UNIT))
    }
    const [verdict] = await settle(await pair(BUY), [fillOf()], permits)
    assert.equal(verdict?.settled, true)
  })
})

describe('the settlement contract merges complete sets for two sellers', () => {
  test('in a merge, one seller receives the price and the other seller receives one dollar minus the price', async () => {
    const { ann, carol, settle } = world
    const orders = await pair(SELL, { price: 300_000n }, { price: 600_000n })
    const before = await locked()
    const [verdict] = await settle(orders, [fillOf({ price: 650_000n, size: 4n * UNIT })])
    assert.deepEqual(verdict?.settled && verdict.cost, 2_600_000n)
    assert.deepEqual(await gains(carol), [2_600_000n, 0n, -4n * UNIT])
    assert.deepEqual(await gains(ann), [1_400_000n, -4n * UNIT, 0n])
    assert.equal(await locked(), before - 4n * UNIT)
    await assertHoldsNothing()
  })

  test('a merge’s price applies to the order in the sell position, whether that order sells YES or NO', async () => {
    const { ann, carol, settle } = world
    const [yes, no] = await pair(SELL, { price: 400_001n }, { price: 500_000n })
    const [verdict] = await settle([no, yes], [fillOf({ price: 400_001n, size: 3n })])
    assert.deepEqual(verdict?.settled && verdict.cost, 2n)
    assert.deepEqual(await gains(ann), [2n, -3n, 0n])
    assert.deepEqual(await gains(carol), [1n, 0n, -3n])
  })

  test('a merge of two sell orders settles even after the market is resolved', async () => {
    const { ann, carol, quickOperator, chain, factory, read, fund, settle, sell } = world
    const start = (await chain.now()) + 1n
    const [address, id] = await read(factory, 'predictQuickMarket', ['BTC', start, 60])
    const create = ['BTC', start, 60, 6_000_000_000_000n, 'pyth'] as const
    await chain.send(quickOperator, factory, 'createQuickMarket', create)
    for (const trader of [ann, carol]) await fund(trader, { shares: UNIT, market: id })
    await chain.warp(120)
    const prices = [address, 6_000_000_000_000n, 6_000_000_000_001n, 'pyth'] as const
    await chain.send(quickOperator, factory, 'resolveQuickMarket', prices)
    const terms = { price: 500_000n, size: UNIT }
    const orders = [
      await sell(ann, id, { ...terms, outcome: YES }),
      await sell(carol, id, { ...terms, outcome: NO }),
    ]
    const [verdict] = await settle(orders, [fillOf({ size: UNIT })])
    assert.equal(verdict?.settled, true)
  })
})

test('for random prices and sizes, mints and merges transfer exactly the cost that the exchange computes', async () => {
  const { ann, carol, settle } = world
  const cases = fc.sample(
    fc.record({
      price: fc.integer({ min: PRICE_MIN, max: PRICE_MAX }),
      size: fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 90_000_000 })),
      isYesPriced: fc.boolean(),
    }),
    { numRuns: 12, seed: 7 },
  )
  for (const { price, size, isYesPriced } of cases) {
    assert.ok(isPrice(price) && isShares(size))
    const cost = BigInt(costCeil(price, size))
    const rest = BigInt(size) - cost
    const [priced, other] = isYesPriced ? [ann, carol] : [carol, ann]
    const [outcome, otherOutcome] = isYesPriced ? [YES, NO] : [NO, YES]
    for (const side of [BUY, SELL]) {
      const before = [await holdings(priced), await holdings(other)] as const
      const terms = { size: BigInt(size) }
      const first = await signed(priced, side, outcome, { ...terms, price: BigInt(price) })
      const second = await signed(other, side, otherOutcome, {
        ...{ ...terms, price: 1_000_000n - BigInt(price) },
      })
      const orders = side === BUY ? [first, second] : [second, first]
      const [verdict] = await settle(orders, [
        fillOf({ price: BigInt(price), size: BigInt(size), seq: BigInt(size) }),
      ])
      assert.deepEqual(verdict?.settled && verdict.cost, cost, `${price} × ${size}`)
      const sign = side === BUY ? -1n : 1n
      assert.equal((await holdings(priced))[0] - before[0][0], sign * cost)
      assert.equal((await holdings(other))[0] - before[1][0], sign * rest)
    }
    await assertHoldsNothing()
  }
})

describe('the operator cannot settle a mint or merge that the orders do not allow', () => {
  const cases: [string, number, Terms, Terms, Partial<Fill>, Reason][] = [
    ['of two orders of one outcome', BUY, {}, { outcome: YES }, {}, 'WrongSide'],
    ['of an outcome that does not exist', BUY, {}, { outcome: 2 }, {}, 'OutcomeMismatch'],
    ['of a side that does not exist', 2, {}, {}, {}, 'WrongSide'],
    ['of two markets', BUY, {}, { marketId: ZERO_BYTES32 }, {}, 'MarketMismatch'],
    ['of size zero', SELL, {}, {}, { size: 0n }, 'SizeZero'],
    [
      'at a price of one',
      BUY,
      { price: 2n ** 64n - 1n },
      {},
      { price: 1_000_000n },
      'PriceOutOfRange',
    ],
    [
      'above the first buyer’s limit',
      BUY,
      {},
      { price: 600_000n },
      { price: 500_001n },
      'PriceAboveBuyLimit',
    ],
    [
      'above the second buyer’s limit',
      BUY,
      { price: 600_000n },
      {},
      { price: 499_999n },
      'PriceBelowSellLimit',
    ],
    ['below the first seller’s limit', SELL, {}, {}, { price: 499_999n }, 'PriceBelowSellLimit'],
    ['below the second seller’s limit', SELL, {}, {}, { price: 500_001n }, 'PriceAboveBuyLimit'],
    [
      'below a sell limit that is above one',
      SELL,
      { price: 2n ** 64n - 1n },
      {},
      {},
      'PriceAboveBuyLimit',
    ],
  ]
  for (const [name, side, yes, no, terms, reason] of cases) {
    test(`the operator cannot settle a mint or merge ${name}`, async () => {
      const orders = [
        await world.sign(world.ann, { ...(await signed(world.ann, SELL, YES, yes)).order, side }),
        await world.sign(world.carol, { ...(await signed(world.carol, SELL, NO, no)).order, side }),
      ]
      const [verdict] = await world.settle(orders, [fillOf(terms)])
      assertRejected(verdict, 'None', reason)
    })
  }

  test('the operator cannot pass one order as both orders of a mint or merge', async () => {
    const [verdict] = await world.settle([await signed(world.ann, BUY, YES)], [fillOf({ sell: 0 })])
    assertRejected(verdict, 'None', 'WrongSide')
  })

  test('the operator cannot settle a mint or merge in a market that is unknown to the conditional tokens contract', async () => {
    const terms = { marketId: `0x${'12'.repeat(32)}` } as const
    const [verdict] = await world.settle(await pair(BUY, terms, terms), [fillOf()])
    assertRejected(verdict, 'None', 'MarketUnknown')
  })

  test('shares of a condition with three outcomes cannot be minted or merged, even if the settlement contract holds collateral', async () => {
    const { owner, chain, conditionalTokens, collateral, settlement, settle, ann, carol } = world
    const question = `0x${'34'.repeat(32)}` as const
    await chain.send(owner, conditionalTokens, 'prepareCondition', [owner.address, question, 3n])
    const id = await world.read(conditionalTokens, 'getConditionId', [owner.address, question, 3n])
    await chain.send(owner, collateral, 'mint', [settlement.address, STAKE])
    for (const trader of [ann, carol]) {
      await chain.send(trader, collateral, 'approve', [conditionalTokens.address, 10n * UNIT])
      await chain.send(trader, conditionalTokens, 'splitPosition', [
        collateral.address,
        ZERO_BYTES32,
        id,
        [1n, 2n, 4n],
        10n * UNIT,
      ])
    }
    for (const side of [BUY, SELL]) {
      const [verdict] = await settle(await pair(side, { marketId: id }, { marketId: id }), [
        fillOf(),
      ])
      assertRejected(verdict, 'None', 'CollateralRefused')
    }
    await assertHoldsNothing(STAKE)
  })
})

describe('the rejection of a mint or merge names the side at fault', () => {
  const { poor, unallowed, empty, unapproved } = {
    poor: async (trader: PrivateKeyAccount) =>
      world.chain.send(trader, world.collateral, 'transfer', [world.bob.address, STAKE - UNIT]),
    unallowed: async (trader: PrivateKeyAccount) =>
      world.chain.send(trader, world.collateral, 'approve', [world.settlement.address, UNIT]),
    empty: async (trader: PrivateKeyAccount) => {
      for (const outcome of [YES, NO]) {
        const id = await world.positionId(market.id, outcome)
        const args = [trader.address, world.bob.address, id, STAKE - UNIT, '0x'] as const
        await world.chain.send(trader, world.conditionalTokens, 'safeTransferFrom', args)
      }
    },
    unapproved: async (trader: PrivateKeyAccount) => {
      const args = [world.settlement.address, false] as const
      await world.chain.send(trader, world.conditionalTokens, 'setApprovalForAll', args)
    },
  }
  type Ruin = (trader: PrivateKeyAccount) => Promise<unknown>
  const cases: [string, number, Ruin, Reason][] = [
    ['a mint without the collateral', BUY, poor, 'InsufficientCollateral'],
    ['a mint without the allowance', BUY, unallowed, 'InsufficientAllowance'],
    ['a merge without the shares', SELL, empty, 'InsufficientShares'],
    ['a merge without the approval', SELL, unapproved, 'SharesNotApproved'],
  ]
  for (const [name, side, ruin, reason] of cases) {
    test(`${name} of one trader is rejected with ${reason}, and the rejection names this trader’s side as at fault`, async () => {
      const { ann, carol, settle } = world
      await ruin(ann)
      const [yes, no] = await pair(side)
      assertRejected((await settle([yes, no], [fillOf()]))[0], 'Buyer', reason)
      assertRejected((await settle([no, yes], [fillOf()]))[0], 'Seller', reason)
      await ruin(carol)
      assertRejected((await settle([yes, no], [fillOf()]))[0], 'Both', 'BothUnfunded')
    })
  }

  for (const side of [BUY, SELL]) {
    test(`${side === BUY ? 'a mint' : 'a merge'} with a cancelled, expired or forged order is rejected, and the rejection names the side at fault`, async () => {
      const { ann, carol, chain, settlement, settle, sign } = world
      const [yes, no] = await pair(side)
      const forged = await sign(carol, yes.order)
      assertRejected((await settle([forged, no], [fillOf()]))[0], 'Buyer', 'InvalidSignature')
      await chain.send(ann, settlement, 'cancelOrders', [[yes.order]])
      await chain.warp(7_300)
      assertRejected((await settle([yes, no], [fillOf()]))[0], 'Both', 'OrderExpired')
      const later = { expiration: (await chain.now()) + 36_000n }
      const [first, second] = await pair(side, later, later)
      await chain.send(carol, settlement, 'cancelOrders', [[second.order]])
      await chain.warp(7_201)
      assertRejected((await settle([first, second], [fillOf()]))[0], 'Seller', 'OrderCancelled')
    })
  }
})

describe('hostile code in a trader’s account affects only mints of this trader', () => {
  async function delegate(trader: PrivateKeyAccount, mode: number, data: Hex = '0x') {
    const { chain, relayer, settlement } = world
    const code = await chain.deploy(relayer, ours('test/HostileReceiver'), [])
    const authorization = await chain.wallet(trader).signAuthorization({ contractAddress: code })
    const to = relayer.address
    const transaction = { authorizationList: [authorization], to, gas: 200_000n }
    await chain.wallet(relayer).sendTransaction(transaction)
    const target = { address: trader.address, abi: hostileReceiverAbi }
    await chain.send(relayer, target, 'arm', [mode, settlement.address, data])
    return target
  }
  const REFUSE_HUGELY = 2
  const BURN_GAS = 5
  const CALL_BACK = 6

  for (const [name, mode] of [
    ['reverts with very long data', REFUSE_HUGELY],
    ['burns its gas', BURN_GAS],
  ] as const) {
    test(`if an account’s code ${name}, only this account’s mints fail, whether its order comes first or second`, async () => {
      const { ann, bob, chain, owner, settlement, verdicts, fund } = world
      await fund(bob, { collateral: STAKE })
      await delegate(ann, mode)
      const [yes, no] = await pair(BUY)
      const honest = await signed(bob, BUY, YES)
      const receipt = await chain.send(owner, settlement, 'settle', [
        [yes, no, honest],
        [
          fillOf({ size: UNIT }),
          fillOf({ buy: 1, sell: 0, size: UNIT }),
          fillOf({ buy: 2, sell: 1, size: UNIT }),
        ],
        [],
      ])
      const [asBuyer, asSeller, good] = verdicts(receipt)
      assertRejected(asBuyer, 'Buyer', 'SharesRefused')
      assertRejected(asSeller, 'Seller', 'SharesRefused')
      assert.equal(good?.settled, true)
      assert.deepEqual(await gains(ann), [0n, 0n, 0n])
      assert.ok(receipt.gasUsed < 1_300_000n, `${receipt.gasUsed} gas`)
    })
  }

  test('hostile code that calls the settlement contract back can neither settle a trade nor move funds', async () => {
    const { ann, chain, owner, settlement, verdicts } = world
    const inner = encodeFunctionData({
      abi: settlement.abi,
      functionName: 'settle',
      args: [[], [], []],
    })
    const code = await delegate(ann, CALL_BACK, inner)
    await chain.send(owner, settlement, 'setOperator', [ann.address, true])
    const orders = await pair(BUY)
    const receipt = await chain.send(owner, settlement, 'settle', [orders, [fillOf()], []])
    assert.equal(verdicts(receipt)[0]?.settled, true)
    const [called] = eventsOf(receipt, code)
    assert.deepEqual(called?.args, { success: false, returned: '0x3ee5aeb5' })
    await assertHoldsNothing()
  })
})

describe('the settlement contract never uses tokens that it received by mistake', () => {
  test('the settlement contract refuses outcome tokens that are sent to it by mistake', async () => {
    const { ann, chain, conditionalTokens, settlement } = world
    const errors = settlement.abi.filter(({ type }) => type === 'error')
    const abi = [...conditionalTokens.abi, ...errors] as unknown as typeof conditionalTokens.abi
    const tokens = { address: conditionalTokens.address, abi }
    const id = await world.positionId(market.id, YES)
    const single = [ann.address, settlement.address, id, UNIT, '0x'] as const
    await assertReverts(chain.send(ann, tokens, 'safeTransferFrom', single), 'OnlySelf')
    const batch = [ann.address, settlement.address, [id], [UNIT], '0x'] as const
    await assertReverts(chain.send(ann, tokens, 'safeBatchTransferFrom', batch), 'OnlySelf')
  })

  test('collateral that the settlement contract received by mistake is never used to pay for a mint or merge', async () => {
    const { chain, owner, collateral, conditionalTokens, settlement, settle } = world
    await chain.send(owner, collateral, 'mint', [settlement.address, STAKE])
    // The stablecoin now keeps a fee of each transfer, so the settlement contract receives less than it requested.
    const hostile = await chain.deploy(owner, ours('test/HostileCollateral'), [])
    const code = await chain.publicClient.getCode({ address: hostile })
    assert.ok(code)
    await chain.setCode(collateral.address, code)
    const token = { address: collateral.address, abi: hostileCollateralAbi }
    const before = await locked()
    const TAKE_FEE = 8
    await chain.send(owner, token, 'arm', [TAKE_FEE, ZERO, '0x'])
    for (const side of [BUY, SELL]) {
      const [verdict] = await settle(await pair(side), [fillOf()])
      assertRejected(verdict, 'None', 'CollateralRefused')
    }
    await chain.send(owner, token, 'arm', [0, ZERO, '0x'])
    for (const side of [BUY, SELL]) {
      const [verdict] = await settle(await pair(side), [fillOf({ seq: 2n + BigInt(side) })])
      assert.equal(verdict?.settled, true)
    }
    await assertHoldsNothing(STAKE)
    assert.equal(await world.balance(conditionalTokens.address), before)
  })

  test('the settlement contract refuses outcome tokens from any contract other than the conditional tokens', async () => {
    const { ann, chain, settlement } = world
    const abi = hostileReceiverAbi
    const args = [settlement.address, settlement.address, 1n, 1n, '0x'] as const
    const call = chain.publicClient.simulateContract({
      ...{ address: settlement.address, abi, functionName: 'onERC1155Received', args },
      account: ann.address,
    })
    await assert.rejects(call)
  })
})

describe('mints and merges fail if the stablecoin has blocked an account', () => {
  for (const [name, blocked, fault] of [
    ['the buyer', ['ann'], 'Buyer'],
    ['the seller', ['carol'], 'Seller'],
    ['both traders', ['ann', 'carol'], 'None'],
    ['the settlement contract', [], 'None'],
  ] as const) {
    test(`if the stablecoin has blocked ${name}, mints and merges are rejected, and the rejection names the side at fault`, async () => {
      const { chain, owner, collateral, settlement, settle } = world
      const hostile = await chain.deploy(owner, ours('test/HostileCollateral'), [])
      const code = await chain.publicClient.getCode({ address: hostile })
      assert.ok(code)
      await chain.setCode(collateral.address, code)
      const token = { address: collateral.address, abi: hostileCollateralAbi }
      const accounts = blocked.map((who) => world[who].address)
      for (const account of accounts.length > 0 ? accounts : [settlement.address]) {
        await chain.send(owner, token, 'setBlocked', [account, true])
      }
      for (const side of [BUY, SELL]) {
        const [verdict] = await settle(await pair(side), [fillOf()])
        assertRejected(verdict, fault, 'CollateralRefused')
      }
    })
  }
})

describe('a batch of mints and merges needs enough gas', () => {
  test('a batch of mints and merges with too little gas reverts as a whole, without rejecting a trade', async () => {
    const { chain, owner, settlement, verdicts } = world
    const buys = await pair(BUY)
    const sells = await pair(SELL)
    const fills = [fillOf({ size: UNIT }), fillOf({ buy: 2, sell: 3, size: UNIT })]
    const args = [[...buys, ...sells], fills, []] as const
    await assertReverts(
      chain.send(owner, settlement, 'settle', args, { gas: 900_000n }),
      'TooLittleGas',
      [0n],
    )
    let settledAt = 0n
    for (let gas = 200_000n; gas <= 1_600_000n; gas += 50_000n) {
      const undo = await chain.snapshot()
      const data = encodeFunctionData({ abi: settlement.abi, functionName: 'settle', args })
      const call = {
        from: owner.address,
        to: settlement.address,
        data,
        gas: `0x${gas.toString(16)}`,
      }
      const hash = (await chain.request('eth_sendTransaction', [call]).catch(() => undefined)) as
        | Hex
        | undefined
      if (hash !== undefined) {
        const receipt = await chain.publicClient.getTransactionReceipt({ hash })
        const results = verdicts(receipt)
        assert.equal(results.length, 2)
        assert.ok(
          results.every(({ settled }) => settled),
          `rejected with ${gas} gas`,
        )
        if (settledAt === 0n) settledAt = gas
      }
      await undo()
    }
    assert.ok(settledAt > 1_000_000n && settledAt < 1_600_000n, `${settledAt}`)
  })

  test('a batch of mints and merges settles as a whole with exactly the gas that an Ethereum node estimates', async () => {
    const { chain, owner, settlement, verdicts } = world
    const args = [
      [...(await pair(BUY)), ...(await pair(SELL))],
      [fillOf({ size: UNIT }), fillOf({ buy: 2, sell: 3, size: UNIT })],
      [],
    ] as const
    const gas = await chain.publicClient.estimateContractGas({
      ...{ ...settlement, functionName: 'settle', args, account: owner.address },
    })
    const receipt = await chain.send(owner, settlement, 'settle', args, { gas })
    assert.equal(verdicts(receipt).filter(({ settled }) => settled).length, 2)
  })
})
