/**
 * One simulation of the services that work for the chain: prices and quick markets, the indexer, resolutions and
 * relayed operations. It has the real store, market and settlement threads, and a few owners who trade.
 */

import assert from 'node:assert/strict'
import { accountOf } from '#chain/accounts.ts'
import type { Settings } from '#config/settings-schema.ts'
import { contractsOf } from '#config/thread-data.ts'
import type { Random } from '../support/random.ts'
import { ChainAudit } from './chain/audit.ts'
import { SimulatedChain } from './chain/chain.ts'
import { Contracts } from './chain/contracts.ts'
import { Holders } from './chain/holders.ts'
import { indexFlaw } from './chain/indexed.ts'
import { OrderDesk } from './chain/order-desk.ts'
import { OWNER_ADDRESSES } from './chain/owners.ts'
import { Proposers } from './chain/proposers.ts'
import { Relayed } from './chain/relayed.ts'
import { Resolutions } from './chain/resolutions.ts'
import { emptyTables, journalledSender } from './database.ts'
import { Exchange, type SimulatedWorld } from './exchange.ts'
import type { Oracle } from './oracle.ts'
import { PriceReader } from './prices/price-reader.ts'
import { ASSET, Providers, providerSettings } from './prices/providers.ts'
import { QuickAudit } from './prices/quick-audit.ts'
import { type Scheduler, Violation } from './scheduler.ts'
import { Services } from './services.ts'

/** Maximum virtual time for all pending work to end, counted from the last fault. */
const ENDING_US = 300_000_000
const HEALING_US = 15_000_000
/** Services that every machine starts. Of each service, only the machine with the lease acts. */
const SERVICES = ['prices', 'indexer', 'resolution', 'settlement'] as const

export async function runOnChain(
  base: SimulatedWorld,
  oracle: Oracle,
  minutes: number,
): Promise<void> {
  const { seed, scheduler, faults, random } = base
  const graceSec = random.pick([20, 60])
  const settings = chainSettings(base.settings, random, graceSec)
  const [at] = settings.chains
  assert(at !== undefined)
  const contracts = new Contracts({
    ...contractsOf(at),
    chainId: at.chainId,
    operator: accountOf(settings.keys.settlement).address,
    marketOperator: accountOf(settings.keys.operator).address,
    delays: { graceSec, cancelDelaySec: 2 * graceSec },
  })
  const blockUs = random.pick([250_000, 1_000_000, 2_000_000])
  const { confirmations } = at
  const lanes = settings.keys.relayer.map((key) => accountOf(key).address)
  const chain = new SimulatedChain({
    ...{ seed, scheduler, faults, contracts, blockUs, confirmations },
    hasFilters: true,
  })
  const holders = new Holders(base, chain, OWNER_ADDRESSES)
  const proposers = new Proposers(base, chain)
  const own = accountOf(settings.keys.resolution).address
  const resolutions = new Resolutions(chain, { oracle, own })
  const tables = await emptyTables(() => scheduler.nowMs)
  chain.onPooled = (hash) => {
    if (journalledSender(tables, hash) === undefined) {
      scheduler.fail(new Violation('journalled', `${hash} was sent before it was stored`))
    }
  }
  const providers = new Providers(base)
  const isBalanced = random.chance(0.5)
  const world = { ...base, settings, chain, tables, providers, isBalanced }
  const desk = new OrderDesk(world, oracle)
  const relayed = new Relayed({ ...world, desk, lanes })
  const people = { isHeld: () => false, isCalm: false, dollars: undefined }
  const trades = new ChainAudit(scheduler, chain, { people, oracle, hasFunds: false })
  oracle.onEvent = (event) => trades.logged(event)
  chain.onBlock = (block) => {
    try {
      trades.mined(block)
      resolutions.mined(block)
      relayed.mined(block)
    } catch (error) {
      scheduler.fail(error)
    }
  }
  const services = new Services(world, [
    ...(['store', 'relayer'] as const),
    ...SERVICES,
    ...(settings.cluster.roles.includes('all') ? [] : SERVICES),
  ])
  const reader = new PriceReader(world)
  const audit = new QuickAudit({
    ...{ scheduler, tables, providers, chain, oracle, reader },
    agreementBps: settings.quick.agreementBps,
    withinMs: settings.quick.withinSeconds * 1_000,
    deviationMax: settings.feeds.deviationBps / 10_000,
    troubledAtMs: () => Math.max(providers.troubledAtMs, services.troubledAtMs),
  })
  const exchange = new Exchange(world, [reader, desk, ...services.all])
  services.relink = (peer) => exchange.relink(peer)
  services.setFronts([reader, relayed, desk])
  await scheduler.run(scheduler.nowUs + minutes * 60e6)

  scheduler.trace('the faults end')
  faults.healed = true
  await scheduler.run(scheduler.nowUs + HEALING_US)
  exchange.assertServes()
  const untilSec = Math.floor(scheduler.nowMs / 1_000)
  await allEnded(scheduler, () => audit.unfinished(untilSec))
  holders.isMoving = false
  proposers.isMoving = false
  relayed.isMoving = false
  await allEnded(scheduler, () => relayed.unfinished())
  desk.isMoving = false
  await allEnded(scheduler, () => desk.unfinished())
  await allEnded(scheduler, () => trades.undecided())
  await allEnded(scheduler, () => resolutions.unfinished(Math.floor(scheduler.nowMs / 1_000)))
  await allEnded(scheduler, () => [indexFlaw(tables, chain)].filter((flaw) => flaw !== undefined))
  const { markets, calm } = audit
  scheduler.trace(`${markets.length} quick markets, ${calm} calm, ${reader.prices} prices`)
  scheduler.trace(`the exchange settled ${resolutions.settled.size} resolutions`)
  scheduler.trace(`${relayed.counts}; ${desk.counts}`)
}

/** Waits until nothing is pending. After `ENDING_US`, throws a violation. */
async function allEnded(scheduler: Scheduler, pending: () => readonly string[]): Promise<void> {
  const untilUs = scheduler.nowUs + ENDING_US
  while (pending().length > 0 && scheduler.nowUs < untilUs) {
    await scheduler.run(scheduler.nowUs + 1e6)
  }
  const [first, ...more] = pending()
  if (first !== undefined) throw new Violation('ends', `${first}, and ${more.length} others`)
}

function chainSettings(base: Settings, random: Random, graceSec: number): Settings {
  const intervalSeconds = random.pick([10, 20, 30])
  return {
    ...base,
    risk: { ...base.risk, funds: 'off' },
    settlement: { ...base.settlement, tradeDeadlineSeconds: graceSec - 5 },
    keys: {
      ...base.keys,
      operator: `0x${'02'.repeat(32)}`,
      resolution: `0x${'03'.repeat(32)}`,
      relayer: [`0x${'04'.repeat(32)}`, `0x${'05'.repeat(32)}`],
    },
    relayer: {
      ...{
        ...base.relayer,
        balanceEveryMs: 60_000,
        newcomerGasPerDay: random.pick([1_500_000, 5_000_000, 20_000_000]),
      },
      ...{ gasPerDay: random.pick([3_000_000, 2_000_000_000]), ownerBurst: random.pick([3, 20]) },
    },
    resolution: { autoSettle: true, pollMs: random.pick([500, 2_000, 5_000]) },
    feeds: {
      ...{ ...base.feeds, ...providerSettings(), live: true, assets: [ASSET] },
      ...{ ageMsMax: random.pick([2_000, 5_000]), recoverMs: random.pick([0, 3_000]) },
    },
    quick: {
      ...{ ...base.quick, enabled: true, intervalSeconds, matching: 'same-outcome' },
      ...{ withinSeconds: random.pick([2, 5]), fallbackSeconds: random.pick([20, 60]) },
    },
  } as Settings
}
