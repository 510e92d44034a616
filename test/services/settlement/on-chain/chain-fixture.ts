/**
 * Runs settlement from the match to the chain in one process: real markets on a real log, the real projector and
 * database, and a real chain behind a faulty connection. Settlement advances only when the test requests it. The test
 * can kill settlement between any two steps; only the log, the database and the chain survive.
 */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Hex } from 'viem'
import { accountOf } from '#chain/accounts.ts'
import { makeChainClient } from '#chain/clients.ts'
import { conditionalTokens } from '#chain/conditional-tokens.ts'
import { makeCallReader, makeFundsRead } from '#chain/funds-read.ts'
import { makeLane } from '#chain/sender/lane.ts'
import { offeredFees } from '#chain/sender/offered-fees.ts'
import type { SenderPolicy } from '#chain/sender/sender.ts'
import { settlementContract } from '#chain/settlement-contract.ts'
import { stablecoin } from '#chain/stablecoin.ts'
import { signOrder } from '#client/sign-order.ts'
import { devnetAccount } from '#devnet/accounts.ts'
import { ours } from '#devnet/artifact.ts'
import { Fault } from '#domain/fault.ts'
import {
  type Address,
  type MarketId,
  type OrderHash,
  toAddress,
  type Uint64,
  type Uint256,
  ZERO_ADDRESS,
} from '#domain/ids.ts'
import type { Matching } from '#domain/market.ts'
import type { Price, Shares } from '#domain/money.ts'
import {
  BUY,
  type Outcome,
  type PermitSignature,
  SELL,
  type Side,
  type VerifiedOrder,
  YES,
} from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import { openLogReader } from '#log/log-reader.ts'
import { PACKED } from '#log/packed-event.ts'
import { type Served, serve } from '#runtime/serve.ts'
import type { RiskRules } from '#services/market/state.ts'
import {
  newStore,
  type StoreEvent,
  type StoreProtocol,
  type StoreState,
  store,
} from '#services/projector/projector.ts'
import { makeHoldingsRead } from '#services/settlement/chain/holdings.ts'
import { makeSettlementLane } from '#services/settlement/chain/settlement-lane.ts'
import { makeSimulation } from '#services/settlement/chain/simulation.ts'
import { makeSparePermits } from '#services/settlement/chain/spare-permits.ts'
import { settlement } from '#services/settlement/settlement.ts'
import {
  newSettlement,
  type ReportAnswer,
  type SettlementEvent,
  type SettlementProtocol,
  type SettlementRules,
  type SettlementState,
} from '#services/settlement/state.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { claimLog } from '#store/projection/checkpoints.ts'
import { project } from '#store/projection/project.ts'
import {
  pendingTradesWithOrders,
  permitsOf as storedPermitsOf,
  tradesWithOrders,
} from '#store/reads/settlements.ts'
import { recentTrades, type TradeRecord } from '#store/reads/trades.ts'
import { notesOf, noteTrades } from '#store/writes/settlement-notes.ts'
import { journalOf, saveTransaction, transactionByHash } from '#store/writes/transactions.ts'
import { loadKeccak } from '#verify/keccak.ts'
import type { TestChain } from '../../../support/chain.ts'
import { makeMigratedFile } from '../../../support/migrated-database.ts'
import { type RpcProxy, startRpcProxy } from '../../../support/rpc-proxy.ts'
import { settledTimes } from '../../../support/settled-times.ts'
import { aMarket, START_SEC } from '../../market/market-fixture.ts'
import { type Command, startHost } from '../../market/thread-fixture.ts'

export type WorldOptions = {
  readonly rules?: Partial<SettlementRules>
  readonly policy?: Partial<SenderPolicy>
  readonly confirmations?: number
  /** Maximum wait for an answer of the chain. */
  readonly timeoutMs?: number
  /** Rules for traders. Trades of the traders in `barred` fail without being sent. */
  readonly risk?: RiskRules
  readonly barred?: () => ReadonlySet<Address>
  /** True to connect to the chain directly, without the proxy that can fail. */
  readonly direct?: boolean
}

export type OrderWish = {
  readonly by: number
  readonly side?: Side
  readonly price?: number
  readonly size?: number
  readonly outcome?: Outcome
  readonly market?: MarketId
  readonly permit?: PermitSignature
  readonly expiration?: number
}

const UNIT = 1_000_000
const GAS_MAX = 16_777_216
/** Maximum number of steps before a test fails. */
const STEPS_MAX = 500
/** How often `run` looks. */
const LOOK_MS = 10
let nonces = Date.now()

export type SettlementWorld = Awaited<ReturnType<typeof startWorld>>

/** Gives an account ten dollars; returns its permits of these values, in the order of their nonces. */
export async function permitsOf(
  chain: TestChain,
  index: number,
  values: readonly bigint[],
): Promise<PermitSignature[]> {
  const owner = chain.chain.account(index)
  const { settlement } = chain.contracts
  await chain.chain.send(chain.owner, chain.collateral, 'mint', [owner.address, 10_000_000n])
  const next = await chain.read(chain.collateral, 'nonces', [owner.address])
  const permits: PermitSignature[] = []
  for (const [at, value] of values.entries()) {
    const nonce = next + BigInt(at)
    const { deadline, v, r, s } = await chain.usdcPermit(owner, settlement, value, { nonce })
    permits.push({
      nonce: String(nonce) as Uint64,
      value: String(value) as Uint256,
      deadline: String(deadline) as Uint64,
      v: v as 27 | 28,
      r,
      s,
    })
  }
  return permits
}

/** Gives an account the code of a test contract (EIP-7702). */
export async function giveCode(
  { chain, relayer }: TestChain,
  index: number,
  name: string,
): Promise<void> {
  const contractAddress = await chain.deploy(relayer, ours(`test/${name}`), [])
  const wallet = chain.wallet(chain.account(index))
  const authorization = await wallet.signAuthorization({ contractAddress })
  const hash = await chain.wallet(relayer).sendTransaction({
    authorizationList: [authorization],
    to: relayer.address,
    gas: 200_000n,
  })
  const { status } = await chain.publicClient.getTransactionReceipt({ hash })
  assert.equal(status, 'success')
}

export async function startWorld(chain: TestChain, options: WorldOptions = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-settlement-'))
  const proxy: RpcProxy = await startRpcProxy(chain.url)
  const path = join(dataDir, 'sibyl.db')
  await makeMigratedFile(path)
  const database = await openDatabase(`sqlite:${path}`)
  const { risk } = options
  const host = startHost(dataDir, { partitions: 1, ...(risk === undefined ? {} : { risk }) })
  const startBlock = (await chain.height()) + 1
  const chainId = chain.settings.chainId
  const address = toAddress(chain.contracts.settlement)
  const own = accountOf(chain.keys.settlement)
  const said: SettlementEvent[] = []
  const audit = makeChainClient({ chainId, rpcUrls: [chain.url] })
  const contract = settlementContract(audit, address)
  let nowMs = Date.now()
  host.at(nowMs / 1_000 - START_SEC)
  /** Components that are unavailable to settlement. */
  const away: { database: boolean; journal: boolean; markets: boolean } = {
    database: false,
    journal: false,
    markets: false,
  }
  const noDatabase = () =>
    new Fault('STORE_UNAVAILABLE', 'the database is away', { retryable: true })
  const reading = async <T>(work: () => Promise<T>): Promise<T> => {
    if (away.database) throw noDatabase()
    return work()
  }

  const reader = openLogReader(dataDir, { form: PACKED })
  const storeState = newStore(reader, {
    claim: (from) => claimLog(database, from),
    write: (batch) => project(database, batch),
  })
  const projector = serve<StoreState, StoreProtocol, StoreEvent>({
    behaviour: store,
    select: () => ({ state: storeState }),
    clock: { nowMs: () => nowMs, after: () => () => {} },
    mailboxMax: 1_000,
    batchMax: 1_000,
    full: undefined,
  })
  async function projected(): Promise<void> {
    if (away.database) return
    // In its first tick the store reserves the database for its log, and in the second one it projects the log.
    for (let look = 0; look < 2; look++) {
      projector.hear('Tick', {}, 0, undefined)
      await projector.drained()
    }
  }

  let endLife: () => void = () => {}
  let ended: Promise<void>
  /** As on a market thread, all reports of one turn of the event loop form one batch. */
  const reports: { command: Command; answer: (answer: unknown) => void }[] = []
  let telling = Promise.resolve()
  function tellMarket<Answer>(command: Command): Promise<Answer> {
    const told = new Promise<Answer>((answer) =>
      reports.push({ command, answer: answer as (answer: unknown) => void }),
    )
    if (reports.length === 1) {
      telling = telling
        .then(() => new Promise((turn) => setImmediate(turn)))
        .then(async () => {
          const batch = reports.splice(0)
          const answers = await host.run(...batch.map(({ command: each }) => each))
          for (const [index, { answer }] of batch.entries()) answer(answers[index])
        })
    }
    return told
  }

  const url = options.direct === true ? chain.url : proxy.url
  let state: SettlementState
  let served: Served
  /** Starts settlement as a new process would: only the log, the database and the chain remain. */
  function boot(): void {
    const { timeoutMs } = options
    const patience = timeoutMs === undefined ? {} : { timeoutMs }
    const client = makeChainClient({ chainId, rpcUrls: [url], rounds: 2, pauseMs: 1, ...patience })
    const bootContract = settlementContract(client, address)
    // Once `over` is true, the process counts as killed. Its requests get no answer, but the test still has its
    // objects.
    const life = { over: false }
    endLife()
    const killed = Promise.withResolvers<void>()
    ended = killed.promise
    endLife = () => {
      life.over = true
      killed.resolve()
    }
    const alive = <T>(work: () => Promise<T>): Promise<T> =>
      life.over ? new Promise(() => {}) : work()
    const callReader = makeCallReader(client, toAddress(chain.contracts.multicall))
    const readFunds = makeFundsRead(callReader, {
      settlement: address,
      conditionalTokens: toAddress(chain.contracts.conditionalTokens),
      stablecoin: toAddress(chain.contracts.stablecoin),
    })
    const lane = makeSettlementLane({
      client,
      contract: bootContract,
      tokens: conditionalTokens(
        client,
        toAddress(chain.contracts.conditionalTokens),
        toAddress(chain.contracts.stablecoin),
      ),
      withHoldings: makeHoldingsRead(client, readFunds),
      simulate: makeSimulation({
        client,
        contract: bootContract,
        from: own.address,
        stablecoin: toAddress(chain.contracts.stablecoin),
        gasMax: GAS_MAX,
        fees: () => offeredFees(client.viem),
      }),
      spare: makeSparePermits({
        stored: (owners) => reading(() => storedPermitsOf(database, { chainId, owners })),
        nonceOf: stablecoin(client, toAddress(chain.contracts.stablecoin)).nonce,
      }),
      sender: makeLane({
        client: client.viem,
        account: own.account,
        chainId,
        journal: {
          load: (filter) => alive(() => reading(() => journalOf(database, filter))),
          save: (row) =>
            alive(async () => {
              if (away.journal || away.database) throw noDatabase()
              await saveTransaction(database, { row })
            }),
        },
        nowMs: () => nowMs,
        keccak256: loadKeccak().keccak256,
        policy: {
          confirmations: options.confirmations ?? 0,
          rebroadcastAfterMs: 1_000,
          bumpAfterMs: 10_000,
          lostAfterMs: 5_000,
          doubtMs: 5_000,
          ...options.policy,
        },
      }),
      confirmations: options.confirmations ?? 0,
      startBlock,
    })
    state = newSettlement(
      {
        chainId,
        batchMax: 45,
        batchWaitMs: 0,
        inFlightMax: 4,
        readEveryMs: 0,
        pollEveryMs: 0,
        maxLagMs: 0,
        tradeDeadlineMs: 1_800_000,
        retryGasMax: 1_000_000,
        ...options.rules,
      },
      {
        lane,
        readPending: (filter) =>
          alive(() => reading(() => pendingTradesWithOrders(database, { chainId, ...filter }))),
        readTrades: (tradeIds) =>
          alive(() => reading(() => tradesWithOrders(database, { tradeIds }))),
        readNotes: (tradeIds) => alive(() => reading(() => notesOf(database, { tradeIds }))),
        saveNotes: (changes) =>
          alive(() =>
            reading(async () => void (await noteTrades(database, { chainId, ...changes }))),
          ),
        keyOf: (trade) => bootContract.tradeKeyOf(trade),
        report: (marketId, report) =>
          alive(async (): Promise<ReportAnswer> => {
            // With this fault a market refuses results of trades. It still answers a `matched` report, which only asks
            // whether it knows the trade.
            if (away.markets && report.status !== 'matched') return { unanswered: 'closed' }
            return tellMarket({ type: 'ReportTrade', message: { marketId, report } })
          }),
        ...(options.barred === undefined ? {} : { barred: options.barred }),
      },
    )
    const mine = state
    served = serve<SettlementState, SettlementProtocol, SettlementEvent>({
      behaviour: settlement,
      select: () => ({ state: mine }),
      clock: { nowMs: () => nowMs, after: () => () => {} },
      mailboxMax: 10_000,
      batchMax: 10_000,
      full: undefined,
      say: (news) => void (life.over || said.push(...news)),
    })
  }
  boot()

  /** Advances by one step: the database catches up, settlement runs, and all work that settlement started ends. */
  async function step(ms = 1_000): Promise<void> {
    nowMs += ms
    host.at(nowMs / 1_000 - START_SEC)
    await projected()
    served.hear('Tick', {}, 0, undefined)
    // A killed process never receives its pending answers. So the step also ends if settlement is killed.
    await Promise.race([served.drained(), ended])
    await projected()
  }

  async function until(what: string, isSo: () => boolean | Promise<boolean>, ms = 1_000) {
    for (let steps = 0; steps < STEPS_MAX; steps++) {
      await step(ms)
      if (await isSo()) return
    }
    const shown = (await trades()).map(({ status, reason }) => `${status} ${reason}`).join(', ')
    assert.fail(
      `${what} did not come about; trades: ${shown}; said: ${JSON.stringify(said.slice(-6))}`,
    )
  }

  /** Runs settlement by a timer, with the database catching up, until the condition is true. */
  async function run(isSo: () => boolean): Promise<void> {
    const timer = setInterval(() => {
      nowMs += LOOK_MS
      host.at(nowMs / 1_000 - START_SEC)
      served.hear('Tick', {}, 0, undefined)
    }, LOOK_MS)
    try {
      while (!isSo()) {
        await projected()
        await new Promise((turn) => setTimeout(turn, LOOK_MS))
      }
    } finally {
      clearInterval(timer)
    }
    await Promise.race([served.drained(), ended])
    await projected()
  }

  const [demo] = chain.demoMarkets
  assert(demo !== undefined, 'the chain is seeded')
  const marketId = demo.id as string as MarketId

  async function openMarket(id: MarketId, matching?: Matching): Promise<void> {
    const market = aMarket({
      ...(matching === undefined ? {} : { matching }),
      id,
      chainId,
      expiration: Math.floor(nowMs / 1_000) + 86_400,
      createdAt: Math.floor(nowMs / 1_000),
    })
    const [opened] = await host.run({ type: 'OpenMarket', message: { market } })
    assert(!isRejection(opened), JSON.stringify(opened))
  }
  await openMarket(marketId)

  async function orderOf(wish: OrderWish): Promise<VerifiedOrder> {
    const account = devnetAccount(wish.by)
    const domain = { chainId, verifyingContract: address }
    const draft = {
      marketId: wish.market ?? marketId,
      side: wish.side ?? BUY,
      outcome: wish.outcome ?? YES,
      price: Math.round((wish.price ?? 0.5) * UNIT) as Price,
      size: Math.round((wish.size ?? 1) * UNIT) as Shares,
      nonce: String(++nonces) as Uint64,
      expiration: String(wish.expiration ?? Math.floor(nowMs / 1_000) + 7_200) as Uint64,
      makerFeeRecipient: ZERO_ADDRESS,
    }
    const { order, signature } = await signOrder(draft, account, domain)
    const { orderHash } = await import('#domain/order-hash.ts')
    return {
      ...order,
      orderHash: orderHash(order, domain) as OrderHash,
      signature,
      ...(wish.permit === undefined ? {} : { permit: wish.permit }),
    }
  }

  async function place(wish: OrderWish): Promise<VerifiedOrder> {
    const order = await orderOf(wish)
    const [answer] = await host.run({ type: 'PlaceOrder', message: { order } })
    assert(!isRejection(answer), JSON.stringify(answer))
    return order
  }

  async function trades(): Promise<TradeRecord[]> {
    const all: TradeRecord[] = []
    for (const id of host.thread.markets.keys()) {
      all.push(...(await recentTrades(database, { marketId: id, limit: 1_000 })))
    }
    return all
  }

  return {
    chain,
    proxy,
    database: database as Database,
    away,
    said,
    host,
    marketId,
    get state() {
      return state
    },
    get nowMs() {
      return nowMs
    },
    openMarket,
    /** Goes on at another time. */
    at(ms: number): void {
      nowMs = ms
      host.at(nowMs / 1_000 - START_SEC)
    },
    orderOf,
    place,
    /** Places a sell and a buy that match. */
    async trade(
      wish: Partial<OrderWish> & { seller?: number; buyer?: number } = {},
    ): Promise<void> {
      const { seller = 10, buyer = 11, ...rest } = wish
      await place({ ...rest, by: seller, side: SELL })
      await place({ ...rest, by: buyer, side: BUY })
    },
    step,
    run,
    projected,
    until,
    /** Kills settlement and starts it again. */
    kill: boot,
    trades,
    /** Pending trades, as settlement reads them. */
    async toSettle(): Promise<TradeToSettle[]> {
      const pending = await pendingTradesWithOrders(database, { chainId, limit: 1_000 })
      return pending.trades.map((trade) => ({ ...trade, tradeKey: contract.tradeKeyOf(trade) }))
    },
    async statuses(): Promise<string[]> {
      return (await trades()).map(({ status }) => status).reverse()
    },
    transactionByHash: (txHash: string) => transactionByHash(database, { txHash }),
    allDecided: async () =>
      (await trades()).every(({ status }) => status === 'confirmed' || status === 'failed') &&
      state.flight.batches.size === 0 &&
      state.trades.size === 0,
    /** Asserts that the exchange and the chain agree: no trade is lost, and none settled twice. */
    async agree(): Promise<void> {
      const times = await settledTimes(audit, address, startBlock)
      const all = await trades()
      for (const trade of all) {
        const key = contract.tradeKeyOf(trade)
        const expected = trade.status === 'confirmed' ? 1 : 0
        assert.equal(times.get(key) ?? 0, expected, `${trade.tradeId} is ${trade.status}`)
        assert.equal(
          await contract.isSettled(key, trade.buyOrderHash, trade.sellOrderHash),
          expected === 1,
        )
        if (expected === 1) {
          const receipt = await audit.viem.getTransactionReceipt({ hash: trade.txHash as Hex })
          assert.equal(receipt.status, 'success')
        }
      }
      const known = new Set(all.map((trade) => contract.tradeKeyOf(trade)))
      for (const key of times.keys()) assert(known.has(key), 'a trade that nobody made')
      assert.deepEqual(
        all.filter(({ status }) => status !== 'confirmed' && status !== 'failed'),
        [],
        'no trade is forgotten',
      )
    },
    async close(): Promise<void> {
      endLife()
      proxy.faults = {}
      await chain.automine(true)
      await host.stop()
      await reader.close()
      await closeDatabase(database)
      await proxy.close()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
