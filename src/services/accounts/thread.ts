/**
 * An accounts thread: reserves funds for its share of the traders. It follows the funds on each chain, and cancels
 * orders that are no longer covered. It reads the logs of all markets, starting at the position that the database has
 * reached.
 */

import { databaseUrlOf, isNode, type ThreadData } from '#config/thread-data.ts'
import { accountsThreadOf, isFrontThread, LOG_COPY_THREAD } from '#config/topology.ts'
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
import type { Thread } from '#runtime/thread.ts'
import { type ChainWorld, chainWorld } from '#services/kit/chain-world.ts'
import { linkWriters, makeFollowers, makeThreadContext, serveActor } from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import type { Adapters } from '#services/kit/world.ts'
import type { Reads } from '#store/reads/reads.ts'
import { accounts } from './accounts.ts'
import { accountsMeters } from './metrics.ts'
import { newAccounts } from './new-accounts.ts'
import type { AccountsEvent, AccountsProtocol, AccountsState } from './state.ts'
import { followChains } from './thread/followed-chains.ts'
import { loadAccounts, REORG_MS_MAX } from './thread/load-accounts.ts'
import { type LogFeed, makeLogFeed } from './thread/log-feed.ts'
import { makePass } from './thread/pass-events.ts'

const TICK_MS = 50
/** Interval at which the logs are read even without a notification. */
const LOOK_EVERY_MS = 500
/** Time for which changes of funds are collected before the fronts are notified. */
const TELL_EVERY_MS = 50
const MAILBOX_MAX = 100_000

/** Answer to fronts while this thread does not serve its traders yet, or may have lost its lease. */
const AWAY = reject(
  'OVERLOADED',
  undefined,
  'another node is taking over the tracking of funds: retry shortly',
)

type AccountsWorld = ChainWorld & Pick<Adapters, 'openLogReader' | 'openLogEnds'>

const REAL: AccountsWorld = { ...chainWorld, openLogReader, openLogEnds }

export function accountsThread(data: ThreadData, world: AccountsWorld = REAL): Thread {
  const { settings, index } = data
  const kit = makeThreadContext(data, world)
  const { log, clock } = kit
  const writers = linkWriters(settings, kit, {
    received: (type) => void (type === 'Appended' && feed?.read()),
  })
  const fronts = makeFollowers<AccountsFollowerProtocol>(settings, kit, ACCOUNTS_FORMS)
  /**
   * In a cluster: links to the thread that copies the log to this machine. Its notifications make this thread read the
   * new records of the copy.
   */
  const logCopies = makeFollowers<Protocol>(settings, kit)
  /**
   * In a cluster, a lease ensures that only one node reserves these funds. Without the lease, two nodes could reserve
   * the same funds twice.
   */
  const leases = isNode(settings) ? makeLeases(data, kit, world) : undefined
  const role = `accounts/${index}`
  let logEnds: LogEnds | undefined
  const reads = world.makeReads(databaseUrlOf(settings))
  const { pass, tellChanged } = makePass(kit, { feed: () => feed, writers, fronts })
  let reader: LogReader<MarketEvent> | undefined
  let feed: LogFeed | undefined
  let state: AccountsState
  let served: Served | undefined
  let stopped = false
  const meters = accountsMeters(kit, () => state)

  const isMine = (trader: Address): boolean =>
    accountsThreadOf(trader, settings.risk.threads) === index

  function hear(type: keyof AccountsProtocol & string, message: object): void {
    served?.hear(type, message, 0, undefined)
  }

  /**
   * Starts the actor. It grants no funds for `quietMs`, because orders that the previous instance of this thread
   * granted may not be in the log yet.
   */
  function begin(quietMs: number): void {
    const chainPorts = followChains(settings, world, meters.unanswered)
    state = newStateOf(settings, chainPorts, { reads, isMine, quietMs, nowMs: clock.nowMs })
    served = serveActor<AccountsState, AccountsProtocol, AccountsEvent>({
      ...{ behaviour: accounts, state, clock, loop: kit.loop },
      say(said) {
        meters.said(said)
        pass(said)
      },
      mailboxMax: MAILBOX_MAX,
    })
    hear('Tick', {})
    kit.every(TICK_MS, () => hear('Tick', {}))
    kit.every(LOOK_EVERY_MS, () => feed?.read())
    kit.every(TELL_EVERY_MS, tellChanged)
    log.info(
      { chains: chainPorts.chains.map(({ chainId }) => chainId) },
      'the accounts thread now reads the log and the chains',
    )
  }

  return {
    async start() {
      reader = world.openLogReader(settings.data.dir, { form: PACKED })
      if (leases !== undefined) logEnds = world.openLogEnds(settings.eventLog.url)
      feed = makeLogFeed(kit, {
        ...{ reader, logEnds, isStopped: () => stopped },
        deliver: (message) => hear('Logged', message),
      })
      const restartMs = 2 * settings.front.deadlineMs
      if (leases === undefined) {
        // When the whole exchange starts, no order is in flight. When only this thread restarts, orders may be in
        // flight, so it grants no funds for `restartMs`.
        begin(Atomics.add(data.accountsBegun, index, 1) === 0 ? 0 : restartMs)
        return
      }
      const { lookAtEnds } = feed
      kit.every(LOOK_EVERY_MS, () => kit.detach(lookAtEnds()))
      // Epoch 1 means that the lease never had another owner. So no order can be in flight, and no wait is needed.
      await leases.hold(role, ({ epoch }) => begin(epoch === 1 ? 0 : restartMs))
    },
    connect(peer, port) {
      if (isFrontThread(peer)) {
        fronts.add(peer, port, (type, message, replyTo, front) => {
          const isOurs = leases === undefined || leases.isSure(role)
          if (served !== undefined && isOurs) served.hear(type, message, replyTo, front)
          else front.reply(replyTo, AWAY)
        })
      } else if (peer === LOG_COPY_THREAD) logCopies.add(peer, port, () => feed?.read())
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
      for (const links of [fronts, writers, logCopies]) links.close()
      await logEnds?.close()
      await reader?.close()
      await reads.close()
      await leases?.close()
    },
  }
}

function newStateOf(
  settings: ThreadData['settings'],
  chainPorts: ReturnType<typeof followChains>,
  {
    reads,
    isMine,
    quietMs,
    nowMs,
  }: {
    readonly reads: Reads
    readonly isMine: (trader: Address) => boolean
    readonly quietMs: number
    readonly nowMs: () => number
  },
): AccountsState {
  return newAccounts(
    {
      load: () => loadAccounts(reads, isMine, nowMs()),
      ...chainPorts,
      readTrades: (tradeIds) => reads.query('tradeNeeds', { tradeIds }),
    },
    { isMine, quietMs, ...rulesOf(settings) },
  )
}

/** Returns intervals and limits from the settings. */
function rulesOf(settings: ThreadData['settings']) {
  return {
    stepEveryMs: settings.indexer.pollMs,
    staleMs: Math.max(10_000, 5 * settings.indexer.pollMs),
    sweepMs: 60_000,
    graceMs: settings.front.deadlineMs,
    nameAgainMs: 2_000,
    closedMs: REORG_MS_MAX,
    idleMax: 10_000,
    promisesMax: 200_000,
    waitingMax: 20_000,
    waitingPerOwnerMax: 200,
  }
}
