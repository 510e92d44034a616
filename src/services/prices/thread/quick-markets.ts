/**
 * Builds the actor of quick markets, with its access to the operator's transaction queue, the database and the market
 * threads.
 */

import { accountOf, balanceOf } from '#chain/accounts.ts'
import { marketFactory } from '#chain/market-factory.ts'
import type { Settings } from '#config/settings-schema.ts'
import { contractsOf } from '#config/thread-data.ts'
import { QUICK_MARKETS_UNFINISHED_MAX } from '#domain/limits.ts'
import { PRICE_SOURCES } from '#domain/price-providers.ts'
import type { Served } from '#runtime/serve.ts'
import type { ChainWorld } from '#services/kit/chain-world.ts'
import { startKeyWatch } from '#services/kit/key-watch.ts'
import { serveActor, type ThreadContext, type Writers } from '#services/kit/kit.ts'
import type { Reads } from '#store/reads/reads.ts'
import { askWrite, type WriteQueueRef } from '#store/writes/ask-write.ts'
import { makeJournal } from '#store/writes/journal.ts'
import { predictQuickMarket } from '../chain/quick-market-id.ts'
import { makeQuickMarketLane } from '../chain/quick-market-lane.ts'
import type { Feed } from '../feeds/feed.ts'
import { newQuickMarkets, quickMarkets } from '../quick-markets/quick-markets.ts'
import type {
  QuickMarketsEvent,
  QuickMarketsOptions,
  QuickMarketsProtocol,
  QuickMarketsState,
} from '../quick-markets/state.ts'
import { makeQuickPlaces } from './quick-places.ts'

const MAILBOX_MAX = 100_000
const BATCH_MAX = 1_000
const IDLE_POLL_MS = 5_000
const MARKS_READ_MAX = 10_000
const MARKS_READ_SEC = 86_400
const RETRY_MS = 1_000
const RETRY_MS_MAX = 60_000
/** Durations in the rules of quick markets; `rulesOf` shortens some of them if the markets are short. */
const GAP_MS = 5_000
const PATIENCE_MS = 1_500
const GRACE_MS = 60_000
const REMAINING_MS_MIN = 60_000
const REPORT_AFTER_MS = 2_000

export type QuickMarkets = {
  readonly state: QuickMarketsState
  readonly served: Served
  /** Returns why the operator's key cannot be used; empty if the key can be used. */
  why(): string
  stop(): void
}

export async function startQuickMarkets(ports: {
  readonly chain: Settings['chains'][number]
  readonly settings: Settings
  readonly kit: Pick<ThreadContext, 'log' | 'keys' | 'every' | 'loop'>
  readonly world: Pick<ChainWorld, 'clock' | 'makeChainClient'>
  readonly writers: Pick<Writers, 'marketOf'> & { readonly store: WriteQueueRef }
  readonly reads: Reads
  readonly feeds: () => readonly Feed[]
  readonly say: (event: QuickMarketsEvent) => void
  readonly rowsRefused: (row: 'mark', count: number) => void
}): Promise<QuickMarkets> {
  const { chain, settings, reads, feeds, say } = ports
  const { log, loop } = ports.kit
  const { clock } = ports.world
  const { store, marketOf } = ports.writers
  const { quick, keys } = settings
  const { chainId, rpcUrls, confirmations } = chain
  const contracts = contractsOf(chain)
  const own = accountOf(keys.operator)
  const client = ports.world.makeChainClient({
    chainId,
    rpcUrls,
    onError: ({ host, why }) => log.debug({ host, why }, 'a request to the chain failed'),
  })
  const lane = makeQuickMarketLane({
    client,
    contracts,
    own,
    journal: makeJournal(store, reads),
    clock,
    policy: { confirmations },
    pollMs: quick.pollMs,
    idlePollMs: IDLE_POLL_MS,
    onTrouble: (where, error) =>
      log.debug(
        { where, err: error },
        'the transaction of a quick market is delayed: a request to the chain or the journal failed',
      ),
  })
  const nowSec = Math.floor(clock.nowMs() / 1_000)
  const state = newQuickMarkets(
    rulesOf(settings, chainId),
    {
      predict: (terms) => predictQuickMarket(contracts.marketFactory, terms),
      priceAt(source, asset, atMs, withinMs) {
        const feed = feeds().find((each) => each.source === source)
        return feed?.priceAt(asset, atMs, withinMs) ?? Promise.resolve(undefined)
      },
      record: (terms) => askWrite(store, 'openQuickMarket', terms),
      decide: (decided) => askWrite(store, 'resolveQuickMarket', decided),
      contest: (contested) => askWrite(store, 'contestQuickMarket', contested),
      note: (noted) => askWrite(store, 'noteQuickMarket', noted),
      recordMarks: async (batch) =>
        ports.rowsRefused('mark', await askWrite(store, 'recordMarks', batch)),
      ...makeQuickPlaces(marketOf, own.address),
      create: lane.create,
      report: lane.report,
      openToOracle: lane.openToOracle,
      async outcomeOnChain({ marketId }) {
        // Read the outcome from the index of the chain. The index has the market once the market's block has enough
        // confirmations.
        const found = await reads.query('chainMarketById', { marketId })
        return found?.winningOutcome ?? undefined
      },
    },
    {
      unfinished: (
        await reads.query('unfinishedQuickMarkets', { limit: QUICK_MARKETS_UNFINISHED_MAX })
      ).filter((one) => one.chainId === chainId),
      marks: await reads.query('marksSince', {
        sinceSec: nowSec - MARKS_READ_SEC,
        limit: MARKS_READ_MAX,
      }),
    },
  )
  const served = serveActor<QuickMarketsState, QuickMarketsProtocol, QuickMarketsEvent>({
    behaviour: quickMarkets,
    state,
    clock,
    loop,
    say,
    mailboxMax: MAILBOX_MAX,
    batchMax: BATCH_MAX,
  })
  lane.start()
  const factory = marketFactory(client, contracts.marketFactory)
  const key = startKeyWatch(ports.kit, settings.relayer, {
    ...{ setting: 'SIBYL_OPERATOR_KEY', chainId, address: own.address },
    balanceWei: () => balanceOf(client, own.address),
    role: { contract: 'market factory', isHeld: () => factory.isOperator(own.address) },
  })
  return { state, served, why: key.why, stop: lane.stop }
}

function rulesOf({ feeds: rules, quick }: Settings, chainId: number): QuickMarketsOptions {
  const intervalMs = quick.intervalSeconds * 1_000
  const share = (ms: number, of: number): number => Math.min(ms, Math.floor(intervalMs / of))
  return {
    assets: rules.assets,
    sources: PRICE_SOURCES.filter((source) => rules[source].url !== ''),
    intervalSec: quick.intervalSeconds,
    chainId,
    matching: quick.matching,
    withinMs: quick.withinSeconds * 1_000,
    gapMs: GAP_MS,
    patienceMs: share(PATIENCE_MS, 2),
    graceMs: share(GRACE_MS, 3),
    ownMs: quick.fallbackSeconds * 1_000,
    reportAfterMs: REPORT_AFTER_MS,
    remainingMsMin: share(REMAINING_MS_MIN, 4),
    deviationMax: rules.deviationBps / 10_000,
    agreementBps: quick.agreementBps,
    retryMs: RETRY_MS,
    retryMsMax: RETRY_MS_MAX,
  }
}
