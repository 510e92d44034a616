/** Tests the adapter of each contract on a real chain: reads, calls, events, and the reasons of reverts. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Hex, parseAbi, zeroHash } from 'viem'
import { type Call, callOf, hexAddress, readerOf, simulate } from '#chain/call.ts'
import { type ChainLog, decoded } from '#chain/chain-log.ts'
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
import { positionIdOf } from '#chain/position-id.ts'
import {
  SETTLEMENT_FAULTS,
  SETTLEMENT_REASONS,
  settlementContract,
  settlementEvent,
} from '#chain/settlement-contract.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import {
  type Address,
  type MarketId,
  type OrderHash,
  toAddress,
  tradeId,
  type Uint64,
} from '#domain/ids.ts'
import { CATEGORIES } from '#domain/market.ts'
import type { Order } from '#domain/order.ts'
import type { Mark, QuickMarket, QuickResolution } from '#domain/quick-market.ts'
import type { TransactionRow } from '#domain/transaction.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeQuickMarketLane } from '#services/prices/chain/quick-market-lane.ts'
import { REASONS, startWorld, UNIT, type World } from '../contracts/support/world.ts'
import { type RpcProxy, startRpcProxy } from '../support/rpc-proxy.ts'

/** The functions and the event of UMA's OptimisticOracleV3 that a dispute needs. */
const oracleAbi = parseAbi([
  'struct EscalationManagerSettings { bool arbitrateViaEscalationManager; bool discardOracle; bool validateDisputers; address assertingCaller; address escalationManager; }',
  'struct Assertion { EscalationManagerSettings escalationManagerSettings; address asserter; uint64 assertionTime; bool settled; address currency; uint64 expirationTime; bool settlementResolution; bytes32 domainId; bytes32 identifier; uint256 bond; address callbackRecipient; address disputer; }',
  'function getAssertion(bytes32 assertionId) view returns (Assertion)',
  'function getMinimumBond(address currency) view returns (uint256)',
  'function disputeAssertion(bytes32 assertionId, address disputer)',
  'event AssertionDisputed(bytes32 indexed assertionId, address indexed caller, address indexed disputer)',
])

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

const factoryAddress = () => toAddress(world.factory.address)
const readFactory = () => readerOf(client, factoryAddress(), marketFactoryAbi)

/** Sends a call as the signer, and returns the logs of its receipt. */
async function send(from: { address: string }, call: Call): Promise<ChainLog[]> {
  const { request, publicClient } = world.chain
  const hash = (await request('eth_sendTransaction', [
    { from: from.address, to: call.to, data: call.data, gas: '0xf42400' },
  ])) as `0x${string}`
  const receipt = await publicClient.getTransactionReceipt({ hash })
  assert.equal(receipt.status, 'success')
  return receipt.logs.map(({ address, blockNumber, transactionHash: txHash, ...log }) => ({
    ...log,
    ...{ address: toAddress(address), blockNumber: Number(blockNumber), txHash },
  }))
}

async function words(call: Call, from: { address: string }): Promise<string> {
  const tried = await simulate(client, call, toAddress(from.address))
  assert(!tried.ok, 'expected a revert')
  return `${tried.revert.name}: ${tried.revert.words}`
}

test('the chain adapters read every event of a disputed market, from its creation to a redemption', async () => {
  const { chain, maker, ann, bob, owner } = world
  const factory = marketFactory(client, factoryAddress())
  const tokensAddress = toAddress(world.conditionalTokens.address)
  const tokens = conditionalTokens(client, tokensAddress, toAddress(world.collateral.address))
  const mint = (to: Address, amount: bigint) =>
    callOf(coin, testUSDCAbi, 'mint', [hexAddress(to), amount])
  const approve = (spender: Address, amount: bigint) =>
    callOf(coin, testUSDCAbi, 'approve', [hexAddress(spender), amount])
  const set = (marketId: MarketId) =>
    [hexAddress(coin), zeroHash, marketId as string as Hex, [1n, 2n]] as const
  const split = (marketId: MarketId, amount: bigint) =>
    callOf(tokensAddress, conditionalTokensAbi, 'splitPosition', [...set(marketId), amount])
  const redeem = (marketId: MarketId) =>
    callOf(tokensAddress, conditionalTokensAbi, 'redeemPositions', set(marketId))
  const propose = (market: Address, outcome: boolean) =>
    callOf(market, marketAbi, 'propose', [outcome])
  const coin = toAddress(world.collateral.address)
  const umaOracle = toAddress(world.oracle.address)
  const readOracle = readerOf(client, umaOracle, oracleAbi)
  const expirationSec = Number(await chain.now()) + 1_000
  const question = 'Will it rain?'
  const terms = [
    question,
    'By the gauge.',
    CATEGORIES.indexOf('protocol'),
    BigInt(expirationSec),
  ] as const
  const create = callOf(factoryAddress(), marketFactoryAbi, 'createMarket', terms)
  assert.match(await words(create, ann), /^NotMaker: 0x.* is not allowed to create markets/)
  const predicted = await readFactory()('predictMarket', [maker.address, ...terms])
  const [created] = (await send(maker, create)).flatMap((log) => factoryEvent(log) ?? [])
  assert(created?.type === 'MarketCreated')
  assert.deepEqual(
    [created.market, created.marketId, created.maker, created.category, created.expirationSec],
    [toAddress(predicted[0]), predicted[1], toAddress(maker.address), 'protocol', expirationSec],
  )
  assert.equal(await factory.isMarket(created.market), true)
  assert.match(await words(create, maker), /^MarketExists/)
  const { marketId } = created
  const market = readerOf(client, created.market, marketAbi)
  assert.equal(await market('marketId', []), marketId)
  assert.equal((await market('terms', [])).question, question)

  // `positionIdOf` computes the same token ids as the contract.
  for (const outcome of [0, 1] as const) {
    assert.equal(
      BigInt(positionIdOf(coin, marketId, outcome)),
      await world.positionId(marketId as `0x${string}`, outcome),
    )
  }
  await send(owner, mint(toAddress(ann.address), 100n * UNIT))
  await send(ann, approve(tokensAddress, 100n * UNIT))
  const splitLogs = (await send(ann, split(marketId, 60n * UNIT))).flatMap(
    (log) => tokenEvent(log) ?? [],
  )
  assert.deepEqual(
    splitLogs.map(({ type }) => type),
    ['TokensMoved', 'PositionSplit'],
  )
  const merge = [...set(marketId), 10n * UNIT] as const
  await send(ann, callOf(tokensAddress, conditionalTokensAbi, 'mergePositions', merge))
  await send(
    ann,
    callOf(tokensAddress, conditionalTokensAbi, 'safeTransferFrom', [
      ...([ann.address, bob.address] as const),
      BigInt(positionIdOf(coin, marketId, 1)),
      ...([UNIT, '0x'] as const),
    ]),
  )
  const held = await tokens.balances([
    { holder: toAddress(ann.address), marketId },
    { holder: toAddress(bob.address), marketId },
  ])
  assert.deepEqual(held.shares, [
    [50n * UNIT, 49n * UNIT],
    [0n, UNIT],
  ])
  assert.equal(await readerOf(client, coin, testUSDCAbi)('balanceOf', [ann.address]), 50n * UNIT)
  assert.match(await words(redeem(marketId), ann), /^Error: result for condition/)
  assert.match(
    await words(callOf(coin, testUSDCAbi, 'transfer', [bob.address, 1_000n * UNIT]), ann),
    /^ERC20InsufficientBalance: the balance of 0x/,
  )

  // An outcome is proposed, disputed and overturned. Then an outcome is proposed again and settled.
  assert.match(await words(propose(created.market, true), bob), /^NotExpired: the market cannot be/)
  await chain.warp(1_001)
  const bond = await market('bond', [])
  assert(bond >= (await readOracle('getMinimumBond', [hexAddress(coin)])))
  for (const account of [ann, bob]) {
    await send(owner, mint(toAddress(account.address), 10n * bond))
    await send(account, approve(created.market, 10n * bond))
    await send(account, approve(umaOracle, 10n * bond))
  }
  const proposed = (await send(bob, propose(created.market, false))).flatMap(
    (log) => resolutionEvent(log) ?? [],
  )
  assert.equal(proposed[0]?.type, 'ResolutionProposed')
  const assertion = await market('assertion', [])
  assert.deepEqual(
    [toAddress(assertion.proposer), assertion.outcome, assertion.disputed, assertion.bond],
    [toAddress(bob.address), false, false, bond],
  )
  const disputed = await send(
    ann,
    callOf(umaOracle, oracleAbi, 'disputeAssertion', [assertion.id, ann.address]),
  )
  assert(disputed.some((log) => decoded(oracleAbi, log)?.eventName === 'AssertionDisputed'))
  assert(disputed.some((log) => resolutionEvent(log)?.type === 'ResolutionDisputed'))
  assert.equal((await readOracle('getAssertion', [assertion.id])).disputer, ann.address)
  assert.match(
    await words(marketContract(client, created.market).settleCall(), ann),
    /^(Error|0x|:|Panic)/,
  )

  // Another market, undisputed: the redemption pays.
  const other = await world.createMarket()
  const second = toAddress(other.address)
  const secondId = other.id as string as MarketId
  await send(ann, approve(tokensAddress, 10n * UNIT))
  await send(ann, split(secondId, 10n * UNIT))
  await chain.warpTo(other.expiration)
  await send(bob, approve(second, 10n * bond))
  await send(bob, propose(second, true))
  await chain.warp(7_201)
  const settled = await send(ann, marketContract(client, second).settleCall())
  assert.deepEqual(
    settled.flatMap((log) => resolutionEvent(log)?.type ?? []),
    ['MarketResolved', 'MarketSettled'],
  )
  assert(settled.some((log) => tokenEvent(log)?.type === 'ConditionResolved'))
  assert.equal(await readerOf(client, second, marketAbi)('winningOutcome', []), 0)
  assert.deepEqual(await tokens.payouts(secondId), { numerators: [1n, 0n], denominator: 1n })
  const redeemed = (await send(ann, redeem(secondId))).flatMap((log) => tokenEvent(log) ?? [])
  const payout = redeemed.find(({ type }) => type === 'PayoutRedeemed')
  assert(payout?.type === 'PayoutRedeemed')
  assert.deepEqual([payout.holder, payout.payout], [toAddress(ann.address), 10n * UNIT])
  assert.match(await words(propose(second, true), bob), /^AlreadyResolved: .* YES won/)
})

test('the exchange computes the same question and description of a quick market as the market’s contract', async () => {
  const { chain, quickOperator } = world
  const factory = marketFactory(client, factoryAddress())
  const startSec = Number(await chain.now())
  const quick = { asset: 'BTC', startSec, intervalSec: 900 }
  const prices = { startPrice: 6_500_000_000_000n, source: 'pyth' }
  const [opened] = (
    await send(quickOperator, factory.createQuickCall({ ...quick, ...prices }))
  ).flatMap((log) => factoryEvent(log) ?? [])
  assert(opened?.type === 'QuickMarketCreated')
  const predicted = await readFactory()('predictQuickMarket', ['BTC', BigInt(startSec), 900])
  assert.deepEqual([toAddress(predicted[0]), predicted[1]], [opened.market, opened.marketId])
  const terms = await readerOf(client, opened.market, marketAbi)('terms', [])
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

test('if a quick market is already contested on chain, contesting it again sends no transaction', async () => {
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
  const predicted = await readFactory()('predictQuickMarket', ['ETH', BigInt(startSec), 900])
  const [contractAddress, marketId] = [toAddress(predicted[0]), predicted[1]]
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
    const read = readerOf(client, contractAddress, marketAbi)
    const { description, proposableFrom, expiration } = await read('terms', [])
    assert.equal(proposableFrom, expiration)
    assert.match(
      description,
      /pyth reported 5 at 1, then 4 at 2; binance reported 5 at 1, then 6 at 2\.$/,
    )
    assert.equal(await lane.openToOracle(quickMarket), '', 'it is open already')
  } finally {
    lane.stop()
  }
})

test('the settlement adapter settles a batch of trades, and reads the result of each trade from an event', async () => {
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

test('the multicall adapter sends several calls as one call, and returns the revert reason of each failed call', async () => {
  const coin = toAddress(world.collateral.address)
  const many = multicall(toAddress(world.multicall.address))
  const calls = [
    callOf(coin, testUSDCAbi, 'approve', [world.bob.address, 1n]),
    callOf(coin, testUSDCAbi, 'mint', [hexAddress(coin), 1n]),
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
