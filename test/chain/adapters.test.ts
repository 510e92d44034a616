/** Each contract through its adapter, on a real chain: reads, calls, events, and why a call reverts. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Call, simulate } from '#chain/call.ts'
import { type ChainLog, chainLog } from '#chain/chain-log.ts'
import { type ChainClient, makeChainClient } from '#chain/clients.ts'
import { conditionalTokens, tokenEvent } from '#chain/conditional-tokens.ts'
import { marketContract, resolutionEvent } from '#chain/market-contract.ts'
import {
  factoryEvent,
  marketFactory,
  quickDescription,
  quickQuestion,
} from '#chain/market-factory.ts'
import { multicall } from '#chain/multicall.ts'
import {
  SETTLEMENT_FAULTS,
  SETTLEMENT_REASONS,
  settlementContract,
  settlementEvent,
} from '#chain/settlement-contract.ts'
import { stablecoin } from '#chain/stablecoin.ts'
import {
  type Address,
  type MarketId,
  type OrderHash,
  toAddress,
  tradeId,
  type Uint64,
} from '#domain/ids.ts'
import type { Order } from '#domain/order.ts'
import type { Mark, QuickMarket, QuickResolution } from '#domain/quick-market.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeQuickMarketLane } from '#services/prices/chain/quick-market-lane.ts'
import { REASONS, startWorld, UNIT, type World } from '../contracts/support/world.ts'
import { type RpcProxy, startRpcProxy } from '../support/rpc-proxy.ts'
import { oracle, oracleEvent } from './oracle.ts'

let world: World
let proxy: RpcProxy
let client: ChainClient

before(async () => {
  world = await startWorld()
  proxy = await startRpcProxy(world.chain)
  client = makeChainClient({ chainId: world.chain.id, rpcUrls: [proxy.url] })
})
after(async () => {
  await proxy.close()
  await world.chain.close()
})

/** Sends a call as the signer, and returns the logs of its receipt. */
async function send(from: { address: string }, call: Call): Promise<ChainLog[]> {
  const { request, publicClient } = world.chain
  const hash = (await request('eth_sendTransaction', [
    { from: from.address, to: call.to, data: call.data, gas: '0xf42400' },
  ])) as `0x${string}`
  const receipt = await publicClient.getTransactionReceipt({ hash })
  assert.equal(receipt.status, 'success')
  return receipt.logs.map((log) => chainLog(log)).filter((log) => log !== undefined)
}

async function words(call: Call, from: { address: string }): Promise<string> {
  const tried = await simulate(client, call, toAddress(from.address))
  assert(!tried.ok, 'expected a revert')
  return `${tried.revert.name}: ${tried.revert.words}`
}

test('a disputed market is followed from its creation to a redemption', async () => {
  const { chain, maker, ann, bob, owner } = world
  const factory = marketFactory(client, toAddress(world.factory.address))
  const tokens = conditionalTokens(
    client,
    toAddress(world.conditionalTokens.address),
    toAddress(world.collateral.address),
  )
  const coin = stablecoin(client, toAddress(world.collateral.address))
  const umaOracle = oracle(client, toAddress(world.oracle.address))
  const expirationSec = Number(await chain.now()) + 1_000
  const words1 = {
    question: 'Will it rain?',
    description: 'By the gauge.',
    category: 'protocol',
    expirationSec,
  } as const
  assert.match(await words(factory.createCall(words1), ann), /^NotMaker: 0x.* may not create/)
  const predicted = await factory.predict(toAddress(maker.address), words1)
  const [created] = (await send(maker, factory.createCall(words1))).flatMap(
    (log) => factoryEvent(log) ?? [],
  )
  assert(created?.type === 'MarketCreated')
  assert.deepEqual(
    [created.market, created.marketId, created.maker, created.category, created.expirationSec],
    [predicted.market, predicted.marketId, toAddress(maker.address), 'protocol', expirationSec],
  )
  assert.equal(await factory.isMarket(created.market), true)
  assert.match(await words(factory.createCall(words1), maker), /^MarketExists/)
  const { marketId } = created
  const market = marketContract(client, created.market)
  assert.equal(await market.marketId(), marketId)
  assert.equal((await market.terms()).question, words1.question)

  // Ids of tokens are computed as the contract computes them.
  for (const outcome of [0, 1] as const) {
    assert.equal(
      BigInt(tokens.positionId(marketId, outcome)),
      await world.positionId(marketId as `0x${string}`, outcome),
    )
  }
  await send(owner, coin.mintCall(toAddress(ann.address), 100n * UNIT))
  await send(ann, coin.approveCall(tokens.address, 100n * UNIT))
  const split = (await send(ann, tokens.splitCall(marketId, 60n * UNIT))).flatMap(
    (log) => tokenEvent(log) ?? [],
  )
  assert.deepEqual(
    split.map(({ type }) => type),
    ['TokensMoved', 'PositionSplit'],
  )
  await send(ann, tokens.mergeCall(marketId, 10n * UNIT))
  await send(
    ann,
    tokens.transferCall(toAddress(ann.address), toAddress(bob.address), {
      marketId,
      outcome: 1,
      amount: UNIT,
    }),
  )
  const held = await tokens.balances([
    { holder: toAddress(ann.address), marketId },
    { holder: toAddress(bob.address), marketId },
  ])
  assert.deepEqual(held.shares, [
    [50n * UNIT, 49n * UNIT],
    [0n, UNIT],
  ])
  assert.equal(await coin.balanceOf(toAddress(ann.address)), 50n * UNIT)
  assert.match(await words(tokens.redeemCall(marketId), ann), /^Error: result for condition/)
  assert.match(
    await words(coin.transferCall(toAddress(bob.address), 1_000n * UNIT), ann),
    /^ERC20InsufficientBalance: the balance of 0x/,
  )

  // Proposed, disputed and overturned; then proposed again and settled.
  assert.match(await words(market.proposeCall(true), bob), /^NotExpired: the market cannot be/)
  await chain.warp(1_001)
  const bond = await market.bond()
  assert(bond >= (await umaOracle.minimumBond(coin.address)))
  for (const account of [ann, bob]) {
    await send(owner, coin.mintCall(toAddress(account.address), 10n * bond))
    await send(account, coin.approveCall(market.address, 10n * bond))
    await send(account, coin.approveCall(umaOracle.address, 10n * bond))
  }
  const proposed = (await send(bob, market.proposeCall(false))).flatMap(
    (log) => resolutionEvent(log) ?? [],
  )
  assert.equal(proposed[0]?.type, 'ResolutionProposed')
  const assertion = await market.assertion()
  assert(assertion !== undefined)
  assert.deepEqual(
    [assertion.proposer, assertion.outcome, assertion.disputed, assertion.bond],
    [toAddress(bob.address), false, false, bond],
  )
  const disputed = await send(ann, umaOracle.disputeCall(assertion.id, toAddress(ann.address)))
  assert(disputed.some((log) => oracleEvent(log)?.type === 'AssertionDisputed'))
  assert(disputed.some((log) => resolutionEvent(log)?.type === 'ResolutionDisputed'))
  assert.equal((await umaOracle.assertion(assertion.id))?.disputer, toAddress(ann.address))
  assert.match(await words(market.settleCall(), ann), /^(Error|0x|:|Panic)/)

  // Another market, undisputed: the redemption pays.
  const other = await world.createMarket()
  const second = marketContract(client, toAddress(other.address))
  const secondId = other.id as string as MarketId
  await send(ann, coin.approveCall(tokens.address, 10n * UNIT))
  await send(ann, tokens.splitCall(secondId, 10n * UNIT))
  await chain.warpTo(other.expiration)
  await send(bob, coin.approveCall(second.address, 10n * bond))
  await send(bob, second.proposeCall(true))
  await chain.warp(7_201)
  const settled = await send(ann, second.settleCall())
  assert.deepEqual(
    settled.flatMap((log) => resolutionEvent(log)?.type ?? []),
    ['MarketResolved', 'MarketSettled'],
  )
  assert(settled.some((log) => tokenEvent(log)?.type === 'ConditionResolved'))
  assert.equal(await second.winner(), 0)
  assert.deepEqual(await tokens.payouts(secondId), { numerators: [1n, 0n], denominator: 1n })
  const redeemed = (await send(ann, tokens.redeemCall(secondId))).flatMap(
    (log) => tokenEvent(log) ?? [],
  )
  const payout = redeemed.find(({ type }) => type === 'PayoutRedeemed')
  assert(payout?.type === 'PayoutRedeemed')
  assert.deepEqual([payout.holder, payout.payout], [toAddress(ann.address), 10n * UNIT])
  assert.match(await words(second.proposeCall(true), bob), /^AlreadyResolved: .* YES won/)
})

test('the texts of quick markets equal those in their contract', async () => {
  const { chain, quickOperator } = world
  const factory = marketFactory(client, toAddress(world.factory.address))
  const startSec = Number(await chain.now())
  const quick = { asset: 'BTC', startSec, intervalSec: 900 }
  const prices = { startPrice: 6_500_000_000_000n, source: 'pyth' }
  const [opened] = (
    await send(quickOperator, factory.createQuickCall({ ...quick, ...prices }))
  ).flatMap((log) => factoryEvent(log) ?? [])
  assert(opened?.type === 'QuickMarketCreated')
  assert.deepEqual(await factory.predictQuick(quick), {
    market: opened.market,
    marketId: opened.marketId,
  })
  const terms = await marketContract(client, opened.market).terms()
  assert.equal(terms.question, quickQuestion('BTC'))
  assert.equal(terms.description, quickDescription({ ...prices, startSec, endSec: opened.endSec }))
  await chain.warp(901)
  const end = { startPrice: prices.startPrice, endPrice: prices.startPrice - 1n, source: 'pyth' }
  const resolved = await send(quickOperator, factory.resolveQuickCall(opened.market, end))
  const told = resolved.flatMap((log) => factoryEvent(log) ?? [])
  assert.deepEqual(
    told.map((event) => event.type === 'QuickMarketResolved' && event.winningOutcome),
    [1],
  )
})

test('the operator’s lane opens a contested market to the oracle once, and recognises it as open after a restart', async () => {
  const { chain, quickOperator } = world
  const contracts = {
    marketFactory: toAddress(world.factory.address),
    conditionalTokens: toAddress(world.conditionalTokens.address),
    stablecoin: toAddress(world.collateral.address),
  }
  const factory = marketFactory(client, contracts.marketFactory)
  const startSec = Number(await chain.now())
  const terms = { asset: 'ETH', startSec, intervalSec: 900 }
  await send(quickOperator, factory.createQuickCall({ ...terms, startPrice: 5n, source: 'pyth' }))
  const { market: contractAddress, marketId } = await factory.predictQuick(terms)
  await chain.warp(901)
  const rows = new Map<number, TransactionRow>()
  const lane = makeQuickMarketLane({
    ...{ client, contracts, clock: systemClock, policy: { confirmations: 0 } },
    own: { account: quickOperator, address: toAddress(quickOperator.address) },
    journal: {
      load: async () => ({ rows: [], lastNonce: -1 }),
      save: async (row) => void rows.set(row.nonce, row),
    },
    ...{ pollMs: 20, idlePollMs: 20, onTrouble: () => undefined },
  })
  const said = (source: 'pyth' | 'binance', price: number, end: number) => ({
    ...{ source, start: { price, atMs: 1 } as Mark, end: { price: end, atMs: 2 } as Mark },
    counts: true,
  })
  const sources = [said('pyth', 5, 4), said('binance', 5, 6)]
  const contested = { sources } as unknown as QuickResolution
  const quickMarket = { ...terms, marketId, contractAddress, contested } as unknown as QuickMarket
  lane.start()
  try {
    assert.match(await lane.openToOracle(quickMarket), /^0x[0-9a-f]{64}$/)
    const { description, proposableFromSec, expirationSec } = await marketContract(
      client,
      contractAddress,
    ).terms()
    assert.equal(proposableFromSec, expirationSec)
    assert.match(description, /pyth said 5 at 1, then 4 at 2; binance said 5 at 1, then 6 at 2\.$/)
    assert.equal(await lane.openToOracle(quickMarket), '', 'it is open already')
  } finally {
    lane.stop()
  }
})

test('the adapter’s call settles trades, and each event reports the result of one trade', async () => {
  const { ann, bob, owner } = world
  const settlement = settlementContract(client, toAddress(world.settlement.address))
  const market = await world.createMarket()
  const marketId = market.id as string as MarketId
  await world.fund(ann, { collateral: 100n * UNIT })
  await world.fund(bob, { shares: 100n * UNIT, market: market.id })
  const signed = async (account: typeof ann, side: 0 | 1, nonce: string) => {
    const order = {
      marketId,
      trader: toAddress(account.address),
      side,
      outcome: 0,
      price: 600_000,
      size: 10_000_000,
      nonce: nonce as Uint64,
      expiration: String((await world.chain.now()) + 3_600n) as Uint64,
      makerFeeRecipient: `0x${'0'.repeat(40)}` as Address,
    } as unknown as Order
    const message = {
      ...order,
      marketId: market.id,
      trader: account.address,
      price: 600_000n,
      size: 10_000_000n,
      nonce: BigInt(nonce),
      expiration: BigInt(order.expiration),
      makerFeeRecipient: `0x${'0'.repeat(40)}` as const,
    }
    const { ORDER_TYPES, settlementDomain } = await import('#domain/typed-data.ts')
    const signature = await account.signTypedData({
      domain: settlementDomain(world.chain.id, settlement.address),
      types: ORDER_TYPES,
      primaryType: 'Order',
      message,
    })
    return { order, signature, orderHash: world.hashOrder(message) as string as OrderHash }
  }
  const buy = await signed(ann, 0, '1')
  const sell = await signed(bob, 1, '2')
  const fill = { buy: 0, sell: 1, seq: 7, fillIndex: 0, price: 600_000, size: 10_000_000 }
  const call = settlement.settleCall([buy, sell], [fill, { ...fill, seq: 8 }], [])
  assert.match(await words(call, ann), /^NotOperator/)
  assert.equal(await settlement.isOperator(toAddress(owner.address)), true)
  const tried = await simulate(client, call, toAddress(owner.address))
  assert(tried.ok && tried.gas > 100_000n)

  const [settled, rejected] = (await send(owner, call)).flatMap((log) =>
    log.address === settlement.address ? (settlementEvent(log) ?? []) : [],
  )
  assert(settled?.type === 'TradeSettled')
  const key = settlement.tradeKeyOf({
    tradeId: tradeId(marketId, 7, 0),
    buyOrderHash: buy.orderHash,
    sellOrderHash: sell.orderHash,
    price: 600_000 as never,
    size: 10_000_000 as never,
  })
  assert.deepEqual(
    [settled.tradeKey, settled.buyer, settled.cost, settled.outcome],
    [key, toAddress(ann.address), 6_000_000n, 0],
  )
  assert(rejected?.type === 'TradeRejected')
  assert.deepEqual([rejected.fault, rejected.reason], ['both', 'OrderOverfilled'])
  const asked = { tradeKey: key, buyHash: buy.orderHash, sellHash: sell.orderHash }
  assert.deepEqual(
    await settlement.areSettled([asked, { ...asked, tradeKey: rejected.tradeKey }]),
    [true, false],
  )
  assert.deepEqual(await settlement.orderState(buy.orderHash), {
    filled: 10_000_000n,
    cancelledFromSec: 0,
  })
  assert.deepEqual([...SETTLEMENT_REASONS], [...REASONS])
  assert.equal(SETTLEMENT_FAULTS.length, 4)
})

test('several calls are sent in one, and the reason is returned if one of them reverts', async () => {
  const coin = stablecoin(client, toAddress(world.collateral.address))
  const many = multicall(toAddress(world.multicall.address))
  const calls = [
    coin.approveCall(toAddress(world.bob.address), 1n),
    coin.mintCall(coin.address, 1n),
  ]
  const tried = await simulate(
    client,
    many.aggregateCall(calls, true),
    toAddress(world.ann.address),
  )
  assert(tried.ok)
  const [approved, minted] = many.resultsOf(tried.returned)
  assert.equal(approved?.ok, true)
  assert(minted?.ok === false)
  assert.equal(minted.revert.name, 'OwnableUnauthorizedAccount')
  assert.match(await words(many.aggregateCall(calls), world.ann), /^Error: Multicall3: call failed/)
})
