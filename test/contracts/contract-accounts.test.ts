/**
 * Tests trades of accounts with code: a Safe, a test contract that is honest or hostile, and an account with a key and
 * code (EIP-7702). A hostile account can make only its own fill fail, and can burn only a limited amount of gas.
 */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { type Abi, encodeFunctionData, getAddress, type Hex } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { type Contract, ours } from '#devnet/artifact.ts'
import { toAddress } from '#domain/ids.ts'
import { ORDER_TYPES, settlementDomain } from '#domain/typed-data.ts'
import { hostileSignerAbi } from '../../contracts/artifacts/test/HostileSigner.abi.ts'
import { makeSafe } from '../support/safe.ts'
import {
  assertReverts,
  compact,
  type Fill,
  MAX_UINT256,
  type Market,
  type Order,
  type SignedOrder,
  startWorld,
  UNIT,
  UNLIMITED,
  type World,
  YES,
  ZERO,
} from './support/world.ts'

const PRICE = 500_000n
const MODES = {
  honest: 0,
  acceptAll: 1,
  refuse: 2,
  refuseHugely: 3,
  answerHugely: 4,
  answerWrongly: 5,
  answerShortly: 6,
  burnGas: 7,
  callBack: 8,
  onlyWithoutGasPrice: 9,
  onlyInOddBlocks: 10,
  onlyForCoinbase: 11,
} as const

let world: World
let market: Market
let key: PrivateKeyAccount
let account: Contract<typeof hostileSignerAbi>
let restore: () => Promise<void>

before(async () => {
  world = await startWorld()
  const { chain, owner, collateral, bob, carol, settlement, fund } = world
  market = await world.createMarket({ expiration: 4_000_000_000n })
  await fund(bob, { shares: 1_000n * UNIT, market: market.id })
  await fund(carol, { collateral: 1_000n * UNIT })
  key = chain.account(15)
  const address = await chain.deploy(owner, ours('test/HostileSigner'), [key.address])
  account = { address, abi: hostileSignerAbi }
  await chain.send(owner, collateral, 'mint', [address, 1_000n * UNIT])
  await execute(collateral, 'approve', [settlement.address, MAX_UINT256])
})
after(() => world.chain.close())
beforeEach(async () => {
  await restore?.()
  restore = await world.chain.snapshot()
})

/** Sends a call from the contract account. */
function execute(contract: Contract, functionName: string, args: readonly unknown[]) {
  const data = encodeFunctionData({ abi: contract.abi as Abi, functionName, args })
  return world.chain.send(world.relayer, account, 'execute', [contract.address, data])
}

const arm = (mode: keyof typeof MODES, target: Hex = ZERO, data: Hex = '0x') =>
  world.chain.send(world.relayer, account, 'arm', [MODES[mode], target, data])

const fill = (terms: Partial<Fill>): Fill => ({
  ...{ buy: 0, sell: 1, seq: 1n, fillIndex: 0, price: PRICE, size: UNIT },
  ...terms,
})

/** Returns a batch with a buy of the contract account, then a buy of Carol, an honest trader. */
async function batch(signer = key, trader = account.address) {
  const { bob, carol, buy, sell } = world
  const terms = { price: PRICE, size: UNIT }
  const orders = [
    await buy(signer, market.id, { ...terms, trader }),
    await sell(bob, market.id, { ...terms, size: 2n * UNIT }),
    await buy(carol, market.id, terms),
  ]
  return [orders, [fill({ buy: 0 }), fill({ buy: 2, seq: 2n })], []] as const
}

async function settleBoth(signer = key) {
  const { chain, owner, settlement, verdicts } = world
  const receipt = await chain.send(owner, settlement, 'settle', await batch(signer))
  const [contracts, carols] = verdicts(receipt)
  assert.ok(contracts && carols)
  assert.equal(carols.settled, true)
  const reason = contracts.settled ? 'settled' : `${contracts.reason} (${contracts.fault})`
  return { reason, gas: receipt.gasUsed }
}

describe('a contract account can trade', () => {
  test('a contract account’s trades settle only with a signature that its code accepts', async () => {
    assert.equal((await settleBoth()).reason, 'settled')
    assert.equal(await world.shares(account.address, market.id, YES), UNIT)
    assert.equal((await settleBoth(world.bob)).reason, 'InvalidSignature (Buyer)')
  })

  test('a contract account cancels orders and appoints delegates by signatures that its code accepts', async () => {
    const { chain, settlement, delegates, relayer } = world
    const { signCancellation, signEpoch, signDelegation, read } = world
    const trader = account.address
    const [[order]] = await batch()
    assert.ok(order)
    const cancellation = await signCancellation(key, [order.order], { trader })
    await chain.send(relayer, settlement, 'cancelOrdersWithPermit', cancellation)
    await chain.send(
      ...([relayer, settlement] as const),
      'cancelAllBeforeWithPermit',
      await signEpoch(key, 3n, { trader }),
    )
    assert.equal((await read(settlement, 'epochOf', [trader]))[1], 3n)
    const until = (await chain.now()) + 86_400n
    const delegation = await signDelegation(key, world.ann.address, until, { account: trader })
    await chain.send(relayer, delegates, 'setDelegateWithPermit', delegation)
    await arm('refuse')
    assert.equal((await settleBoth(world.ann)).reason, 'settled')
    assert.equal((await settleBoth(key)).reason, 'InvalidSignature (Buyer)')
  })

  for (const mode of [
    'refuse',
    'refuseHugely',
    'answerWrongly',
    'answerShortly',
    'burnGas',
    'onlyWithoutGasPrice',
  ] as const) {
    test(`if a contract account’s code misbehaves (${mode}), its fill fails with InvalidSignature and limited gas`, async () => {
      const honest = await settleBoth()
      await arm(mode)
      const { reason, gas } = await settleBoth()
      assert.equal(reason, 'InvalidSignature (Buyer)')
      assert.ok(gas < honest.gas + 130_000n, `${gas} gas, honest ${honest.gas}`)
    })
  }

  test('if a contract account’s code returns very long data, the settlement costs little more gas', async () => {
    const honest = await settleBoth()
    await arm('answerHugely')
    const { reason, gas } = await settleBoth()
    assert.equal(reason, 'settled')
    assert.ok(gas < honest.gas + 60_000n, `${gas} gas, honest ${honest.gas}`)
  })

  test('while its code checks a signature, a contract account can neither settle trades nor appoint delegates', async () => {
    const { chain, owner, settlement, delegates, ann, read } = world
    await chain.send(owner, settlement, 'setOperator', [account.address, true])
    const inner = encodeFunctionData({
      ...{ abi: settlement.abi, functionName: 'settle' },
      args: [[], [], []],
    })
    await arm('callBack', settlement.address, inner)
    assert.equal((await settleBoth()).reason, 'InvalidSignature (Buyer)')
    const appoint = encodeFunctionData({
      ...{ abi: delegates.abi, functionName: 'setDelegate' },
      args: [ann.address, 2n ** 40n, UNLIMITED],
    })
    await arm('callBack', delegates.address, appoint)
    assert.equal((await settleBoth()).reason, 'InvalidSignature (Buyer)')
    assert.equal(await read(delegates, 'settlesUntil', [account.address, ann.address]), 0n)
  })

  test('a batch reverts unless its gas covers the most expensive signature checks of its contract accounts', async () => {
    const { chain, bob, owner, settlement, sell, buy, verdicts } = world
    const terms = { price: PRICE, size: UNIT }
    const orders: SignedOrder[] = [await sell(bob, market.id, { ...terms, size: 20n * UNIT })]
    const fills: Fill[] = []
    for (let at = 1; at <= 20; at++) {
      orders.push(await buy(key, market.id, { ...terms, trader: account.address }))
      fills.push(fill({ buy: at, sell: 0, seq: BigInt(at) }))
    }
    const needed = 20n * (350_000n + 130_000n) + 150_000n
    const honest = chain.send(owner, settlement, 'settle', [orders, fills, []], { gas: needed })
    await assertReverts(honest, 'TooLittleGas')
    await arm('burnGas')
    const enough = { gas: needed + 800_000n }
    const receipt = await chain.send(owner, settlement, 'settle', [orders, fills, []], enough)
    assert.equal(verdicts(receipt).length, 20)
    assert.ok(receipt.gasUsed < 20n * 180_000n, `${receipt.gasUsed} gas`)
  })

  test('a batch reverts unless its gas covers the gas that its permits can burn', async () => {
    const { chain, owner, settlement, ann, usdcPermit } = world
    const [orders, fills] = await batch()
    const permit = await usdcPermit(ann, settlement.address, 1n)
    const permits = Array.from({ length: 20 }, () => permit)
    const send = (gas: bigint) =>
      chain.send(owner, settlement, 'settle', [orders, fills, permits], { gas })
    const withoutPermits = 2n * 350_000n + 130_000n + 150_000n
    await assertReverts(send(withoutPermits + 20n * 60_000n), 'TooLittleGas')
    const receipt = await send(withoutPermits + 20n * 120_000n)
    assert.equal(world.verdicts(receipt).length, 2)
  })

  test('during a simulated settlement, a contract account’s code sees the real block number and miner', async () => {
    const { chain, owner, settlement } = world
    const settleCall = await batch()
    const simulate = async () => {
      const { result } = await chain.publicClient.simulateContract({
        ...{ address: settlement.address, abi: settlement.abi, account: owner },
        ...{ functionName: 'settle', args: settleCall },
      })
      return result
    }
    await arm('onlyForCoinbase', (await chain.publicClient.getBlock()).miner ?? ZERO)
    assert.equal(await simulate(), '0x0000')
    await arm('onlyForCoinbase', getAddress(`0x${'11'.repeat(20)}`))
    assert.equal((await simulate()).slice(0, 4), '0x49')
    await arm('onlyInOddBlocks')
    const first = await simulate()
    await chain.request('hardhat_mine', ['0x1'])
    assert.notEqual(await simulate(), first)
  })
})

describe('a Safe wallet with one owner can trade', () => {
  test('a Safe wallet with one owner buys and sells by signatures of its owner', async () => {
    const { chain, owner, collateral, settlement, trade, shares, bob, sell, hashOrder } = world
    const safe = await makeSafe(chain, owner, key)
    await chain.send(owner, collateral, 'mint', [safe.address, 100n * UNIT])
    await safe.execute(collateral, 'approve', [settlement.address, MAX_UINT256])
    const order: Order = {
      ...{ marketId: market.id, trader: safe.address, side: 0, outcome: YES, price: PRICE },
      ...{ size: UNIT, nonce: 1n, expiration: (await chain.now()) + 3_600n },
      makerFeeRecipient: ZERO,
    }
    const signed = { order, ...compact(await safe.sign(hashOrder(order))) }
    const before = (await chain.publicClient.getBlock()).gasUsed
    const verdict = await trade(signed, await sell(bob, market.id, { price: PRICE, size: UNIT }))
    assert.equal(verdict.settled, true, String(before))
    assert.equal(await shares(safe.address, market.id, YES), UNIT)
    const plain = await key.signTypedData({
      domain: settlementDomain(chain.id, toAddress(settlement.address)),
      ...{ types: ORDER_TYPES, primaryType: 'Order', message: { ...order, nonce: 2n } },
    })
    const unsigned = { order: { ...order, nonce: 2n }, ...compact(plain) }
    const refused = await trade(unsigned, await sell(bob, market.id, { price: PRICE, size: UNIT }))
    assert.equal(refused.settled ? '' : refused.reason, 'InvalidSignature')
  })
})
