/**
 * Measures the gas of a fill in batches of 1, 10 and 50. The same fifty trades are settled from the same state in
 * batches of each size. The gas of all transactions is then divided by fifty.
 */
import assert from 'node:assert/strict'
import type { PrivateKeyAccount } from 'viem/accounts'
import { marketAbi } from '../../../contracts/artifacts/Market.abi.ts'
import type { Fill, SignedOrder, World } from './world.ts'
import { NO, UNIT } from './world.ts'

export const BATCHES = [1, 10, 50] as const
const TRADES = 50

type Trade = { buy: SignedOrder; sell: SignedOrder; size: bigint; price: bigint }
export type Flow = { name: string; trades: Trade[] }
export type GasRow = { flow: string; gasPerFill: number[]; ratio: number }

/** Makes flows (lists of trades). The flows differ in how much storage the trades of a batch share. */
export async function gasFlows(world: World): Promise<Flow[]> {
  // With a fixed expiration the market id is the same in each run, and so is the gas to compute its position ids.
  const market = await world.createMarket({ expiration: 2_000_000_000n })
  const traders = Array.from({ length: 2 * TRADES }, (_, index) => world.chain.account(20 + index))
  for (const trader of traders) {
    await world.chain.request('hardhat_setBalance', [trader.address, '0xde0b6b3a7640000'])
    await world.chain.request('hardhat_impersonateAccount', [trader.address])
    await world.fund(trader, {
      collateral: 1_000n * UNIT,
      shares: 1_000n * UNIT,
      market: market.id,
    })
  }
  const at = (index: number): PrivateKeyAccount => traders[index % traders.length]!
  const buy = (trader: PrivateKeyAccount, size: bigint) =>
    world.buy(trader, market.id, { price: 600_000n, size })
  const sell = (trader: PrivateKeyAccount, size: bigint) =>
    world.sell(trader, market.id, { price: 500_000n, size })
  const price = 500_000n

  const sweepTaker = await buy(at(0), BigInt(TRADES) * UNIT)
  const sweep: Trade[] = []
  for (let i = 1; i <= TRADES; i += 1) {
    sweep.push({ buy: sweepTaker, sell: await sell(at(i), UNIT), size: UNIT, price })
  }

  // Ten traders trade. Each incoming order fills two or three resting orders completely and one more partly, as is
  // usual for orders of similar size.
  const mixed: Trade[] = []
  let resting = await sell(at(1), 5n * UNIT)
  let restingLeft = 5n * UNIT
  for (let taker = 0; mixed.length < TRADES; taker += 1) {
    const incoming = await buy(at(taker % 5), 15n * UNIT)
    let left = 15n * UNIT
    while (left > 0n && mixed.length < TRADES) {
      let size = left
      if (restingLeft < size) size = restingLeft
      mixed.push({ buy: incoming, sell: resting, size, price })
      left -= size
      restingLeft -= size
      if (restingLeft === 0n) {
        restingLeft = BigInt(4 + (mixed.length % 3)) * UNIT
        resting = await sell(at(5 + (mixed.length % 5)), restingLeft)
      }
    }
  }

  const strangers: Trade[] = []
  for (let i = 0; i < TRADES; i += 1) {
    const [b, s] = [await buy(at(2 * i), UNIT), await sell(at(2 * i + 1), UNIT)]
    strangers.push({ buy: b, sell: s, size: UNIT, price })
  }

  const mintTaker = await world.buy(at(0), market.id, {
    ...{ price: 500_000n, size: BigInt(TRADES) * UNIT, outcome: NO },
  })
  const mintSweep: Trade[] = []
  const mints: Trade[] = []
  const merges: Trade[] = []
  for (let i = 0; i < TRADES; i += 1) {
    const terms = { price, size: UNIT }
    mintSweep.push({ ...terms, buy: await buy(at(i + 1), UNIT), sell: mintTaker })
    const other = { ...terms, outcome: NO }
    const [first, second] = [at(2 * i), at(2 * i + 1)]
    const otherBuy = await world.buy(second, market.id, other)
    mints.push({ ...terms, buy: await buy(first, UNIT), sell: otherBuy })
    const otherSell = await world.sell(first, market.id, other)
    merges.push({ ...terms, buy: otherSell, sell: await sell(second, UNIT) })
  }

  return [
    { name: 'one taker sweeps fifty resting orders', trades: sweep },
    { name: 'ten traders, orders that match several', trades: mixed },
    { name: 'a hundred strangers, one trade each', trades: strangers },
    { name: 'one taker mints with fifty resting orders', trades: mintSweep },
    { name: 'a hundred strangers, one mint each', trades: mints },
    { name: 'a hundred strangers, one merge each', trades: merges },
  ]
}

export async function measure(world: World, flow: Flow): Promise<GasRow> {
  const gasPerFill: number[] = []
  for (const batch of BATCHES) {
    const undo = await world.chain.snapshot()
    let gas = 0n
    for (let from = 0; from < flow.trades.length; from += batch) {
      const [orders, fills] = pack(flow.trades.slice(from, from + batch), from)
      const receipt = await world.chain.send(world.owner, world.settlement, 'settle', [
        orders,
        fills,
        [],
      ])
      assert.ok(world.verdicts(receipt).every(({ settled }) => settled))
      assert.equal(world.verdicts(receipt).length, fills.length)
      gas += receipt.gasUsed
    }
    gasPerFill.push(Math.round(Number(gas) / flow.trades.length))
    await undo()
  }
  return { flow: flow.name, gasPerFill, ratio: gasPerFill.at(-1)! / gasPerFill[0]! }
}

/** Measures the gas of calls other than `settle`. */
export async function measureOperations(world: World): Promise<[string, bigint][]> {
  const { chain, ann, relayer, maker, quickOperator, owner } = world
  const { factory, settlement, conditionalTokens, collateral } = world
  const rows: [string, bigint][] = []
  const measured = (name: string, receipt: { gasUsed: bigint }) =>
    rows.push([name, receipt.gasUsed])

  const expiration = (await chain.now()) + 600n
  const words = ['Will ETH close above 5,000 USD on Friday?', 'By the closing price.', 0] as const
  const args = [...words, expiration] as const
  const [address, id] = await world.read(factory, 'predictMarket', [maker.address, ...args])
  measured('`createMarket`', await chain.send(maker, factory, 'createMarket', args))
  const otherArgs = [words[0], 'By another price.', words[2], expiration] as const
  measured(
    '`createComplementaryMarket`',
    await chain.send(maker, factory, 'createComplementaryMarket', otherArgs),
  )
  const market = { address, id, abi: marketAbi, expiration }
  const start = (await chain.now()) + 1n
  const [quick] = await world.read(factory, 'predictQuickMarket', ['BTC', start, 60])
  const quickArgs = ['BTC', start, 60, 6_000_000_000_000n, 'pyth'] as const
  measured(
    '`createQuickMarket`',
    await chain.send(quickOperator, factory, 'createQuickMarket', quickArgs),
  )
  await world.fund(ann, { collateral: 1_000n * UNIT, shares: UNIT, market: id })
  const order = await world.buy(ann, id, { price: 1n, size: 1n })
  measured(
    '`cancelOrders`, one',
    await chain.send(ann, settlement, 'cancelOrders', [[order.order]]),
  )
  const cancellation = await world.signCancellation(ann, [
    (await world.buy(ann, id, { price: 1n, size: 1n })).order,
  ])
  measured(
    '`cancelOrdersWithPermit`, one',
    await chain.send(relayer, settlement, 'cancelOrdersWithPermit', cancellation),
  )
  measured(
    '`cancelAllBeforeWithPermit`',
    await chain.send(
      relayer,
      settlement,
      'cancelAllBeforeWithPermit',
      await world.signEpoch(ann, 1n),
    ),
  )
  const approval = await world.signApproval(ann, owner.address, true)
  measured(
    '`setApprovalForAllWithPermit`',
    await chain.send(relayer, conditionalTokens, 'setApprovalForAllWithPermit', [
      ann.address,
      owner.address,
      true,
      approval.deadline,
      approval.v,
      approval.r,
      approval.s,
    ]),
  )
  const permit = await world.usdcPermit(ann, relayer.address, UNIT)
  measured(
    '`permit` of the stablecoin',
    await chain.send(relayer, collateral, 'permit', [
      ann.address,
      relayer.address,
      UNIT,
      permit.deadline,
      permit.v,
      permit.r,
      permit.s,
    ]),
  )
  await chain.warpTo(expiration)
  measured(
    '`resolveQuickMarket`',
    await chain.send(quickOperator, factory, 'resolveQuickMarket', [
      quick,
      6_000_000_000_000n,
      6_000_000_000_001n,
      'pyth',
    ]),
  )
  const proposal = await world.signProposal(ann, market, true)
  const bond = await world.bondPermit(ann, market)
  measured(
    '`proposeResolution` with a bond permit',
    await chain.send(relayer, market, 'proposeResolution', [...proposal, bond]),
  )
  await chain.warp(7_200)
  const settling = await world.signSettlement(ann, market, 0)
  measured('`settleMarket`', await chain.send(relayer, market, 'settleMarket', settling))
  const redemption = await world.signRedemption(ann, id)
  measured(
    '`redeemPositionsWithPermit`, both outcomes',
    await chain.send(relayer, conditionalTokens, 'redeemPositionsWithPermit', redemption),
  )
  return rows
}

/**
 * Returns the orders without repetition, and fills that refer to them by index. The settlement actor makes batches in
 * the same way.
 */
function pack(trades: Trade[], from: number): [SignedOrder[], Fill[]] {
  const orders = [...new Set(trades.flatMap(({ buy, sell }) => [buy, sell]))]
  const fills = trades.map(({ buy, sell, size, price }, index) => ({
    buy: orders.indexOf(buy),
    sell: orders.indexOf(sell),
    seq: BigInt(1_000 + from + index),
    fillIndex: 0,
    price,
    size,
  }))
  return [orders, fills]
}
