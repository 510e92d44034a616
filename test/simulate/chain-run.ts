/**
 * One simulation of the services that work for the chain rather than for trades: prices and quick markets, and
 * the indexer. It has the real store and market threads, and no traders.
 */

import assert from 'node:assert/strict'
import { accountOf } from '#chain/accounts.ts'
import type { Settings } from '#config/settings-schema.ts'
import { contractsOf } from '#config/thread-data.ts'
import type { Random } from '../support/random.ts'
import { SimulatedChain } from './chain/chain.ts'
import { Contracts } from './chain/contracts.ts'
import { Holders } from './chain/holders.ts'
import { indexFlaw } from './chain/indexed.ts'
import { emptyTables } from './database.ts'
import { Exchange, type SimulatedWorld } from './exchange.ts'
import type { Oracle } from './oracle.ts'
import { PriceReader } from './prices/price-reader.ts'
import { ASSET, Providers, providerSettings } from './prices/providers.ts'
import { QuickAudit } from './prices/quick-audit.ts'
import { type Scheduler, Violation } from './scheduler.ts'
import { Services } from './services.ts'

/** Virtual time after the last fault in which everything that was pending must end. */
const ENDING_US = 300_000_000
const HEALING_US = 15_000_000

export async function runOnChain(
  base: SimulatedWorld,
  oracle: Oracle,
  minutes: number,
): Promise<void> {
  const { seed, scheduler, faults, random } = base
  const settings = chainSettings(base.settings, random)
  const [at] = settings.chains
  assert(at !== undefined)
  const contracts = new Contracts({
    ...contractsOf(at),
    chainId: at.chainId,
    operator: accountOf(settings.keys.settlement).address,
    marketOperator: accountOf(settings.keys.operator).address,
  })
  const blockUs = random.pick([250_000, 1_000_000, 2_000_000])
  const { confirmations } = at
  const chain = new SimulatedChain({
    ...{ seed, scheduler, faults, contracts, blockUs, confirmations },
    hasFilters: true,
  })
  const holders = new Holders(base, chain)
  const tables = await emptyTables(() => scheduler.nowMs)
  const providers = new Providers(base)
  const isBalanced = random.chance(0.5)
  const world = { ...base, settings, chain, tables, providers, isBalanced }
  const services = new Services(world, [
    ...(['store', 'prices', 'indexer'] as const),
    ...(settings.cluster.roles.includes('all') ? [] : (['prices', 'indexer'] as const)),
  ])
  const reader = new PriceReader(world)
  const audit = new QuickAudit({
    ...{ scheduler, tables, providers, chain, oracle, reader },
    agreementBps: settings.quick.agreementBps,
    deviationMax: settings.feeds.deviationBps / 10_000,
    troubledAtMs: () => Math.max(providers.troubledAtMs, services.troubledAtMs),
  })
  const exchange = new Exchange(world, [reader, ...services.all])
  services.relink = (peer) => exchange.relink(peer)
  services.setFronts([reader])
  await scheduler.run(scheduler.nowUs + minutes * 60e6)

  scheduler.trace('the faults end')
  faults.healed = true
  await scheduler.run(scheduler.nowUs + HEALING_US)
  exchange.assertServes()
  const untilSec = Math.floor(scheduler.nowMs / 1_000)
  await allEnded(scheduler, () => audit.unfinished(untilSec))
  holders.isMoving = false
  await allEnded(scheduler, () => [indexFlaw(tables, chain)].filter((flaw) => flaw !== undefined))
  const { markets, calm } = audit
  scheduler.trace(`${markets.length} quick markets, ${calm} calm, ${reader.prices} prices`)
}

/** Waits until everything that was pending has ended. */
async function allEnded(scheduler: Scheduler, pending: () => readonly string[]): Promise<void> {
  const untilUs = scheduler.nowUs + ENDING_US
  while (pending().length > 0 && scheduler.nowUs < untilUs) {
    await scheduler.run(scheduler.nowUs + 1e6)
  }
  const [first, ...more] = pending()
  if (first !== undefined) throw new Violation('ends', `${first}, and ${more.length} others`)
}

function chainSettings(base: Settings, random: Random): Settings {
  const intervalSeconds = random.pick([10, 20, 30])
  return {
    ...base,
    keys: { ...base.keys, operator: `0x${'02'.repeat(32)}` },
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
