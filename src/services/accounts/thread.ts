/**
 * An accounts thread: reserves funds for its share of the traders. It reads the logs of all markets from the position
 * of the database, follows the funds on each chain, and cancels orders that are no longer covered.
 */

import { type SettlementContract, settlementContract } from '#chain/settlement-contract.ts'
import { contractsOf, databaseUrlOf, isNode, type ThreadData } from '#config/thread-data.ts'
import { accountsThreadOf, isFrontThread, LOG_COPY_THREAD } from '#config/topology.ts'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { reject } from '#domain/rejection.ts'
import type { LogReader } from '#log/event-log.ts'
import { openLogReader } from '#log/log-reader.ts'
import { PACKED } from '#log/packed-event.ts'
import { type LogEnds, openLogEnds } from '#log/server/log-ends.ts'
import type { AccountsFollowerProtocol } from '#protocol/accounts.ts'
import { ACCOUNTS_FORMS } from '#protocol/accounts-forms.ts'
import type { Protocol } from '#runtime/actor.ts'
import type { Served } from '#runtime/serve.ts'
import type { ThreadParts } from '#runtime/thread.ts'
import { type ChainWorld, chainWorld } from '#services/kit/chain-world.ts'
import { linkWriters, makeFollowers, makeKit, serveActor } from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import type { Adapters } from '#services/kit/world.ts'
import { accounts } from './accounts.ts'
import { makeFundsChain } from './chain/funds-chain.ts'
import { accountsMeters } from './metrics.ts'
import { newAccounts } from './new-accounts.ts'
import type { AccountsEvent, AccountsProtocol, AccountsState, LoadedAccounts } from './state.ts'

const TICK_MS = 50
/** The logs are also read without a notification. */
const LOOK_EVERY_MS = 500
/** Records read and applied in one turn. */
const READ_MAX = 1_000
/** Changes of funds are collected for this long before the fronts are notified. */
const TELL_EVERY_MS = 50
/** Approximate size of one of them in a message. */
const ACCOUNT_BYTES = 128
const RPC_TIMEOUT_MS = 3_000
const MAILBOX_MAX = 100_000
/** A reorg may revert trades of markets that closed less than this ago. */
const REORG_MS_MAX = 86_400_000

/** Another node reserves funds, or will. */
const AWAY = reject('OVERLOADED', undefined, 'the funds are about to be read by another node')

type FollowedChain = {
  readonly port: ReturnType<typeof makeFundsChain>
  readonly contract: SettlementContract
}

type AccountsWorld = ChainWorld & Pick<Adapters, 'openLogReader' | 'openLogEnds'>

const REAL: AccountsWorld = { ...chainWorld, openLogReader, openLogEnds }

export function accountsThread(data: ThreadData, world: AccountsWorld = REAL): ThreadParts {
  const { settings, index } = data
  const kit = makeKit(data, world)
  const { log, clock } = kit
  const writers = linkWriters(settings, kit.links, {
    told: (type) => {
      if (type === 'Appended') read()
    },
  })
  const fronts = makeFollowers<AccountsFollowerProtocol>(settings, kit.links, ACCOUNTS_FORMS)
  /** On a node: notifies when the local copy of the log has grown. */
  const logCopies = makeFollowers<Protocol>(settings, kit.links)
  /** With several machines, one at a time reserves: two would promise the same funds. */
  const leases = isNode(settings) ? makeLeases(data, kit, world) : undefined
  const role = `accounts/${index}`
  /** On a node: end of the log and its time; the files here are a copy that may lag. */
  const ends = new Map<number, { readonly offset: number; readonly atMs: number }>()
  let logEnds: LogEnds | undefined
  const reads = world.makeReads(databaseUrlOf(settings))
  const followed = new Map<number, FollowedChain>()
  /** By partition: the last applied offset. Empty until the actor has loaded. */
  const folded = new Map<number, number>()
  const changed = new Map<string, { readonly chainId: number; readonly trader: Address }>()
  let reader: LogReader<MarketEvent>
  let state: AccountsState
  let served: Served | undefined
  let reading = false
  let stopped = false
  const meters = accountsMeters(kit, () => state)

  const isMine = (trader: Address): boolean =>
    accountsThreadOf(trader, settings.risk.threads) === index

  function chainOf(chainId: number): FollowedChain {
    const chain = followed.get(chainId)
    if (chain === undefined) throw new Error(`chain ${chainId} is not one of this exchange`)
    return chain
  }

  function follow(chain: (typeof settings.chains)[number]): FollowedChain['port'] {
    const { chainId, rpcUrls } = chain
    const client = world.makeChainClient({
      chainId,
      rpcUrls,
      timeoutMs: RPC_TIMEOUT_MS,
      onError: (trouble) => meters.unanswered(chainId, trouble),
    })
    const port = makeFundsChain({ client, contracts: contractsOf(chain) })
    const contract = settlementContract(client, contractsOf(chain).settlement)
    followed.set(chainId, { port, contract })
    return port
  }

  /** Loads our traders' needs from the database. */
  async function load(): Promise<LoadedAccounts> {
    const checkpoints: LoadedAccounts['checkpoints'][number][] = []
    const markets: LoadedAccounts['markets'][number][] = []
    const orders: LoadedAccounts['orders'][number][] = []
    const trades: LoadedAccounts['trades'][number][] = []
    const closedSinceMs = clock.nowMs() - REORG_MS_MAX
    await reads.openNeeds({ closedSinceMs }, (page) => {
      if ('checkpoints' in page) checkpoints.push(...page.checkpoints)
      else if ('markets' in page) markets.push(...page.markets)
      else if ('orders' in page) {
        for (const order of page.orders) if (isMine(order.trader)) orders.push(order)
      } else {
        for (const trade of page.trades) {
          if (isMine(trade.buyer) || isMine(trade.seller)) trades.push(trade)
        }
      }
    })
    return { checkpoints, markets, orders, trades }
  }

  function hear(type: keyof AccountsProtocol & string, message: object): void {
    served?.hear(type, message, 0, undefined)
  }

  /** Applies new records of the logs, one turn at a time. */
  function read(): void {
    if (reading || stopped) return
    reading = true
    kit.timers.soon(() => {
      reading = false
      if (!stopped && readTurn()) read()
    })
  }

  /** Returns whether there is more. */
  function readTurn(): boolean {
    let more = false
    for (const [partition, offset] of folded) {
      const atMs = clock.nowMs()
      let records: ReturnType<typeof reader.read>
      try {
        records = reader.read(partition, offset + 1, READ_MAX)
      } catch (error) {
        if (!(error instanceof Fault && error.retryable)) throw error
        log.warn({ partition, why: error.message }, 'the log cannot be read at present')
        continue
      }
      const first = records[0]
      if (first !== undefined && first.offset !== offset + 1) {
        // Unread records were truncated: the database has them, so everything is loaded again.
        throw new Error(`the log of partition ${partition} begins at ${first.offset} by now`)
      }
      const toOffset = records.at(-1)?.offset ?? offset
      folded.set(partition, toOffset)
      const isEnd = records.length < READ_MAX
      more ||= !isEnd
      const caughtUpAtMs = !isEnd ? undefined : isNode(settings) ? endedAt(partition) : atMs
      hear('Logged', {
        partition,
        events: records.map(({ event }) => event),
        toOffset,
        ...(caughtUpAtMs === undefined ? {} : { caughtUpAtMs }),
      })
    }
    return more
  }

  /** Returns when the log of a partition ended at the position read; undefined if unknown. */
  function endedAt(partition: number): number | undefined {
    const end = ends.get(partition)
    return end !== undefined && (folded.get(partition) ?? 0) >= end.offset ? end.atMs : undefined
  }

  let looking = false

  async function lookAtEnds(): Promise<void> {
    if (logEnds === undefined || looking) return
    looking = true
    const atMs = clock.nowMs()
    try {
      for (const [partition, offset] of await logEnds.read()) ends.set(partition, { offset, atMs })
      read()
    } catch (error) {
      if (!(error instanceof Fault && error.retryable) && !stopped) throw error
      log.debug({ err: error }, 'the end of the log is not known at present')
    } finally {
      looking = false
    }
  }

  function say(said: AccountsEvent): void {
    meters.said(said)
    switch (said.type) {
      case 'CheckpointsLoaded':
        for (const { partition, offset } of said.checkpoints) folded.set(partition, offset)
        read()
        break
      case 'Withdrawn': {
        const { marketId, trader, orderHashes } = said
        const message = { marketId, trader, orderHashes, reason: 'unfunded' as const }
        // The result is ignored: an order that stays is emitted again.
        void writers.marketOf(marketId).ask('CancelOrders', message)
        break
      }
      case 'FundsChanged':
        changed.set(`${said.chainId} ${said.trader}`, said)
        break
      case 'Trouble':
        log.warn({ what: said.what, why: said.why }, 'accounts cannot be kept at present')
        break
      case 'Refused':
        break
    }
  }

  function tellChanged(): void {
    if (changed.size === 0) return
    const told = [...changed.values()].map(({ chainId, trader }) => ({ chainId, trader }))
    changed.clear()
    fronts.tell('FundsChanged', { accounts: told }, ACCOUNT_BYTES * told.length)
  }

  /** `quietMs`: for this long, orders promised by a predecessor may arrive. */
  function begin(quietMs: number): void {
    const { deadlineMs } = settings.front
    state = newAccounts(
      {
        load,
        chains: settings.chains.filter(({ rpcUrls }) => rpcUrls.length > 0).map(follow),
        tradeKeyOf: (chainId, trade) => chainOf(chainId).contract.tradeKeyOf(trade),
        areSettled: (chainId, trades, at) => chainOf(chainId).port.settledOf(trades, at),
        readTrades: (tradeIds) => reads.query('tradeNeeds', { tradeIds }),
      },
      {
        isMine,
        stepEveryMs: settings.indexer.pollMs,
        staleMs: Math.max(10_000, 5 * settings.indexer.pollMs),
        sweepMs: 60_000,
        graceMs: deadlineMs,
        quietMs,
        nameAgainMs: 2_000,
        closedMs: REORG_MS_MAX,
        idleMax: 10_000,
        promisesMax: 200_000,
        waitingMax: 20_000,
        waitingPerOwnerMax: 200,
      },
    )
    served = serveActor<AccountsState, AccountsProtocol, AccountsEvent>({
      behaviour: accounts,
      state,
      clock,
      say,
      mailboxMax: MAILBOX_MAX,
    })
    hear('Tick', {})
    kit.every(TICK_MS, () => hear('Tick', {}))
    kit.every(LOOK_EVERY_MS, read)
    kit.every(TELL_EVERY_MS, tellChanged)
    log.info({ chains: [...followed.keys()] }, 'accounts follow the log and the chains')
  }

  return {
    async start() {
      reader = world.openLogReader(settings.data.dir, { form: PACKED })
      const restartMs = 2 * settings.front.deadlineMs
      if (leases === undefined) {
        // When the whole exchange starts, no order is under way; when only this thread restarts, some may be.
        begin(Atomics.add(data.accountsBegun, index, 1) === 0 ? 0 : restartMs)
        return
      }
      logEnds = world.openLogEnds(settings.log.url)
      kit.every(LOOK_EVERY_MS, () => kit.detach(lookAtEnds()))
      // The first holder has no predecessor.
      await leases.hold(role, ({ epoch }) => begin(epoch === 1 ? 0 : restartMs))
    },
    connect(peer, port) {
      if (isFrontThread(peer)) {
        fronts.add(peer, port, (type, message, replyTo, front) => {
          const isOurs = leases === undefined || leases.isSure(role)
          if (served !== undefined && isOurs) served.hear(type, message, replyTo, front)
          else front.reply(replyTo, AWAY)
        })
      } else if (peer === LOG_COPY_THREAD) logCopies.add(peer, port, read)
      else writers.take(peer, port)
    },
    health: () => leases?.standby() || meters.why(),
    metrics: kit.metrics,
    async drain() {
      kit.quiet()
      await served?.drained()
    },
    async stop() {
      stopped = true
      kit.quiet()
      fronts.close()
      writers.close()
      logCopies.close()
      await logEnds?.close()
      await reader.close()
      await reads.close()
      await leases?.close()
    },
  }
}
