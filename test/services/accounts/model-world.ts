/**
 * Simulates a small exchange around the accounts: real markets, a log in partitions, and a database that lags behind
 * the log. Fronts have orders in flight, settlement takes time, two chains may have reorgs, and traders move their
 * funds. After each operation, the accounts are compared with the lists of `model-needs.ts`.
 */

import assert from 'node:assert/strict'
import {
  type FundsToken,
  type NeedsOrder,
  type NeedsTrade,
  outcomeToken,
  STABLECOIN,
} from '#domain/funds.ts'
import {
  type Address,
  type MarketId,
  type OrderHash,
  type TradeId,
  type Uint64,
  type Uint256,
  ZERO_ADDRESS,
} from '#domain/ids.ts'
import { PERMITS_AHEAD_MAX } from '#domain/limits.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { costCeil, type Price, type Shares } from '#domain/money.ts'
import { BUY, byAge, type Outcome, SELL, type Side, type VerifiedOrder } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import type { FaultySide } from '#domain/trade.ts'
import type { ReserveOrder } from '#protocol/accounts.ts'
import type { Account } from '#services/accounts/state.ts'
import { traderNamed } from '../../support/orders.ts'
import type { Random } from '../../support/random.ts'
import { given, START_SEC } from '../market/market-fixture.ts'
import { driven, later } from './accounts-fixture.ts'
import { EMPTY, type ModelChain, modelChain } from './model-chain.ts'
import {
  type KnownTrade,
  leastBySpec,
  modelNeeds,
  needBySpec,
  tokenOf,
  tradeNeeds,
} from './model-needs.ts'

const TRADERS = ['ann', 'bob', 'cat', 'dan', 'eve'].map(traderNamed)
const CHAIN_IDS = [1, 2]
const PARTITIONS = 2
const DEADLINE_MS = 3_000
const GRACE_MS = 1_000
const LONG_LIFE_SEC = 10_000_000

type Asked = {
  readonly order: VerifiedOrder
  readonly reserve: ReserveOrder
  readonly answer: unknown
  readonly deadlineAtMs: number
}

export type Counts = Record<
  | 'granted'
  | 'refused'
  | 'put off'
  | 'traded'
  | 'filled at once'
  | 'filled in part'
  | 'settled'
  | 'failed'
  | 'reverted'
  | 'withdrawn'
  | 'kills',
  number
>

/** If `honest` is true, traders never withdraw funds that are in use, and chains have no reorgs. */
export function world(random: Random, { honest }: { readonly honest: boolean }) {
  const orders = new Map<OrderHash, VerifiedOrder>()
  const orderOf = (hash: OrderHash): VerifiedOrder => orders.get(hash)!
  const chains = new Map(CHAIN_IDS.map((chainId) => [chainId, modelChain(chainId)]))
  const counts: Counts = {
    granted: 0,
    refused: 0,
    'put off': 0,
    traded: 0,
    'filled at once': 0,
    'filled in part': 0,
    settled: 0,
    failed: 0,
    reverted: 0,
    withdrawn: 0,
    kills: 0,
  }
  let nowMs = START_SEC * 1_000

  const places = [0, 1, 2, 3].map((index) => {
    const id = `0x${String(index + 1).repeat(64)}` as MarketId
    const market = { id, chainId: CHAIN_IDS[index % 2]!, expiration: START_SEC + LONG_LIFE_SEC }
    const selfTrade = index < 2 ? ('allow' as const) : ('cancel-resting' as const)
    return {
      id,
      chainId: market.chainId,
      partition: index >> 1,
      read: 0,
      market: given({ market, selfTrade }),
    }
  })
  type Place = (typeof places)[number]
  const placeOf = (marketId: MarketId): Place => places.find(({ id }) => id === marketId)!
  const chainOf = (marketId: MarketId): ModelChain => chains.get(placeOf(marketId).chainId)!

  /** The log of each partition: one entry per command with events. */
  const log: MarketEvent[][][] = Array.from({ length: PARTITIONS }, () => [])
  const truth = modelNeeds(orderOf)
  const database = modelNeeds(orderOf)
  let fed = modelNeeds(orderOf)
  /**
   * Hashes of orders that ended after the actor started. Also contains the orders of trades that were pending at its
   * start.
   */
  const ended = new Set<OrderHash>()
  const keyOf = (trade: NeedsTrade): string => `key ${trade.tradeId}`

  const ports = () => ({
    load: () => later(() => database.load()),
    chains: [...chains.values()].map((chain) => chain.port()),
    tradeKeyOf: (_chainId: number, trade: NeedsTrade) => keyOf(trade),
    areSettled: (
      chainId: number,
      trades: readonly { tradeKey: string }[],
      at: { block: number; blockHash: string },
    ) =>
      later(() => {
        const chain = chains.get(chainId)!
        const { block } = chain.there(at)
        return trades.map(({ tradeKey }) => (chain.minedIn.get(tradeKey) ?? block + 1) <= block)
      }),
    readTrades: (tradeIds: readonly TradeId[]) =>
      later(() => tradeIds.flatMap((id) => truth.trades.get(id) ?? [])),
  })
  const rules = {
    graceMs: GRACE_MS,
    stepEveryMs: 500,
    staleMs: 20_000,
    nameAgainMs: 2_000,
    idleMax: 3,
  }
  let actor = driven(ports(), rules)
  /** For each partition, the number of log entries that the actor knows. */
  let fedTo: number[] = []
  let loadedAt: number[] = []
  let received = 0
  /**
   * Trades that were confirmed before the actor started. The actor does not know them, because it loads only pending
   * trades.
   */
  let forgotten = new Set<TradeId>()
  const asked: Asked[] = []
  /** Granted orders on their way to the market. */
  const underWay: Asked[] = []
  const promised = new Map<OrderHash, { reserve: ReserveOrder; asked: number; untilMs: number }>()
  const named = new Set<OrderHash>()
  const counted = new Map<string, ReturnType<typeof countNeeds>>()
  const cancels: { marketId: MarketId; trader: Address; orderHashes: readonly OrderHash[] }[] = []
  const reports: {
    trade: KnownTrade
    status: 'confirmed' | 'failed' | 'reverted'
    fault: FaultySide
  }[] = []
  let serial = 0

  function note(place: Place): void {
    const news = place.market.events.slice(place.read)
    if (news.length === 0) return
    place.read = place.market.events.length
    log[place.partition]!.push(news)
    for (const event of news) {
      truth.apply(event)
      if (event.type === 'OrdersMatched') counts.traded += event.fills.length
    }
  }

  for (const place of places) {
    place.market.open()
    note(place)
  }
  for (let partition = 0; partition < PARTITIONS; partition++) database.offsets.set(partition, 0)
  for (const chain of chains.values()) {
    for (const trader of TRADERS) {
      chain.change(trader, { balance: 12_000_000n, allowance: 20_000_000n, isApproved: true })
      for (const { id, chainId } of places) {
        if (chainId === chain.chainId) chain.hold(trader, outcomeToken(id, 0), 8_000_000n)
      }
    }
    // Mines enough blocks that no reorg removes the initial funds.
    for (let block = 0; block < 20; block++) chain.mine()
  }

  function project(partition: number, upTo: number): void {
    const from = database.offsets.get(partition)!
    for (const batch of log[partition]!.slice(from, upTo)) batch.forEach(database.apply)
    database.offsets.set(partition, Math.max(from, upTo))
  }

  function feed(partition: number, upTo: number): void {
    if (actor.state.phase !== 'loaded') return
    const from = fedTo[partition]!
    const events = log[partition]!.slice(from, upTo).flat()
    const end = log[partition]!.length === upTo
    for (const event of events) {
      fed.apply(event)
      if (event.type === 'OrderRested') {
        keep(event.orderHash)
        ended.delete(event.orderHash)
      }
      if (event.type === 'OrderClosed') {
        keep(event.orderHash)
        ended.add(event.orderHash)
      }
      if (event.type === 'OrdersMatched') keep(event.taker.orderHash)
      if (event.type === 'TradeReverted') forgotten.delete(event.tradeId)
    }
    fedTo[partition] = upTo
    // Some log entries are delivered twice, but none that the actor loaded from the database.
    const twice = Math.max(loadedAt[partition]!, from - 2)
    const again = random.chance(0.1) ? log[partition]!.slice(twice, from).flat() : []
    actor.ask('Logged', {
      partition,
      events: [...again, ...events],
      toOffset: upTo,
      ...(end ? { caughtUpAtMs: nowMs } : {}),
    })
    if (end) caughtUp[partition] = nowMs
  }
  let caughtUp: number[] = [0, 0]

  const keep = (orderHash: OrderHash): void => void promised.delete(orderHash)

  function start(): void {
    fed = modelNeeds(orderOf)
    fedTo = []
    loadedAt = []
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const offset = database.offsets.get(partition)!
      fedTo[partition] = offset
      loadedAt[partition] = offset
      for (const batch of log[partition]!.slice(0, offset)) batch.forEach(fed.apply)
    }
    caughtUp = [0, 0]
    promised.clear()
    named.clear()
    asked.length = 0
    received = 0
    forgotten = new Set()
    ended.clear()
    for (const { tradeId, status, buyOrderHash, sellOrderHash } of fed.trades.values()) {
      if (status === 'confirmed') forgotten.add(tradeId)
      if (status !== 'pending') continue
      ended.add(buyOrderHash)
      ended.add(sellOrderHash)
    }
  }
  start()

  /** Replaces the actor by a new one, as a kill does. Pending cancels and reports of trades remain. */
  function kill(): void {
    counts.kills++
    const quietMs = DEADLINE_MS + GRACE_MS
    actor = driven(ports(), { ...rules, quietMs })
    actor.nowMs = nowMs
    actor.ask('Tick', {})
    // The new actor has requested its data from the database, and the database has already read them. Only the result
    // arrives later. So `start` computes the expected state from the same data now.
    start()
  }
  actor.nowMs = nowMs
  actor.ask('Tick', {})

  function newOrder(): VerifiedOrder {
    const place = random.pick(places)
    const trader = random.pick(TRADERS)
    const side: Side = random.chance(0.5) ? BUY : SELL
    const outcome = random.int(0, 1) as Outcome
    const price = (500_000 + random.int(-6, 6) * 1_237) as Price
    // Sizes that make the costs of fills no whole units, so that the costs are rounded up. Some orders are tiny.
    const size = (random.chance(0.1) ? random.int(1, 30) : random.int(1_000, 4_000_000)) as Shares
    const orderHash = `0x${(++serial).toString(16).padStart(64, '0')}` as OrderHash
    const order: VerifiedOrder = {
      marketId: place.id,
      trader,
      side,
      outcome,
      price,
      size,
      nonce: '1' as Uint64,
      expiration: String(START_SEC + LONG_LIFE_SEC) as Uint64,
      makerFeeRecipient: ZERO_ADDRESS,
      orderHash,
      signature: '0x',
      ...(side === BUY && !honest && random.chance(0.25)
        ? { permit: permitOf(place.chainId, trader, price, size) }
        : {}),
    }
    orders.set(orderHash, order)
    return order
  }

  function permitOf(chainId: number, trader: Address, price: Price, size: Shares) {
    const v: 27 | 28 = 27
    counted.clear()
    const others = random.chance(0.7) ? needsOf(chainId, trader).all(STABLECOIN) : 0n
    const value = String(others + needBySpec({ side: BUY, price }, size)) as Uint256
    const next = permitsOf(chainId, trader).end
    const number = random.chance(0.9) ? next : next + BigInt(random.int(-1, 1))
    const nonce = String(number < 0n ? 0n : number) as Uint64
    return { nonce, value, deadline: '9' as Uint64, v, r: '0x', s: '0x' }
  }

  /**
   * Returns the trader's next permit nonce on the chain (`nonce`) and the orders that hold each nonce (`holders`).
   * `end` is the first nonce, from `nonce` on, that no order holds.
   */
  function permitsOf(chainId: number, trader: Address) {
    const { nonce } = toldWallet(chainId, trader)
    const holders = new Map<bigint, Set<OrderHash>>()
    const hold = (orderHash: OrderHash, permit: Uint64 | undefined) => {
      if (permit === undefined) return
      const held = holders.get(BigInt(permit)) ?? new Set()
      holders.set(BigInt(permit), held.add(orderHash))
    }
    for (const order of fed.open.values()) {
      if (order.trader !== trader || placeOf(order.marketId).chainId !== chainId) continue
      hold(order.orderHash, order.permit)
    }
    for (const trade of fed.trades.values()) {
      if (trade.buyer !== trader || placeOf(trade.marketId).chainId !== chainId) continue
      if (isNeed(trade)) hold(trade.buyOrderHash, trade.permit)
    }
    for (const { reserve } of promised.values()) {
      if (reserve.trader !== trader || reserve.chainId !== chainId) continue
      hold(reserve.orderHash, reserve.permit)
    }
    let end = nonce
    while (holders.has(end) && end - nonce < PERMITS_AHEAD_MAX) end++
    return { nonce, holders, end }
  }

  /**
   * Returns whether the order can use its permit. If several orders hold the same nonce, only the first to arrive can
   * use it.
   */
  function isPermitted(
    { nonce, holders, end }: ReturnType<typeof permitsOf>,
    account: Account | undefined,
    { orderHash, permit }: { readonly orderHash: OrderHash; readonly permit: Uint64 | undefined },
  ): boolean {
    if (permit === undefined) return false
    const number = BigInt(permit)
    if (number < nonce || number >= end) return false
    return holders.get(number)?.size === 1 || account?.nonces.get(number)?.orderHash === orderHash
  }

  const accountAt = (chainId: number, trader: Address) =>
    actor.state.chains.get(chainId)?.accounts.get(trader)

  function ask(order: VerifiedOrder): void {
    const { orderHash, marketId, trader, side, outcome, price, size } = order
    const chainId = placeOf(marketId).chainId
    const { nonce: permit, value } = order.permit ?? {}
    const reserve = {
      ...{ chainId, orderHash, marketId, trader, side, outcome, price, size, permit },
      ...(value === undefined ? {} : { permitValue: value }),
    }
    const deadlineAtMs = nowMs + DEADLINE_MS
    const answer = actor.ask('Reserve', { order: reserve, deadlineAtMs })
    asked.push({ order, reserve, answer, deadlineAtMs })
    settleAsked()
  }

  /** Takes the answers to `Reserve` that have arrived. Checks each against the state that the chain has reported. */
  function settleAsked(): void {
    for (const one of asked.splice(0)) {
      const answer = actor.answerOf(one.answer)
      if (answer === undefined) {
        asked.push(one)
        continue
      }
      const { orderHash } = one.order
      const before = promised.get(orderHash)
      const known = fed.open.has(orderHash) || ended.has(orderHash) || before !== undefined
      if (isRejection(answer)) {
        if (/^INSUFFICIENT|^INVALID_PERMIT/.test(answer.rejected)) {
          assert(!known, 'what is known is not refused')
          assert(!isCoveredBy(one.reserve), `refused though covered: ${answer.detail}`)
          counts.refused++
        } else counts['put off']++
        continue
      }
      if (!known) assert(isCoveredBy(one.reserve), 'granted though not covered')
      counts.granted++
      const untilMs = one.deadlineAtMs + GRACE_MS
      if (before !== undefined) {
        before.asked++
        before.untilMs = Math.max(before.untilMs, untilMs)
      } else if (!fed.open.has(orderHash) && !hasEnded(orderHash)) {
        promised.set(orderHash, { reserve: one.reserve, asked: 1, untilMs })
      }
      underWay.push(one)
    }
  }

  /** Returns whether the actor knows that the order has ended. */
  function hasEnded(orderHash: OrderHash): boolean {
    return actor.state.ended.has(orderHash) || actor.state.endedBefore.has(orderHash)
  }

  function isCoveredBy(order: ReserveOrder): boolean {
    counted.clear()
    const { chainId, trader, side, permit, permitValue = '0', size } = order
    const wallet = toldWallet(chainId, trader)
    const token = tokenOf(order)
    const need = needBySpec(order, size)
    const sums = needsOf(chainId, trader)
    const has = side === BUY ? wallet.balance : (wallet.tokens.get(token) ?? 0n)
    if (sums.all(token) + need > has) return false
    if (side === SELL) return wallet.isApproved
    if (permit === undefined) return sums.unpermitted + need <= wallet.allowance
    const { nonce, holders, end } = permitsOf(chainId, trader)
    if (BigInt(permit) !== end || end - nonce >= PERMITS_AHEAD_MAX) return false
    // No other order may have a permit with a later nonce. If other orders have permits with earlier nonces, the permit
    // of this order must cover all funds that are already reserved for the trader, plus the funds that this order needs.
    if ([...holders.keys()].some((each) => each > end)) return false
    return end === nonce || BigInt(permitValue) >= sums.all(token) + need
  }

  function toldWallet(chainId: number, trader: Address) {
    return viewOf(chainId)?.wallets.get(trader) ?? EMPTY
  }

  /** The chain as reported to the actor. */
  function viewOf(chainId: number) {
    const { place: at } = actor.state.chains.get(chainId)!
    return at === undefined ? undefined : chains.get(chainId)!.viewOf(at)
  }

  /** Returns whether the actor must still reserve funds for the trade at the chain's last reported block. */
  function isNeed(trade: KnownTrade): boolean {
    if (trade.status === 'failed') return false
    if (trade.status === 'confirmed' && forgotten.has(trade.tradeId)) return false
    return viewOf(placeOf(trade.marketId).chainId)?.minedIn.has(keyOf(trade)) !== true
  }

  /** Returns all needs of a trader, cached until the next operation. */
  function needsOf(chainId: number, trader: Address) {
    const name = `${chainId} ${trader}`
    const known = counted.get(name) ?? countNeeds(chainId, trader)
    counted.set(name, known)
    return known
  }

  /** Computes the needs of a trader by a scan of all orders, trades and granted reservations. */
  function countNeeds(chainId: number, trader: Address) {
    const open = new Map<FundsToken, bigint>()
    const least = new Map<FundsToken, bigint>()
    const pending = new Map<FundsToken, bigint>()
    const onTheWay = new Map<FundsToken, bigint>()
    const sums = { unpermitted: 0n, unpermittedLeast: 0n }
    const permits = permitsOf(chainId, trader)
    const account = accountAt(chainId, trader)
    const add = (map: Map<FundsToken, bigint>, token: FundsToken, more: bigint) =>
      map.set(token, (map.get(token) ?? 0n) + more)
    for (const order of fed.open.values()) {
      if (order.trader !== trader || placeOf(order.marketId).chainId !== chainId) continue
      const token = tokenOf(order)
      const need = needBySpec(order, order.remaining)
      add(open, token, need)
      add(least, token, leastBySpec(order))
      if (order.side !== BUY || isPermitted(permits, account, order)) continue
      sums.unpermitted += need
      sums.unpermittedLeast += leastBySpec(order)
    }
    for (const trade of fed.trades.values()) {
      if (placeOf(trade.marketId).chainId !== chainId || !isNeed(trade)) continue
      const bought = { orderHash: trade.buyOrderHash, permit: trade.permit }
      for (const { token, need } of tradeNeeds(trade, trader)) {
        add(pending, token, need)
        if (token !== STABLECOIN || isPermitted(permits, account, bought)) continue
        sums.unpermitted += need
        sums.unpermittedLeast += need
      }
    }
    for (const { reserve } of promised.values()) {
      if (reserve.trader !== trader || reserve.chainId !== chainId) continue
      const need = needBySpec(reserve, reserve.size)
      add(onTheWay, tokenOf(reserve), need)
      if (reserve.side === BUY && !isPermitted(permits, account, reserve)) sums.unpermitted += need
    }
    const of = (map: Map<FundsToken, bigint>, token: FundsToken) => map.get(token) ?? 0n
    return {
      ...sums,
      open: (token: FundsToken) => of(open, token),
      least: (token: FundsToken) => of(least, token) + of(pending, token),
      pending: (token: FundsToken) => of(pending, token),
      promised: (token: FundsToken) => of(onTheWay, token),
      all: (token: FundsToken) => of(open, token) + of(pending, token) + of(onTheWay, token),
    }
  }

  function place(one: Asked): void {
    const { market } = placeOf(one.order.marketId)
    // When an IOC or FOK order is answered, it releases the funds of its unfilled part.
    const timeInForce = random.chance(0.4)
      ? random.pick(['POST_ONLY', 'IOC', 'IOC', 'FOK'] as const)
      : undefined
    const { order } = one
    const answer = market.ask(
      'PlaceOrder',
      timeInForce === undefined ? { order } : { order, timeInForce },
    )
    note(placeOf(one.order.marketId))
    const isNew = !isRejection(answer) && answer.duplicate !== true
    if (isNew && answer.filled !== undefined) {
      counts[answer.filled < order.size ? 'filled in part' : 'filled at once']++
    }
    // Releases the reservation of a rejected or repeated order, unless the answer is lost.
    if (isNew || random.chance(0.1)) return
    release(one.order.orderHash)
  }

  function release(orderHash: OrderHash): void {
    actor.ask('Release', { orderHash })
    const before = promised.get(orderHash)
    if (before !== undefined && --before.asked === 0) promised.delete(orderHash)
  }

  /**
   * Lets settlement decide one pending trade. If the trade can settle, the next block contains it. Otherwise the trade
   * fails.
   */
  function settle(): void {
    const pending = [...truth.trades.values()].filter(
      (trade) =>
        trade.status === 'pending' &&
        !chainOf(trade.marketId).hasSettled(keyOf(trade)) &&
        !reports.some((report) => report.trade.tradeId === trade.tradeId),
    )
    if (pending.length === 0) return
    const trade = random.chance(0.7) ? pending[0]! : random.pick(pending)
    const chain = chainOf(trade.marketId)
    const token = outcomeToken(trade.marketId, trade.outcome)
    const cost = BigInt(costCeil(trade.price, trade.size))
    const { permit } = orderOf(trade.buyOrderHash)
    if (permit !== undefined && isUsable(chain, trade.buyer, BigInt(permit.nonce))) {
      const nonce = BigInt(permit.nonce) + 1n
      chain.change(trade.buyer, { allowance: BigInt(permit.value), nonce })
    }
    const buyer = chain.wallet(trade.buyer)
    const seller = chain.wallet(trade.seller)
    const pays = buyer.balance >= cost && buyer.allowance >= cost
    const gives = seller.isApproved && (seller.tokens.get(token) ?? 0n) >= BigInt(trade.size)
    if (!pays || !gives) {
      assert(!honest, 'every trade of honest traders settles')
      const fault = pays ? 'seller' : gives ? 'buyer' : 'both'
      reports.push({ trade, status: 'failed', fault })
      counts.failed++
      return
    }
    counts.settled++
    chain.change(trade.buyer, { balance: buyer.balance - cost, allowance: buyer.allowance - cost })
    chain.change(trade.seller, { balance: chain.wallet(trade.seller).balance + cost })
    chain.hold(trade.seller, token, -BigInt(trade.size))
    chain.hold(trade.buyer, token, BigInt(trade.size))
    chain.settle({ ...trade, tradeKey: keyOf(trade) })
  }

  /**
   * Returns whether settlement can use the owner's permit with this nonce. Permits are used in the order of their
   * nonces. So an open order or a pending trade must hold each unused nonce before this one.
   */
  function isUsable(chain: ModelChain, owner: Address, nonce: bigint): boolean {
    const known = new Set<bigint>()
    for (const { trader, marketId, permit } of truth.open.values()) {
      if (trader === owner && chainOf(marketId) === chain && permit) known.add(BigInt(permit))
    }
    for (const { buyer, marketId, permit, status } of truth.trades.values()) {
      if (buyer !== owner || chainOf(marketId) !== chain || status !== 'pending') continue
      if (permit !== undefined) known.add(BigInt(permit))
    }
    let next = chain.wallet(owner).nonce
    while (next < nonce && known.has(next)) next++
    return next === nonce
  }

  /** Adds a report for each trade that the chain has settled or reverted; the market gets the report later. */
  function findOut(): void {
    for (const trade of truth.trades.values()) {
      if (reports.some((report) => report.trade.tradeId === trade.tradeId)) continue
      const isMined = chainOf(trade.marketId).minedIn.has(keyOf(trade))
      if (trade.status === 'pending' && isMined)
        reports.push({ trade, status: 'confirmed', fault: 'none' })
      if (trade.status === 'confirmed' && !isMined) {
        reports.push({ trade, status: 'reverted', fault: 'none' })
        counts.reverted++
      }
    }
  }

  function report(): void {
    const [next] = reports.splice(random.int(0, reports.length - 1), 1)
    if (next === undefined) return
    const { trade, status, fault } = next
    if (status === 'failed' && chainOf(trade.marketId).hasSettled(keyOf(trade))) return
    const where = placeOf(trade.marketId)
    const { tradeId, size } = trade
    const buy = orderOf(trade.buyOrderHash)
    const sell = orderOf(trade.sellOrderHash)
    const told = { tradeId, status, txHash: '0x', reason: '', fault, size, buy, sell }
    where.market.ask('ReportTrade', { marketId: trade.marketId, report: told })
    note(where)
  }

  function moveFunds(): void {
    const chain = random.pick([...chains.values()])
    const trader = random.pick(TRADERS)
    const { balance, allowance, nonce, tokens } = chain.wallet(trader)
    const market = random.pick(places.filter(({ chainId }) => chainId === chain.chainId))
    const token = outcomeToken(market.id, random.int(0, 1) as Outcome)
    const held = tokens.get(token) ?? 0n
    const chance = random.next()
    if (honest || chance < 0.7) {
      if (chance < 0.2)
        chain.change(trader, { balance: balance + BigInt(random.int(1, 3_000_000)) })
      else if (chance < 0.4) chain.hold(trader, token, BigInt(random.int(1, 5_000_000)))
      else if (chance < 0.48) chain.change(trader, { isApproved: true })
      else chain.change(trader, { allowance: allowance + BigInt(random.int(1, 8_000_000)) })
    } else if (chance < 0.82) {
      chain.change(trader, { balance: balance - part(balance) })
    } else if (chance < 0.92) chain.hold(trader, token, -part(held))
    else if (chance < 0.96) chain.change(trader, { isApproved: random.chance(0.5) })
    else {
      // Changes the allowance. Half of the changes simulate a permit, which uses up a nonce.
      const used = random.chance(0.5) ? nonce + 1n : nonce
      chain.change(trader, { allowance: BigInt(random.int(0, 8_000_000)), nonce: used })
    }
  }
  const part = (amount: bigint): bigint => (amount * BigInt(random.int(0, 100))) / 100n

  function passTime(): void {
    nowMs += random.int(0, 700)
    actor.nowMs = nowMs
    for (const { market } of places) market.at((nowMs - START_SEC * 1_000) / 1_000)
    const least = Math.min(...caughtUp)
    if (actor.state.phase === 'loaded') {
      for (const [hash, { untilMs }] of promised) if (untilMs < least) promised.delete(hash)
    }
    for (const chain of chains.values()) if (random.chance(0.1)) chain.isAway = false
    actor.ask('Tick', {})
    for (const one of underWay.splice(0)) if (one.deadlineAtMs > nowMs) underWay.push(one)
  }

  function cancelSome(): void {
    const open = [...truth.open.values()]
    if (open.length === 0) return
    const { marketId, orderHash, side } = random.pick(open)
    placeOf(marketId).market.ask('CancelOrder', { marketId, orderHash, side })
    note(placeOf(marketId))
  }

  function withdrawSome(): void {
    const next = cancels.shift()
    if (next === undefined || random.chance(0.1)) return
    placeOf(next.marketId).market.ask('CancelOrders', next)
    note(placeOf(next.marketId))
  }

  function step(): void {
    const chance = random.next()
    if (chance < 0.16) ask(newOrder())
    else if (chance < 0.18 && orders.size > 0)
      ask(orderOf(random.pick([...orders.keys()].slice(-50))))
    else if (chance < 0.36) {
      const [next] = underWay.splice(random.int(0, Math.max(0, underWay.length - 1)), 1)
      if (next !== undefined && next.deadlineAtMs > nowMs) place(next)
    } else if (chance < 0.39) cancelSome()
    else if (chance < 0.51) {
      const partition = random.int(0, PARTITIONS - 1)
      const { length } = log[partition]!
      const from = fedTo[partition]!
      feed(partition, random.chance(0.7) ? length : random.int(from, length))
    } else if (chance < 0.63) deliver()
    else if (chance < 0.71) passTime()
    else if (chance < 0.77) moveFunds()
    else if (chance < 0.84) settle()
    else if (chance < 0.88) random.pick([...chains.values()]).mine()
    else if (chance < 0.9) findOut()
    else if (chance < 0.94) report()
    else if (chance < 0.965) withdrawSome()
    else if (chance < 0.985) {
      const partition = random.int(0, PARTITIONS - 1)
      project(partition, random.int(database.offsets.get(partition)!, fedTo[partition]!))
    } else if (chance < 0.994) {
      const chain = random.pick([...chains.values()])
      if (!honest) chain.reorg(random.int(1, 4))
    } else if (chance < 0.995) random.pick([...chains.values()]).loseTrack()
    else if (chance < 0.999) {
      const chain = random.pick([...chains.values()])
      chain.isAway = !chain.isAway && random.chance(0.5)
    } else kill()
    look()
  }

  function look(): void {
    hear()
    settleAsked()
    check()
  }

  /**
   * Delivers one pending result or, at random, all pending results and the results of requests that these deliveries
   * cause.
   */
  function deliver(): void {
    let left = random.chance(0.5) ? Number.POSITIVE_INFINITY : 1
    for (; left > 0 && actor.work.length > 0; left--) {
      actor.deliver(random.int(0, actor.work.length - 1))
      look()
    }
  }

  function hear(): void {
    for (; received < actor.events.length; received++) {
      const event = actor.events[received]!
      if (event.type !== 'Withdrawn') continue
      assert(!honest, 'nothing of honest traders is withdrawn')
      counts.withdrawn += event.again ? 0 : event.orderHashes.length
      cancels.push(event)
      if (event.again) continue
      for (const orderHash of event.orderHashes) {
        assert(!named.has(orderHash), 'named for the first time once')
        fresh.push(orderHash)
      }
    }
    actor.events.length = 0
    received = 0
  }
  const fresh: OrderHash[] = []

  /** Compares the accounts with the lists of `model-needs.ts`. */
  function check(): void {
    counted.clear()
    const justNamed = fresh.splice(0)
    for (const hash of justNamed) named.add(hash)
    for (const hash of named) if (!fed.open.has(hash)) named.delete(hash)
    // After a reorg, the actor reads the details of reverted trades. Meanwhile it grants nothing and is not checked.
    if (actor.state.phase !== 'loaded' || actor.state.reverted.size > 0) return
    assert.equal(actor.state.orders.size, fed.open.size)
    if (random.chance(0.02)) audit()
    for (const chain of actor.state.chains.values()) {
      for (const account of chain.accounts.values()) {
        notNegative(account)
        if (!chain.isOpen || account.block < account.wantBlock) continue
        sumsAreRight(account)
        if (!hasUnreadMatch(account)) coveredBut(account, justNamed)
      }
    }
  }

  /** Compares the actor with the database and the part of the log that the database does not have yet. */
  function audit(): void {
    const loaded = database.load()
    const events = loaded.checkpoints.flatMap(({ partition, offset }) =>
      log[partition]!.slice(offset, fedTo[partition]).flat(),
    )
    assert.deepEqual(actor.ask('Audit', { loaded, events }), [])
  }

  /**
   * Returns whether the chain's funds include a settled trade whose match the actor has not read. Until the actor reads
   * the match, it cannot know by how much the trader's funds fall short.
   *
   * Also returns true for a forgotten trade that a reorg has settled again, until the actor has read the logs to their
   * end.
   */
  function hasUnreadMatch({ chain, trader, block }: Account): boolean {
    const minedIn = viewOf(chain.chainId)?.minedIn ?? new Map<string, number>()
    const isMined = (trade: NeedsTrade): boolean =>
      (minedIn.get(keyOf(trade)) ?? block + 1) <= block
    const isUnread = [...truth.trades.values()].some(
      (trade) =>
        (trade.buyer === trader || trade.seller === trader) &&
        placeOf(trade.marketId).chainId === chain.chainId &&
        !fed.trades.has(trade.tradeId) &&
        isMined(trade),
    )
    const readTo = Math.min(...caughtUp)
    const toldAnew = [...chain.early.values()]
      .flat()
      .filter(({ lastEventAtMs }) => lastEventAtMs >= readTo)
    return (
      isUnread ||
      [...fed.trades.values()].some(
        (trade) =>
          trade.status === 'confirmed' &&
          (trade.buyer === trader || trade.seller === trader) &&
          isMined(trade) &&
          toldAnew.some(({ tradeKey }) => tradeKey === keyOf(trade)),
      )
    )
  }

  function notNegative({ cash, unpermitted, holdings }: Account): void {
    for (const { open, openMin, pending, promised: given } of [
      cash,
      unpermitted,
      ...holdings.values(),
    ]) {
      assert(open >= 0n && openMin >= 0n && pending >= 0n && given >= 0n)
    }
  }

  function sumsAreRight(account: Account): void {
    const { chain, trader, cash, unpermitted, holdings } = account
    const sums = needsOf(chain.chainId, trader)
    assert.equal(cash.open, sums.open(STABLECOIN), 'reserved for open buys')
    assert.equal(cash.pending, sums.pending(STABLECOIN), 'reserved for pending buys')
    assert.equal(cash.promised, sums.promised(STABLECOIN), 'promised to buys')
    assert.equal(unpermitted.open + unpermitted.pending + unpermitted.promised, sums.unpermitted)
    for (const { token, open, pending, promised: given } of holdings.values()) {
      assert.equal(open, sums.open(token), 'reserved for open sells')
      assert.equal(pending, sums.pending(token), 'reserved for pending sells')
      assert.equal(given, sums.promised(token), 'promised to sells')
    }
    const { balance, allowance, nonce, isApproved } = toldWallet(chain.chainId, trader)
    assert.deepEqual(
      [account.balance, account.allowance, account.nonce, account.isApproved],
      [balance, allowance, nonce, isApproved],
    )
  }

  /**
   * Checks that the trader's funds cover the remaining orders. Also checks that each newly withdrawn order had to be
   * withdrawn: the funds would not cover that order as well.
   */
  function coveredBut(account: Account, justNamed: readonly OrderHash[]): void {
    const { chainId } = account.chain
    const mine = [...fed.open.values()].filter(
      ({ trader, marketId }) => trader === account.trader && placeOf(marketId).chainId === chainId,
    )
    const unread = new Set<FundsToken>()
    for (const { token, held } of account.holdings.values())
      if (held === undefined) unread.add(token)
    const kept = mine.filter(({ orderHash }) => !named.has(orderHash))
    const judged = kept.filter((order) => !unread.has(tokenOf(order)))
    const uncoveredOf = (list: readonly NeedsOrder[]) => shortages(account, list)
    const permits = permitsOf(chainId, account.trader)
    const permitted = (order: NeedsOrder) => isPermitted(permits, account, order)
    if (actor.state.caughtUpMs > 0)
      assert.deepEqual(uncoveredOf(judged), [], 'what is kept is covered')
    for (const order of mine) {
      if (!justNamed.includes(order.orderHash)) continue
      // Orders that were open when this order was withdrawn, including this order. Orders that were withdrawn earlier
      // are left out.
      const left = mine.filter(
        (one) =>
          !named.has(one.orderHash) ||
          (justNamed.includes(one.orderHash) && byAge(one, order) <= 0),
      )
      const newer = kept.filter(
        (one) =>
          byAge(one, order) > 0 &&
          tokenOf(one) === tokenOf(order) &&
          permitted(one) === permitted(order),
      )
      assert.deepEqual(newer, [], 'the newest go first')
      assert(uncoveredOf(left).includes(tokenOf(order)), 'no more than it takes')
    }
  }

  /** Returns the tokens in which the trader's funds do not cover the given orders and all pending trades. */
  function shortages(account: Account, list: readonly NeedsOrder[]): FundsToken[] {
    const { chain, trader } = account
    const permits = permitsOf(chain.chainId, trader)
    const wallet = toldWallet(chain.chainId, trader)
    const sums = needsOf(chain.chainId, trader)
    const least = new Map<FundsToken, bigint>()
    let allowed = 0n
    for (const order of list) {
      const token = tokenOf(order)
      least.set(token, (least.get(token) ?? sums.pending(token)) + leastBySpec(order))
      if (order.side === BUY && !isPermitted(permits, account, order)) {
        allowed += leastBySpec(order)
      }
    }
    const pendingAllowed = sums.unpermittedLeast - unpermittedOpenOf(chain.chainId, trader)
    const short: FundsToken[] = []
    for (const [token, need] of least) {
      if (token === STABLECOIN) {
        const isAllowed = allowed === 0n || allowed + pendingAllowed <= wallet.allowance
        if (need > wallet.balance || !isAllowed) short.push(token)
      } else if (!wallet.isApproved || need > (wallet.tokens.get(token) ?? 0n)) short.push(token)
    }
    return short
  }

  function unpermittedOpenOf(chainId: number, trader: Address): bigint {
    let sum = 0n
    const permits = permitsOf(chainId, trader)
    const account = accountAt(chainId, trader)
    for (const order of fed.open.values()) {
      if (order.trader !== trader || placeOf(order.marketId).chainId !== chainId) continue
      if (order.side === BUY && !isPermitted(permits, account, order)) sum += leastBySpec(order)
    }
    return sum
  }

  return { step, counts }
}
