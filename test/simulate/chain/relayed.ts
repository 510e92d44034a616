/**
 * The front that sends the owners' signed operations to the relayer, with the real service of a front. Checks that
 * every operation ends and is executed at most once. Also checks that the database rows agree with the chain, and that
 * no gas budget is exceeded.
 */

import type { MessagePort } from 'node:worker_threads'
import type { Hex } from 'viem'
import { makeRelayService } from '#api/relayer/relay-service.ts'
import { topicsOf } from '#chain/chain-log.ts'
import { channelOptions } from '#config/thread-data.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import type { Address } from '#domain/ids.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import type { RelayOperation } from '#domain/relay.ts'
import type { RelayAnswer, RelayerRequests } from '#protocol/relayer.ts'
import { Channel } from '#runtime/channel.ts'
import { makeRef } from '#runtime/ref.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import type { Tables } from '../database.ts'
import type { SimulatedWorld } from '../exchange.ts'
import { newLife, Violation } from '../scheduler.ts'
import type { Block, Mined, SimulatedChain } from './chain.ts'
import type { OrderDesk } from './order-desk.ts'
import { OWNER_ADDRESSES, Owners } from './owners.ts'
import { type Relayed as RelayedCall, relayedIn } from './relayed-calls.ts'

const OWNER_DOLLARS = 500_000_000n
const EVERY_US = 900_000
const DEADLINE_MS = 10_000
const AGAIN_MS = 2_000
/** Answers after which the owner sends the request again. */
const PASSING: readonly string[] = [
  ...['OVERLOADED', 'OUTCOME_UNKNOWN', 'CHAIN_UNAVAILABLE', 'RELAYER_UNAVAILABLE'],
  ...['PART_UNAVAILABLE', 'STORAGE_FULL', 'SEQ_NOT_REACHED', 'REQUEST_TIMEOUT'],
]
const SPENT = /is used up/

type Asked = {
  readonly operation: RelayOperation
  answer: RelayAnswer | Rejection | undefined
}

type RelayRow = {
  readonly relay_key: Buffer
  readonly kind: string
  readonly status: string
  readonly unfinished: number
  readonly tx_hash: Buffer | null
  readonly attempt: number
  readonly gas: number
}

type ClaimRow = {
  readonly relay_key: Buffer
  readonly user_address: Buffer
  readonly market_id: Buffer
  readonly status: string
}

/** What the relayer's transactions have done up to a block, on this block's branch. */
type Done = {
  /** Gas used, by owner and budget. */
  readonly spent: ReadonlyMap<string, number>
  /** Calls that succeeded. */
  readonly calls: ReadonlySet<string>
}

type RelayedWorld = SimulatedWorld & {
  readonly chain: SimulatedChain
  readonly tables: Tables
  readonly desk: OrderDesk
  /** Accounts that send the relayer's transactions. */
  readonly lanes: readonly Address[]
}

export class Relayed {
  readonly name = 'front-relayed'
  readonly life = newLife(this.name)
  readonly #world: RelayedWorld
  readonly #random: Random
  readonly #relayer = makeRef<RelayerRequests>()
  readonly #service
  readonly #asked: Asked[] = []
  readonly #owners: Owners
  readonly #done = new WeakMap<Block, Done>()
  /** Number of trades of each owner that settled, in any branch. */
  readonly #trades = new Map<Address, number>()
  /** Number of operations of each kind that were sent and confirmed. */
  readonly #sent = new Map<string, number>()
  isMoving = true

  constructor(world: RelayedWorld) {
    this.#world = world
    this.#random = randomFrom(Math.imul(world.seed + 101, 0x1b56c4e9))
    const { chain, scheduler, settings } = world
    const { deadlineAheadSecMax, redemptionsMax } = settings.relayer
    const ordersOf = (owner: Address) => world.desk.ordersOf(owner)
    this.#owners = new Owners({ settings, chain, random: this.#random, ordersOf })
    const { chainId, settlement, conditionalTokens, stablecoin } = chain.contracts.at
    const contracts = { settlement, conditionalTokens, stablecoin }
    const terms = { role: 'test', ...contracts, deadlineAheadSecMax, redemptionsMax } as const
    this.#service = makeRelayService({
      chains: [{ chainId, terms, relayer: this.#relayer }],
      nowMs: () => scheduler.nowMs,
    })
    chain.act({
      name: 'fund',
      run: (funds) => {
        for (const owner of [...OWNER_ADDRESSES, ...world.lanes]) {
          funds.put(owner, { ...funds.wallet(owner), dollars: OWNER_DOLLARS })
        }
        return []
      },
    })
    scheduler.every(EVERY_US, () => {
      if (this.isMoving) this.#watch(this.#move())
    })
  }

  connectRelayer(port: MessagePort): void {
    const { settings, scheduler } = this.#world
    const options = { ...channelOptions(settings), loop: scheduler.loop(this.life) }
    this.#relayer.replace(new Channel(port, options, { received() {} }))
  }

  #watch(work: Promise<unknown>): void {
    work.catch((error) => this.#world.scheduler.fail(error))
  }

  async #move(): Promise<void> {
    const random = this.#random
    const { scheduler } = this.#world
    const signed = await this.#owners.next(Math.floor(scheduler.nowMs / 1_000))
    if (signed === undefined) return
    const { operation, off } = signed
    this.#world.desk.withdraws(operation)
    const asked: Asked = { operation, answer: undefined }
    this.#asked.push(asked)
    scheduler.trace(`${this.name} asks ${operation.kind}${off === 0n ? '' : ' with a wrong nonce'}`)
    this.#watch(this.#ask(asked))
    // The same request twice at once.
    if (random.chance(0.1)) this.#watch(this.#ask(asked))
    // Repeats an earlier request. The relayer must answer with the same transaction, or refuse.
    if (random.chance(0.15)) this.#watch(this.#ask(random.pick(this.#asked)))
  }

  /** Sends an operation, again and again until it gets a final answer. */
  async #ask(asked: Asked): Promise<void> {
    const { scheduler } = this.#world
    const answer = await this.#service.relay(asked.operation, scheduler.nowMs + DEADLINE_MS)
    scheduler.trace(`${this.name} ${asked.operation.kind} ${JSON.stringify(answer)}`)
    const isPassing =
      isRejection(answer) && PASSING.includes(answer.rejected) && !SPENT.test(answer.detail ?? '')
    if (!isPassing) asked.answer ??= answer
    else {
      const again = () => this.#watch(this.#ask(asked))
      scheduler.after(AGAIN_MS * 1_000, again, this.life)
    }
  }

  /** Called with each block. Checks that each call succeeds once, and that the gas stays within the budgets. */
  mined(block: Block): void {
    for (const { verdicts } of block.mined) this.#settled(verdicts)
    const before = (block.parent && this.#done.get(block.parent)) ?? NOTHING_DONE
    const { lanes, chain } = this.#world
    const own = block.mined.flatMap((mined) => {
      if (!lanes.includes(mined.transaction.from)) return []
      return relayedIn(mined.transaction, chain.contracts.at).map((call) => ({ call, mined }))
    })
    if (own.length === 0) {
      this.#done.set(block, before)
      return
    }
    const [spent, calls] = [new Map(before.spent), new Set(before.calls)]
    this.#done.set(block, { spent, calls })
    for (const { call, mined } of own) {
      this.#add(spent, calls, call, mined)
      const market = block.markets.get(mined.transaction.to)
      if (call.kind === 'settle-market' && mined.succeeded && market?.isPaid === false) {
        throw new Violation('pays', `${mined.transaction.hash} resolves without the payouts`)
      }
    }
    for (const [name, gas] of spent) {
      const most = this.#mostGas(name)
      if (gas > most) throw new Violation('relay-budget', `${name} has spent ${gas} of ${most}`)
    }
  }

  #add(
    spent: Map<string, number>,
    calls: Set<string>,
    { owner, purpose, kind }: RelayedCall,
    { transaction, succeeded, gasUsed }: Mined,
  ): void {
    for (const name of [`${owner} ${purpose}`, purpose]) {
      spent.set(name, (spent.get(name) ?? 0) + gasUsed)
    }
    if (!succeeded) return
    const { to, data, hash } = transaction
    if (calls.has(`${to} ${data}`) && this.#world.chain.deepReorgs === 0) {
      throw new Violation('relayed-once', `${kind} of ${owner} succeeds again in ${hash}`)
    }
    calls.add(`${to} ${data}`)
    this.#sent.set(kind, (this.#sent.get(kind) ?? 0) + 1)
  }

  #settled(verdicts: Mined['verdicts']): void {
    for (const { reason, tradeId } of verdicts) {
      const trade = reason === 'None' ? this.#world.desk.tradeOf(tradeId) : undefined
      for (const { trader } of trade === undefined ? [] : [trade.buy, trade.sell]) {
        this.#trades.set(trader, (this.#trades.get(trader) ?? 0) + 1)
      }
    }
  }

  #mostGas(name: string): number {
    const { relayer } = this.#world.settings
    const [ownerMax, allMax] = name.endsWith('redemption')
      ? [relayer.ownerRedemptionGasPerDay, relayer.redemptionGasPerDay]
      : [relayer.ownerGasPerDay, relayer.gasPerDay]
    if (!name.startsWith('0x')) {
      const kept = Math.ceil((allMax * relayer.tradersPercent) / 100)
      return this.#trades.size > 0 ? allMax : allMax - kept
    }
    const trades = this.#trades.get(name.split(' ')[0] as Address) ?? 0
    return Math.min(ownerMax, relayer.newcomerGasPerDay + trades * relayer.gasPerTrade)
  }

  /** Returns operations that have not ended, or whose database row differs from the chain. */
  unfinished(): string[] {
    const { tables, chain } = this.#world
    const waiting = this.#asked.flatMap(({ operation, answer }) =>
      answer === undefined ? [`${operation.kind} of ${operation.owner} has no answer`] : [],
    )
    const rows = tables.file.prepare<[], RelayRow>('select * from relays').all()
    const mined = new Map(
      chain.blocks.flatMap((block) => block.mined.map((one) => [one.transaction.hash, one])),
    )
    const different = rows.flatMap((row) => {
      const { relay_key, kind, status, unfinished, tx_hash, attempt, gas } = row
      const named = `${kind} ${relay_key.toString('hex').slice(0, 8)}`
      if (unfinished === 1) return [`${named} is ${status}`]
      const hash: Hex = `0x${tx_hash?.toString('hex') ?? ''}`
      const { succeeded = false, gasUsed = gas } = mined.get(hash) ?? {}
      if (chain.deepReorgs > 0) return []
      if (succeeded !== (status === 'confirmed')) {
        const how = succeeded ? 'succeeded' : 'not succeeded'
        return [`${named} is ${status}, but its transaction has ${how}`]
      }
      // The row has the gas of all attempts, so it is compared only if there was one attempt.
      if (attempt > 1 || gas === gasUsed) return []
      return [`${named} has cost ${gasUsed} gas, and its row says ${gas}`]
    })
    return [...waiting, ...different, ...this.#claimFlaws(rows)]
  }

  /**
   * Returns contradictions between claims and redemptions. Each claim must have the status of its redemption. If a
   * redemption is confirmed, its transaction must have redeemed the market of each of its claims.
   */
  #claimFlaws(rows: readonly RelayRow[]): string[] {
    const { tables, chain } = this.#world
    if (chain.deepReorgs > 0) return []
    const byKey = new Map(rows.map((row) => [row.relay_key.toString('hex'), row]))
    const claims = tables.file.prepare<[], ClaimRow>('select * from claims').all()
    const logs = new Map(
      chain.blocks.flatMap((block) => block.mined.map((one) => [one.transaction.hash, one.logs])),
    )
    const counts = new Map<string, number>()
    for (const { relay_key } of claims) {
      const key = relay_key.toString('hex')
      counts.set(key, (counts.get(key) ?? 0) + 1)
    }
    const missing = rows.flatMap(({ relay_key, kind, status, tx_hash }) => {
      if (status !== 'confirmed' || !kind.endsWith('ctf-redemption')) return []
      const paid = logs.get(`0x${tx_hash?.toString('hex') ?? ''}`) ?? []
      const redeemed = paid.filter(({ topics }) => topics[0] === REDEEMED).length
      const claimed = counts.get(relay_key.toString('hex')) ?? 0
      return claimed === redeemed
        ? []
        : [`a ${kind} redeems ${redeemed} markets, claims ${claimed}`]
    })
    const wrong = claims.flatMap(({ relay_key, user_address, market_id, status }) => {
      const row = byKey.get(relay_key.toString('hex'))
      const named = `the claim of ${user_address.toString('hex')} in ${market_id.toString('hex')}`
      if (row?.status !== status) return [`${named} is ${status}, its redemption ${row?.status}`]
      if (status !== 'confirmed') return []
      const hash: Hex = `0x${row.tx_hash?.toString('hex') ?? ''}`
      const [user, market] = [user_address, market_id].map((bytes) => bytes.toString('hex'))
      const isPaid = (logs.get(hash) ?? []).some(
        ({ topics, data }) => topics[1]?.endsWith(user!) === true && data.includes(market!),
      )
      return isPaid ? [] : [`${named} is confirmed, but ${hash} did not redeem it`]
    })
    return [...missing, ...wrong]
  }

  /** Returns as text the number of requested operations, and for each kind the number that succeeded. */
  get counts(): string {
    const kinds = [...this.#sent].map(([kind, count]) => `${kind} ${count}`).join(', ')
    return `${this.#asked.length} operations: ${kinds}`
  }
}

const [REDEEMED] = topicsOf(conditionalTokensAbi, ['PayoutRedemption']).keys()
const NOTHING_DONE: Done = { spent: new Map(), calls: new Set() }
