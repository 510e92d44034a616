/**
 * Kills the exchange (SIGKILL) again and again while trades settle: at a chosen point of a settlement, or at any time.
 * The test recognises the point by a request to the chain. The killed process has the real market, store and settlement
 * threads under the real supervisor. The test sends orders to it over its IPC channel. In the end every matched trade
 * has settled exactly once or failed, and the holdings of every trader on chain follow from their trades.
 */

import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Hex } from 'viem'
import { makeChainClient } from '#chain/clients.ts'
import { settlementContract } from '#chain/settlement-contract.ts'
import { signOrder } from '#client/sign-order.ts'
import { devnetAccount } from '#devnet/accounts.ts'
import { type MarketId, type OrderHash, toAddress, type Uint64, ZERO_ADDRESS } from '#domain/ids.ts'
import { costCeil, type Price, type Shares } from '#domain/money.ts'
import { BUY, type Outcome, SELL, type Side, type VerifiedOrder, YES } from '#domain/order.ts'
import { orderHash } from '#domain/order-hash.ts'
import type { OrderAccepted } from '#protocol/market.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { pendingTradesWithOrders } from '#store/reads/settlements.ts'
import { recentTrades, type TradeRecord } from '#store/reads/trades.ts'
import { journalOf } from '#store/writes/transactions.ts'
import { openTestChain, type TestChain } from '../support/chain.ts'
import { dealt, type Random, randomFrom } from '../support/random.ts'
import { type RpcProxy, startRpcProxy } from '../support/rpc-proxy.ts'
import { WHOLE } from '../support/sample.ts'
import { marketNumbered } from '../support/seeded-markets.ts'
import { settledTimes } from '../support/settled-times.ts'
import { TEST_FLAGS } from '../support/test-flags.ts'

/**
 * Moment of a kill: when the exchange sends a request of this method to the chain. With `after`, the exchange is killed
 * at its next request of any method.
 */
export type KillPoint = { readonly method: string; readonly after: boolean }

/** Kill points by the stage of a settlement: before signing, while the transaction is sent, and after that. */
const STAGES: readonly (readonly KillPoint[])[] = [
  // Nothing is signed yet. Fees are requested just before signing.
  [
    { method: 'eth_call', after: false },
    { method: 'eth_maxPriorityFeePerGas', after: false },
  ],
  // The transaction is signed and in the journal; the node may have received it.
  [
    { method: 'eth_sendRawTransaction', after: false },
    { method: 'eth_sendRawTransaction', after: true },
  ],
  // The transaction may be mined; the markets may have been notified.
  [
    { method: 'eth_getTransactionReceipt', after: false },
    { method: 'eth_getTransactionReceipt', after: true },
  ],
]

export const KILL_POINTS: readonly KillPoint[] = STAGES.flat()

/**
 * Returns one random kill point of the middle stage, and one of another stage. With `test:whole`, returns one of each
 * stage.
 */
export function killsByStage(seed: number): KillPoint[] {
  const random = randomFrom(seed)
  const kills = STAGES.map((points) => random.pick(points))
  if (!WHOLE) kills.splice(random.pick([0, 2]), 1)
  return kills
}

/**
 * Returns this many kill points, where undefined means a kill at any time. A kill point is repeated only after every
 * kill point has occurred.
 */
export function randomKills(kills: number, seed: number): (KillPoint | undefined)[] {
  return dealt(randomFrom(seed), [...KILL_POINTS, undefined, undefined], kills)
}

export type CrashReport = {
  kills: number
  /**
   * Number of kills at their kill point or at their random time. The other kills came after `KILL_AFTER_MS`, because
   * the exchange had not reached the kill point.
   */
  inTime: number
  /** Number of kills while a transaction was signed and not yet final. */
  underWay: number
  /** Number of trades that the markets reported before the exchange was killed. */
  answered: number
  trades: number
  confirmed: number
  failed: number
  transactions: number
}

export type CrashOptions = {
  readonly points: readonly (KillPoint | undefined)[]
  readonly seed: number
  readonly onRound?: (point: KillPoint | undefined, report: CrashReport) => void
}

const CHAIN_ID = 31_338
const SELLERS = [10, 11, 12] as const
const BUYERS = [13, 14, 15] as const
/** A trader without money. */
const PAUPER = 7
const TRADERS = [...SELLERS, ...BUYERS, PAUPER]
/** If the exchange does not reach the kill point within this time, it is killed anyway. */
const KILL_AFTER_MS = 30_000
const UNIT = 1_000_000

type Scene = {
  readonly chain: TestChain
  readonly proxy: RpcProxy
  readonly dataDir: string
  readonly marketId: MarketId
  readonly random: Random
  readonly report: CrashReport
}

export async function crashSettlement(options: CrashOptions): Promise<CrashReport> {
  const chain = await openTestChain({ seed: true, chainId: CHAIN_ID })
  const proxy = await startRpcProxy(chain.url)
  const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-crash-'))
  const report: CrashReport = {
    kills: 0,
    inTime: 0,
    underWay: 0,
    answered: 0,
    trades: 0,
    confirmed: 0,
    failed: 0,
    transactions: 0,
  }
  const marketId = chain.demoMarkets[0]?.id as string as MarketId
  const random = randomFrom(options.seed)
  const scene: Scene = { chain, proxy, dataDir, marketId, random, report }
  try {
    const holdings = await holdingsOf(scene)
    const sentBefore = await transactionsOf(scene)
    for (const point of options.points) {
      await killWhileTrading(scene, point)
      report.kills++
      if ((await openTransactions(scene)) > 0) report.underWay++
      options.onRound?.(point, report)
    }
    await audit(scene, await settleAll(scene), holdings)
    report.transactions = (await transactionsOf(scene)) - sentBefore
    return report
  } catch (error) {
    if (error instanceof Error) {
      error.message += `\nseed ${options.seed}, after ${report.kills} kills`
    }
    throw error
  } finally {
    await chain.close()
    await proxy.close()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

type Said = {
  readonly id?: number
  readonly answer?: Partial<OrderAccepted>
  readonly ready?: string
  readonly opened?: boolean
  readonly stopped?: boolean
}

type Child = {
  readonly process: ChildProcess
  readonly gone: Promise<void>
  next(key: keyof Said): Promise<Said>
}

async function startChild({ chain, proxy, dataDir, marketId }: Scene): Promise<Child> {
  const env = {
    SIBYL_CHAINS: JSON.stringify([{ ...chain.settings, rpcUrls: [proxy.url] }]),
    SIBYL_SETTLEMENT_KEY: chain.keys.settlement,
    SIBYL_SETTLEMENT_BATCH_WAIT_MS: '20',
    SIBYL_SETTLEMENT_POLL_MS: '50',
    SIBYL_SETTLEMENT_MAX_LAG_SECONDS: '0',
    // With a shorter interval, a thread on a busy machine could miss three health checks in a row and be restarted.
    SIBYL_HEALTH_INTERVAL_MS: '5000',
  }
  const entry = new URL('./exchange-process.ts', import.meta.url)
  const child = fork(entry, [dataDir, JSON.stringify(env)], {
    execArgv: [...process.execArgv, ...TEST_FLAGS],
    stdio: 'inherit',
  })
  const received: Said[] = []
  const waiting = new Map<keyof Said, (said: Said) => void>()
  child.on('message', (said: Said) => {
    for (const [key, resolve] of waiting) {
      if (!(key in said)) continue
      waiting.delete(key)
      resolve(said)
      return
    }
    received.push(said)
  })
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const started: Child = {
    process: child,
    gone,
    next: (key) => new Promise((resolve) => waiting.set(key, resolve)),
  }
  const ready = await Promise.race([started.next('ready'), gone])
  assert(ready !== undefined, 'the exchange starts')
  const market = marketNumbered(1, {
    id: marketId,
    chainId: CHAIN_ID,
    expiration: Number(chain.demoMarkets[0]?.expiration),
  })
  child.send({ markets: [market] })
  await started.next('opened')
  return started
}

/**
 * Places matching orders until the exchange is killed: at the kill point, or at a random time if `point` is
 * undefined.
 */
async function killWhileTrading(scene: Scene, point: KillPoint | undefined): Promise<void> {
  const { proxy, random, report } = scene
  const child = await startChild(scene)
  let dead = false
  const kill = (): void => {
    if (!dead) report.inTime++
    dead = true
    child.process.kill('SIGKILL')
  }
  const late = (): void => {
    dead = true
    child.process.kill('SIGKILL')
  }
  const timer =
    point === undefined ? setTimeout(kill, random.int(20, 1_000)) : setTimeout(late, KILL_AFTER_MS)
  let hits = random.int(1, 3)
  let armed = false
  proxy.before = (method) => {
    // After the kill, requests in transit to the chain are dropped.
    if (dead) throw new Error('the line was cut')
    if (armed) kill()
    else if (method === point?.method && --hits === 0) {
      if (point.after) armed = true
      else {
        kill()
        throw new Error('the line was cut')
      }
    }
  }
  let unanswered = 0
  let received: () => void = () => {}
  child.process.on('message', ({ answer }: Said) => {
    report.answered += answer?.matches ?? 0
    if (--unanswered === 0) received()
  })
  for (let id = 1; !dead; id += 2) {
    const buyer = random.chance(0.1) ? PAUPER : random.pick(BUYERS)
    const terms = { price: random.int(30, 70) / 100, size: random.int(1, 5) }
    const orders = [
      await signed(scene, random.pick(SELLERS), SELL, terms),
      await signed(scene, buyer, BUY, terms),
    ]
    if (dead) break
    const asks = orders.map((order, index) => ({
      id: id + index,
      marketId: scene.marketId,
      ask: ['PlaceOrder', { order }],
    }))
    const answered = new Promise<void>((resolve) => {
      received = resolve
    })
    unanswered = asks.length
    child.process.send({ asks }, () => {})
    await Promise.race([answered, child.gone])
    await pause(random.int(0, 40))
  }
  clearTimeout(timer)
  await child.gone
  proxy.before = undefined
}

async function signed(
  { chain, marketId, random }: Scene,
  account: number,
  side: Side,
  terms: { price: number; size: number },
): Promise<VerifiedOrder> {
  const domain = {
    chainId: CHAIN_ID,
    verifyingContract: toAddress(chain.contracts.settlement),
  }
  const draft = {
    marketId,
    side,
    outcome: YES as Outcome,
    price: Math.round(terms.price * UNIT) as Price,
    size: (terms.size * UNIT) as Shares,
    nonce: String(random.int(1, 2 ** 50)) as Uint64,
    expiration: String(Math.floor(Date.now() / 1_000) + 7_200) as Uint64,
    makerFeeRecipient: ZERO_ADDRESS,
  }
  const { order, signature } = await signOrder(draft, devnetAccount(account), domain)
  return { ...order, orderHash: orderHash(order, domain) as OrderHash, signature }
}

/** Runs the exchange without kills until no trade is pending, then returns all trades. */
async function settleAll(scene: Scene): Promise<TradeRecord[]> {
  const child = await startChild(scene)
  const database = await openDatabase(`sqlite:${scene.dataDir}/sibyl.db`, { readOnly: true })
  const pending = async () =>
    (await pendingTradesWithOrders(database, { chainId: CHAIN_ID, limit: 1 })).trades.length
  try {
    // The number of pending trades can be zero for a moment. So it must be zero ten times in a row.
    for (let quiet = 0; quiet < 10; quiet = (await pending()) === 0 ? quiet + 1 : 0) {
      await pause(100)
    }
    child.process.send({ stop: true })
    await child.gone
    // After a clean stop the database has every event.
    assert.equal(await pending(), 0)
    return await recentTrades(database, { marketId: scene.marketId, limit: 1_000_000 })
  } finally {
    await closeDatabase(database)
    child.process.kill('SIGKILL')
  }
}

async function openTransactions({ dataDir }: Scene): Promise<number> {
  const database = await openDatabase(`sqlite:${dataDir}/sibyl.db`)
  const found = journalOf(database, {
    chainId: CHAIN_ID,
    sender: toAddress(devnetAccount(0).address),
    watchBlocks: 0,
  })
  const { rows } = await found.finally(() => closeDatabase(database))
  return rows.filter(({ state }) => state === 'open').length
}

function transactionsOf({ chain }: Scene): Promise<number> {
  return chain.publicClient.getTransactionCount({ address: devnetAccount(0).address })
}

type Holdings = Map<string, { yes: bigint; usdc: bigint }>

async function holdingsOf({ chain, marketId }: Scene): Promise<Holdings> {
  const all: Holdings = new Map()
  for (const account of TRADERS) {
    const { address } = devnetAccount(account)
    const yes = await chain.shares(address, marketId as string as Hex, YES)
    all.set(address.toLowerCase(), { yes, usdc: await chain.balance(address) })
  }
  return all
}

async function audit(
  scene: Scene,
  trades: readonly TradeRecord[],
  holdings: Holdings,
): Promise<void> {
  const { chain, report } = scene
  const client = makeChainClient({ chainId: CHAIN_ID, rpcUrls: [chain.url] })
  const address = toAddress(chain.contracts.settlement)
  const contract = settlementContract(client, address)
  const times = await settledTimes(client, address)
  for (const trade of trades) {
    const confirmed = trade.status === 'confirmed'
    assert(confirmed || trade.status === 'failed', `${trade.tradeId} is ${trade.status}: forgotten`)
    const key = contract.tradeKeyOf(trade)
    assert.equal(times.get(key) ?? 0, confirmed ? 1 : 0, `${trade.tradeId} is ${trade.status}`)
    times.delete(key)
    report.trades++
    if (confirmed) report.confirmed++
    else report.failed++
    const buyer = holdings.get(trade.buyer)
    const seller = holdings.get(trade.seller)
    assert(buyer !== undefined && seller !== undefined)
    if (!confirmed) continue
    const cost = BigInt(costCeil(trade.price, trade.size))
    buyer.yes += BigInt(trade.size)
    seller.yes -= BigInt(trade.size)
    buyer.usdc -= cost
    seller.usdc += cost
  }
  assert.deepEqual([...times.keys()], [], 'the chain knows of no other trade')
  assert(report.trades >= report.answered, 'every trade that a client was told of is there')
  assert.deepEqual(await holdingsOf(scene), holdings, 'every trader holds what their trades say')
}
