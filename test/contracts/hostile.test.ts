/**
 * Tests traders with hostile code in their accounts (EIP-7702), and a hostile stablecoin. In every case only the
 * hostile trader's own fill fails, and the gas that the trader can burn is limited.
 */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { encodeFunctionData, type Hex } from 'viem'
import { type Contract, ours } from '#devnet/artifact.ts'
import { parseAddress } from '#domain/ids.ts'
import { ORDER_TYPES, settlementDomain } from '#domain/typed-data.ts'
import { hostileCollateralAbi } from '../../contracts/artifacts/test/HostileCollateral.abi.ts'
import { hostileReceiverAbi } from '../../contracts/artifacts/test/HostileReceiver.abi.ts'
import {
  assertReverts,
  compact,
  eventsOf,
  type Fill,
  MAX_UINT256,
  type Market,
  startWorld,
  UNIT,
  type Verdict,
  type World,
  YES,
  ZERO,
  ZERO_BYTES32,
} from './support/world.ts'

const STAKE = 1_000n * UNIT
const PRICE = 500_000n
/** Maximum gas of a hostile trader's fill, whatever the trader's code does. */
const GAS_PER_BAD_FILL_MAX = 350_000n

const MODES = {
  receiver: {
    accept: 0,
    refuse: 1,
    refuseHugely: 2,
    answerHugely: 3,
    answerWrongly: 4,
    burnGas: 5,
    callBack: 6,
  },
  token: {
    honest: 0,
    returnFalse: 1,
    returnNothing: 2,
    refuse: 3,
    refuseHugely: 4,
    answerHugely: 5,
    burnGas: 6,
    callBack: 7,
  },
} as const

let world: World
let market: Market
let restore: () => Promise<void>

before(async () => {
  world = await startWorld()
  market = await world.createMarket()
})
after(() => world.chain.close())

const fill = (terms: Partial<Fill>): Fill => ({
  buy: 0,
  sell: 1,
  seq: 1n,
  fillIndex: 0,
  price: PRICE,
  size: UNIT,
  ...terms,
})

describe('hostile code in a buyer’s account does not harm other traders', () => {
  let annsCode: Contract<typeof hostileReceiverAbi>

  before(async () => {
    const { chain, ann, bob, carol, relayer, fund } = world
    await fund(ann, { collateral: STAKE })
    await fund(carol, { collateral: STAKE })
    await fund(bob, { shares: STAKE, market: market.id })
    const code = await chain.deploy(relayer, ours('test/HostileReceiver'), [])
    const authorization = await chain.wallet(ann).signAuthorization({ contractAddress: code })
    const hash = await chain
      .wallet(relayer)
      .sendTransaction({ authorizationList: [authorization], to: relayer.address, gas: 200_000n })
    const receipt = await chain.publicClient.getTransactionReceipt({ hash })
    assert.equal(receipt.status, 'success')
    annsCode = { address: ann.address, abi: hostileReceiverAbi }
    assert.equal(
      await chain.publicClient.getCode({ address: ann.address }),
      `0xef0100${code.slice(2)}`.toLowerCase(),
    )
  })
  beforeEach(async () => {
    await restore?.()
    restore = await world.chain.snapshot()
  })

  /** Returns a batch with a hostile buyer's fill first and an honest buyer's second. */
  async function settleBoth(mode: number, target: Hex = ZERO, data: Hex = '0x') {
    const { ann, bob, carol, buy, sell, chain, owner, settlement, verdicts, relayer } = world
    await chain.send(relayer, annsCode, 'arm', [mode, target, data])
    const orders = [
      await buy(ann, market.id, { price: PRICE, size: UNIT }),
      await sell(bob, market.id, { price: PRICE, size: 2n * UNIT }),
      await buy(carol, market.id, { price: PRICE, size: UNIT }),
    ]
    const receipt = await chain.send(owner, settlement, 'settle', [
      orders,
      [fill({ buy: 0 }), fill({ buy: 2, seq: 2n })],
      [],
    ])
    const [anns, carols] = verdicts(receipt)
    assert.ok(anns && carols)
    assert.equal(carols.settled, true)
    return { anns, receipt }
  }

  test('a buyer’s account with code receives shares if its code accepts them', async () => {
    const { anns } = await settleBoth(MODES.receiver.accept)
    assert.equal(anns.settled, true)
    assert.equal(await world.shares(world.ann.address, market.id, YES), UNIT)
  })

  for (const mode of [
    'refuse',
    'refuseHugely',
    'answerHugely',
    'answerWrongly',
    'burnGas',
  ] as const) {
    test(`if a buyer’s code misbehaves (${mode}), only this buyer’s fill fails, with the buyer at fault`, async () => {
      const { ann, bob, balance } = world
      const { anns, receipt } = await settleBoth(MODES.receiver[mode])
      assert.deepEqual(!anns.settled && [anns.fault, anns.reason], ['Buyer', 'SharesRefused'])
      assert.equal(await balance(ann.address), STAKE)
      assert.equal(await balance(bob.address), PRICE)
      assert.ok(receipt.gasUsed < GAS_PER_BAD_FILL_MAX + 200_000n, `${receipt.gasUsed} gas`)
    })
  }

  test('a buyer’s code that runs during a fill cannot settle trades, even if the buyer is an operator', async () => {
    const { ann, bob, chain, owner, settlement, balance } = world
    await chain.send(owner, settlement, 'setOperator', [ann.address, true])
    const inner = encodeFunctionData({
      abi: settlement.abi,
      functionName: 'settle',
      args: [[], [], []],
    })
    const { anns, receipt } = await settleBoth(MODES.receiver.callBack, settlement.address, inner)
    assert.equal(anns.settled, true)
    const [called] = eventsOf(receipt, annsCode)
    assert.deepEqual(called?.args, { success: false, returned: '0x3ee5aeb5' })
    assert.equal(await balance(bob.address), 2n * PRICE)
  })

  test('a buyer’s code that runs during a fill cannot move other traders’ money by calling executeFill', async () => {
    const { bob, ann, settlement, carol } = world
    const inner = encodeFunctionData({
      abi: settlement.abi,
      functionName: 'executeFill',
      args: [
        {
          tradeId: market.id,
          marketId: market.id,
          buyHash: ZERO_BYTES32,
          sellHash: ZERO_BYTES32,
          buyer: carol.address,
          seller: ann.address,
          outcome: 0,
          price: 1n,
          size: 0n,
          cost: STAKE,
          positionId: await world.positionId(market.id, YES),
        },
      ],
    })
    const { receipt } = await settleBoth(MODES.receiver.callBack, settlement.address, inner)
    const [called] = eventsOf(receipt, annsCode)
    assert.equal((called?.args as { success: boolean } | undefined)?.success, false)
    assert.equal(await world.balance(carol.address), STAKE - PRICE)
    assert.equal(await world.balance(bob.address), 2n * PRICE)
  })

  test('if a buyer’s code gives the received shares away at once, the fill still settles', async () => {
    const { ann, carol, conditionalTokens, shares } = world
    const inner = encodeFunctionData({
      abi: conditionalTokens.abi,
      functionName: 'safeTransferFrom',
      args: [ann.address, carol.address, await world.positionId(market.id, YES), UNIT, '0x'],
    })
    const { anns } = await settleBoth(MODES.receiver.callBack, conditionalTokens.address, inner)
    assert.equal(anns.settled, true)
    assert.equal(await shares(ann.address, market.id, YES), 0n)
    assert.equal(await shares(carol.address, market.id, YES), 2n * UNIT)
  })

  test('fifty fills of a buyer whose code burns gas stay below the gas limit of one transaction', async () => {
    const { ann, bob, buy, sell, chain, owner, settlement, verdicts, relayer } = world
    await chain.send(relayer, annsCode, 'arm', [MODES.receiver.burnGas, ZERO, '0x'])
    const orders = [
      await buy(ann, market.id, { price: PRICE, size: 100n * UNIT }),
      await sell(bob, market.id, { price: PRICE, size: 100n * UNIT }),
    ]
    const fills = Array.from({ length: 50 }, (_, index) => fill({ fillIndex: index }))
    const receipt = await chain.send(owner, settlement, 'settle', [orders, fills, []])
    const outcome = verdicts(receipt)
    assert.equal(outcome.length, 50)
    assert.ok(outcome.every((verdict: Verdict) => !verdict.settled && verdict.fault === 'Buyer'))
    assert.ok(receipt.gasUsed < 50n * GAS_PER_BAD_FILL_MAX, `${receipt.gasUsed} gas`)
    assert.ok(receipt.gasUsed < 16_777_216n, 'EIP-7825’s limit for a transaction')
  })
})

describe('settlement withstands a stablecoin that misbehaves', () => {
  let token: Contract<typeof hostileCollateralAbi>
  let settlement: World['settlement']
  let hostile: World

  before(async () => {
    const { chain, owner, conditionalTokens } = world
    const [ann, bob] = [chain.account(13), chain.account(14)]
    token = {
      address: await chain.deploy(owner, ours('test/HostileCollateral'), []),
      abi: hostileCollateralAbi,
    }
    settlement = {
      abi: world.settlement.abi,
      address: await chain.deploy(owner, ours('Settlement'), [
        token.address,
        conditionalTokens.address,
        owner.address,
        owner.address,
        60n,
        120n,
      ]),
    }
    for (const trader of [ann, bob]) {
      await chain.send(owner, token, 'mint', [trader.address, 2n * STAKE])
      await chain.send(trader, token, 'approve', [settlement.address, MAX_UINT256])
      await chain.send(trader, token, 'approve', [conditionalTokens.address, STAKE])
      await chain.send(trader, conditionalTokens, 'setApprovalForAll', [settlement.address, true])
      if (trader === bob) {
        await chain.send(bob, conditionalTokens, 'splitPosition', [
          token.address,
          ZERO_BYTES32,
          market.id,
          [1n, 2n],
          STAKE,
        ])
      }
    }
    hostile = { ...world, settlement, ann, bob }
    restore = await world.chain.snapshot()
  })
  beforeEach(async () => {
    await restore()
    restore = await world.chain.snapshot()
  })

  async function settleOne(mode: number, target: Hex = ZERO, data: Hex = '0x') {
    const { chain, owner, ann, bob, verdicts } = hostile
    await chain.send(owner, token, 'arm', [mode, target, data])
    const expiration = (await chain.now()) + 1_000n
    const order = (side: number, trader: Hex) => ({
      marketId: market.id,
      trader,
      side,
      outcome: YES,
      price: PRICE,
      size: UNIT,
      nonce: 1n,
      expiration,
      makerFeeRecipient: ZERO,
    })
    const receipt = await chain.send(owner, settlement, 'settle', [
      [await signFor(ann, order(0, ann.address)), await signFor(bob, order(1, bob.address))],
      [fill({})],
      [],
    ])
    const [verdict] = verdicts(receipt)
    assert.ok(verdict)
    return { verdict, receipt }
  }

  async function signFor(account: World['ann'], order: Parameters<World['sign']>[1]) {
    const signature = await account.signTypedData({
      domain: settlementDomain(hostile.chain.id, parseAddress(settlement.address)!),
      types: ORDER_TYPES,
      primaryType: 'Order',
      message: order,
    })
    return { order, ...compact(signature) }
  }

  test('settlement supports a stablecoin whose transfer function returns no value', async () => {
    assert.equal((await settleOne(MODES.token.returnNothing)).verdict.settled, true)
  })

  for (const mode of [
    'returnFalse',
    'refuse',
    'refuseHugely',
    'answerHugely',
    'burnGas',
  ] as const) {
    test(`if the stablecoin misbehaves (${mode}), the fill is rejected and no trader is at fault`, async () => {
      const { verdict, receipt } = await settleOne(MODES.token[mode])
      assert.deepEqual(!verdict.settled && [verdict.fault, verdict.reason], [
        'None',
        'CollateralRefused',
      ])
      assert.ok(receipt.gasUsed < 700_000n, `${receipt.gasUsed} gas`)
      assert.equal(await tokens(hostile.bob.address), STAKE)
    })
  }

  for (const [name, blocked, fault] of [
    ['the buyer', ['ann'], 'Buyer'],
    ['the seller', ['bob'], 'Seller'],
    ['both traders', ['ann', 'bob'], 'None'],
  ] as const) {
    test(`if the stablecoin has blocked ${name}, a fill is rejected, and the rejection names the side at fault`, async () => {
      const { chain, owner } = hostile
      for (const who of blocked) {
        await chain.send(owner, token, 'setBlocked', [hostile[who].address, true])
      }
      const { verdict } = await settleOne(MODES.token.honest)
      assert.deepEqual(!verdict.settled && [verdict.fault, verdict.reason], [
        fault,
        'CollateralRefused',
      ])
    })
  }

  test('a stablecoin’s code that runs during a settlement cannot settle trades, even if the stablecoin is an operator', async () => {
    const { chain, owner } = hostile
    await chain.send(owner, settlement, 'setOperator', [token.address, true])
    const inner = encodeFunctionData({
      abi: settlement.abi,
      functionName: 'settle',
      args: [[], [], []],
    })
    const { verdict, receipt } = await settleOne(MODES.token.callBack, settlement.address, inner)
    assert.equal(verdict.settled, true)
    const called = eventsOf(receipt, token).find(({ eventName }) => eventName === 'CalledBack')
    assert.deepEqual(called?.args, { success: false, returned: '0x3ee5aeb5' })
  })

  test('a trader cannot pause settlement: only operators and the owner can', async () => {
    const { chain, bob } = hostile
    await assertReverts(chain.send(bob, settlement, 'pause', []), 'NotOperator')
  })

  const tokens = (address: Hex) => hostile.read(token, 'balanceOf', [address])
})
