/**
 * Turns a fresh chain into a devnet: deploys the contracts, creates three demo markets and an event with three further
 * markets, and funds traders. One market of the event is complementary. Each step is one batch of transactions, so the
 * whole seed takes about a second. The result is stored only on the chain. The exchange indexes this chain like any
 * other chain.
 */

import { type Account, decodeFunctionResult, encodeFunctionData, type Hex, toHex } from 'viem'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { eventText } from '#domain/event-info.ts'
import { UINT256_MAX } from '#domain/ids.ts'
import { CATEGORIES } from '#domain/market.ts'
import {
  DEMO_MAKER,
  DEMO_TAKER,
  DEMO_TRADERS,
  DEPLOYER,
  devnetAccount,
  FAUCET,
  MAKER,
  OPERATOR,
  RELAYER,
} from './accounts.ts'
import { httpBatch, makeBatchSender, type RpcBatch } from './batch-sender.ts'
import { DEMO_EVENT, DEMO_WORDS } from './demo-words.ts'
import { type Deployment, deployAll, type Settings } from './deploy.ts'
import { signEventMarket } from './sign-event.ts'

const UNIT = 1_000_000n
const TRADER_USDC = 1_000_000n * UNIT
const TRADER_SHARES = 100_000n * UNIT
/** Amount of stablecoin that the relayer receives for the bonds that it posts. */
const RELAYER_USDC = 1_000_000n * UNIT
/** Amount of stablecoin that the faucet receives: enough for 100,000 new wallets with 10,000 dollars each. */
const FAUCET_USDC = 1_000_000_000n * UNIT
const DAY_SEC = 86_400
const NO_COLLECTION: Hex = `0x${'0'.repeat(64)}`
const BOTH_OUTCOMES = [1n, 2n]

/** Accounts with dollars and shares. */
const HOLDERS = [DEMO_TAKER, DEMO_MAKER, ...DEMO_TRADERS]

/** Default parameters of the contracts. */
export const DEVNET_TERMS = {
  settlementGraceSeconds: 3_600n,
  cancelDelaySeconds: 7_200n,
  disputeSeconds: 7_200n,
  bond: 500n * UNIT,
  finalFee: 100n * UNIT,
} as const

type DemoMarket = { readonly id: Hex; readonly address: Hex; readonly expiration: bigint }

/** Returns the settings with the accounts of `accounts.ts`, such as the deployer and the market maker. */
export function devnetSettings(terms: Partial<Settings> = {}): Settings {
  return {
    ...DEVNET_TERMS,
    owner: devnetAccount(DEPLOYER),
    settlementOperator: devnetAccount(DEPLOYER).address,
    marketOperator: devnetAccount(OPERATOR).address,
    maker: devnetAccount(MAKER).address,
    ...terms,
  }
}

/**
 * Deploys everything in one block. On a fresh chain the contracts always have the same addresses, those of
 * `config/devnet.ts`.
 */
export async function deployDevnet(url: string, settings: Settings): Promise<Deployment> {
  const sender = makeBatchSender(httpBatch(url))
  const deployment = await deployAll(sender, settings)
  await sender.flush()
  return deployment
}

/**
 * Sends two batches: the demo markets with the traders' money, approvals and shares; then the event's markets with the
 * traders' shares.
 */
export async function seedDevnet(url: string, deployment: Deployment): Promise<DemoMarket[]> {
  const { collateral, conditionalTokens, settlement, factory } = deployment
  const owner = devnetAccount(DEPLOYER)
  const maker = devnetAccount(MAKER)
  const rpc = httpBatch(url)
  const sender = makeBatchSender(rpc)
  const [latest] = await rpc([{ method: 'eth_getBlockByNumber', params: ['latest', false] }])
  const nowSec = Number((latest as { timestamp: Hex }).timestamp)
  const terms = demoTerms(nowSec)
  const markets = await predictMarkets(rpc, factory.address, maker.address, terms)
  for (const args of terms) await sender.send(maker, factory, 'createMarket', args)

  const runners = eventTerms(nowSec)
  const shares = TRADER_SHARES * BigInt(markets.length + runners.length)
  await sender.send(owner, collateral, 'mint', [devnetAccount(RELAYER).address, RELAYER_USDC])
  await sender.send(owner, collateral, 'mint', [devnetAccount(FAUCET).address, FAUCET_USDC])
  for (const index of HOLDERS) {
    const trader = devnetAccount(index)
    await sender.send(owner, collateral, 'mint', [trader.address, TRADER_USDC + shares])
    await sender.send(trader, collateral, 'approve', [conditionalTokens.address, shares])
    for (const { id } of markets) await split(trader, id)
    await sender.send(trader, collateral, 'approve', [settlement.address, UINT256_MAX])
    await sender.send(trader, conditionalTokens, 'setApprovalForAll', [settlement.address, true])
  }
  await sender.flush()
  // The event's markets are created in a later block than the other markets. Lists begin with the oldest market, so
  // they show the other markets first.
  const race = await predictMarkets(rpc, factory.address, maker.address, runners)
  const metadata = toHex(eventText({ ...DEMO_EVENT.info, end: nowSec + DEMO_EVENT.days * DAY_SEC }))
  const [chainId] = await rpc([{ method: 'eth_chainId', params: [] }])
  for (const [at, { address }] of race.entries()) {
    const signature = await signEventMarket(devnetAccount(OPERATOR), {
      ...{ chainId: Number(chainId), factory: factory.address, market: address, metadata },
    })
    const terms = runners[at]!
    const rule = terms[0] === DEMO_EVENT.complementary ? 'Complementary' : ''
    const args = [...terms, metadata, signature] as const
    await sender.send(maker, factory, `create${rule}EventMarket`, args)
  }
  for (const index of HOLDERS) {
    for (const { id } of race) await split(devnetAccount(index), id)
  }
  await sender.flush()
  return [...markets, ...race]

  async function split(trader: Account, marketId: Hex): Promise<void> {
    await sender.send(trader, conditionalTokens, 'splitPosition', [
      collateral.address,
      NO_COLLECTION,
      marketId,
      BOTH_OUTCOMES,
      TRADER_SHARES,
    ])
  }
}

type MarketTerms = readonly [question: string, description: string, code: number, expires: bigint]

function demoTerms(nowSec: number): MarketTerms[] {
  return DEMO_WORDS.map(({ question, description, category, days }) => [
    question,
    description,
    CATEGORIES.indexOf(category),
    BigInt(nowSec + days * DAY_SEC),
  ])
}

function eventTerms(nowSec: number): MarketTerms[] {
  const { questions, description, info, days } = DEMO_EVENT
  const expires = BigInt(nowSec + days * DAY_SEC)
  return questions.map((question) => [
    question,
    description,
    CATEGORIES.indexOf(info.category),
    expires,
  ])
}

/** Returns the future addresses of the markets, which depend on their maker and texts. */
async function predictMarkets(
  rpc: RpcBatch,
  factory: Hex,
  maker: Hex,
  terms: readonly MarketTerms[],
): Promise<DemoMarket[]> {
  const view = { abi: marketFactoryAbi, functionName: 'predictMarket' } as const
  const answers = await rpc(
    terms.map((args) => ({
      method: 'eth_call',
      params: [
        { to: factory, data: encodeFunctionData({ ...view, args: [maker, ...args] }) },
        'latest',
      ],
    })),
  )
  return answers.map((data, at) => {
    const [address, id] = decodeFunctionResult({ ...view, data: data as Hex })
    return { id, address, expiration: terms[at]?.[3] ?? 0n }
  })
}
