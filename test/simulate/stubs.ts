/**
 * Simple peers of the market thread, in place of services that are not simulated. A settlement reports results of
 * trades in any order and often twice, a projector reports progress, and an operator opens and closes markets.
 */

import type { MessagePort } from 'node:worker_threads'
import { channelOptions } from '#config/thread-data.ts'
import type { MarketId } from '#domain/ids.ts'
import type { Market } from '#domain/market.ts'
import { isRejection } from '#domain/rejection.ts'
import type { FaultySide, TradeStatus } from '#domain/trade.ts'
import type { TradeReport } from '#protocol/market.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { Channel, isUnanswered } from '#runtime/channel.ts'
import { makeRef } from '#runtime/ref.ts'
import { aMarket } from '../services/market/market-fixture.ts'
import { type Random, randomFrom } from '../support/random.ts'
import type { Peer, SimulatedWorld } from './exchange.ts'
import type { KnownTrade } from './market-model.ts'
import type { Oracle } from './oracle.ts'
import { type Life, newLife, Violation } from './scheduler.ts'

class Stub implements Peer {
  readonly name: string
  readonly life: Life
  protected readonly world: SimulatedWorld
  protected readonly oracle: Oracle
  protected readonly random: Random
  protected readonly thread = makeRef<MarketThreadProtocol>()

  constructor(name: string, world: SimulatedWorld, oracle: Oracle) {
    this.name = name
    this.life = newLife(name)
    this.world = world
    this.oracle = oracle
    this.random = randomFrom(world.seed ^ (name.length * 7_919))
  }

  connect(port: MessagePort): void {
    const loop = this.world.scheduler.loop(this.life)
    const options = { ...channelOptions(this.world.settings), loop }
    this.thread.replace(new Channel(port, options, { received() {} }))
  }

  protected every(ms: number, act: () => Promise<unknown>): void {
    const { scheduler } = this.world
    scheduler.every(ms * 1_000, () => void act().catch((error) => scheduler.fail(error)), this.life)
  }
}

/** Number of recent reports that are kept. Some of them are sent a second time. */
const REPORTS_KEPT = 30

export class SettlementStub extends Stub {
  readonly #reports: TradeReport[] = []
  #transactions = 0

  constructor(world: SimulatedWorld, oracle: Oracle) {
    super('settlement', world, oracle)
    this.every(150, () => this.#step())
  }

  override connect(port: MessagePort): void {
    super.connect(port)
    for (const { chainId } of this.world.settings.chains) {
      this.thread.tell('SettlementLag', { chainId, behind: false })
    }
  }

  async #step(): Promise<void> {
    const { random } = this
    if (this.#reports.length > 0 && random.chance(0.2)) {
      await this.#report(random.pick(this.#reports))
      return
    }
    const pending = this.oracle.newestTrades(20)
    if (pending.length === 0) return
    const trade = random.pick(pending)
    const status = this.#next(trade)
    if (status === undefined) return
    const { tradeId, size, buy, sell } = trade
    const fault = random.pick<FaultySide>(['none', 'buyer', 'seller', 'both'])
    const txHash = `0x${(++this.#transactions).toString(16).padStart(64, '0')}`
    const failure = { reason: 'InsufficientShares', fault }
    const success = { reason: '', fault: 'none' as const }
    const more = status === 'failed' ? failure : success
    const report: TradeReport = { tradeId, status, txHash, ...more, size, buy, sell }
    this.#reports.push(report)
    if (this.#reports.length > REPORTS_KEPT) this.#reports.shift()
    await this.#report(report)
  }

  #next({ status }: KnownTrade): TradeStatus | undefined {
    const { random } = this
    if (status === 'confirmed') return random.chance(0.1) ? 'reverted' : undefined
    if (status === 'submitted') return random.chance(0.4) ? 'failed' : 'confirmed'
    return random.chance(0.2) ? 'failed' : 'submitted'
  }

  async #report(report: TradeReport): Promise<void> {
    const { tradeId, buy } = report
    const answer = await this.thread.ask('ReportTrade', { marketId: buy.marketId, report })
    this.world.scheduler.trace(
      `settlement ${report.status} ${tradeId.slice(62)} ${JSON.stringify(answer)}`,
    )
    if (isUnanswered(answer) || isRejection(answer)) return
    const trade = this.oracle.markets.get(buy.marketId)?.trades.get(tradeId)
    if (answer.status === 'failed' && trade?.status !== 'failed') {
      throw new Violation(
        'report-logged',
        `${tradeId} was answered failed, but is ${trade?.status}`,
      )
    }
  }
}

export class ProjectorStub extends Stub {
  constructor(world: SimulatedWorld, oracle: Oracle) {
    super('store', world, oracle)
    this.every(700, () => this.#project())
  }

  async #project(): Promise<void> {
    for (const { partition, lastOffset } of this.world.truth) {
      const offset = lastOffset - this.random.int(0, Math.min(30, lastOffset))
      await this.thread.ask('Projected', { partition, offset })
    }
  }
}

/** Opens markets until there are enough, and closes some. */
export class OperatorStub extends Stub {
  readonly #markets: Market[] = []
  readonly #openMax: number
  isOpening = true

  constructor(world: SimulatedWorld, oracle: Oracle) {
    super('indexer', world, oracle)
    this.#openMax = this.random.int(1, 5)
    this.every(500, () => this.#step())
  }

  async #step(): Promise<void> {
    const { random } = this
    const known = [...this.oracle.markets.values()]
    const open = known.filter(({ closed }) => closed === undefined)
    if (this.isOpening && open.length < this.#openMax) await this.#open()
    const over = known.filter(({ closed }) => closed === 'expired')
    const [ended] = over
    if (ended !== undefined && random.chance(0.2)) await this.#close(ended.id, 'resolved')
    if (open.length > 1 && random.chance(0.004))
      await this.#close(random.pick(open).id, 'withdrawn')
  }

  async #open(): Promise<void> {
    const { random } = this
    const nowSec = Math.floor(this.world.scheduler.nowMs / 1_000)
    const again = this.#markets.filter(({ id }) => !this.oracle.markets.has(id))
    const market =
      again[0] ??
      aMarket({
        id: random.hex(32) as MarketId,
        createdAt: nowSec,
        expiration: nowSec + (random.chance(0.5) ? random.int(30, 200) : 1_000_000),
      })
    if (again.length === 0) {
      this.#markets.push(market)
      // Prepares the market on the chain up to 3 s later, so its first trades may match before it is prepared.
      const act = () => this.world.people?.prepare(market.id)
      this.world.scheduler.after(random.int(0, 3_000_000), act)
    }
    const answer = await this.thread.ask('OpenMarket', { market })
    if (isRejection(answer) && answer.rejected === 'MARKET_CLOSED') {
      this.#markets.splice(this.#markets.indexOf(market), 1)
    }
  }

  async #close(marketId: MarketId, reason: 'resolved' | 'withdrawn'): Promise<void> {
    await this.thread.ask('CloseMarket', { marketId, reason })
  }
}
