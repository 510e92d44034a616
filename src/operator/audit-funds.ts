/**
 * The part of `npm run audit` about reservations. For each trader, it compares two amounts: the funds that a working
 * exchange reports as reserved, and the trader's needs. The needs are the funds that the trader's orders and trades
 * require, computed from the database and the logs.
 *
 * Both amounts may change during the audit. So a trader is compared only if their needs were the same before and after
 * the request. The comparison runs in several rounds, and reports only a difference that every round finds. An order in
 * progress, or a block that one side has not read yet, causes a difference that disappears in a later round.
 */

import { createClient } from '#client/client.ts'
import { type FundsToken, STABLECOIN } from '#domain/funds.ts'
import type { Address } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { partsOf } from '#domain/parts-of.ts'
import type { LogReader } from '#log/event-log.ts'
import { openLogReader } from '#log/log-reader.ts'
import { PACKED } from '#log/packed-event.ts'
import type { Funds } from '#protocol/shapes/users.ts'
import { makeShadow, type Shadow, type ShadowNeeds } from '#services/accounts/shadow.ts'
import type { LoadedAccounts } from '#services/accounts/state.ts'
import type { Difference } from '#store/audit/audit-trades.ts'
import { newestTraders } from '#store/audit/newest-traders.ts'
import type { Database } from '#store/engine/database.ts'
import { openNeeds } from '#store/reads/open-needs.ts'

/** Number of rounds in which a difference must appear before it is reported. */
const LOOKS = 4
const PAUSE_MS = 500
/** Number of traders whose funds are requested between two reads of the log. */
const ASKED_TOGETHER = 20
const RECORDS_MAX = 1_000
/**
 * Number of newest orders whose traders are always checked, even traders who need no funds. For a trader who needs no
 * funds, the exchange should report no reservation.
 */
const NEWEST_ORDERS = 10_000

type Owner = { readonly chainId: number; readonly trader: Address }

type Looked = {
  readonly differences: readonly (Owner & Difference)[]
  /** Owners that cannot be compared, because their needs changed during the request. */
  readonly busy: readonly Owner[]
}

type FundsAudit = {
  readonly traders: number
  /**
   * Number of traders that could not be compared. In the last round, either their needs changed, or they had a
   * difference that an earlier round did not find.
   */
  readonly busy: number
  readonly differences: readonly Difference[]
}

export async function auditFunds(
  database: Database,
  {
    dataDir,
    url,
    chainIds,
  }: { readonly dataDir: string; readonly url: string; readonly chainIds: readonly number[] },
): Promise<FundsAudit | undefined> {
  const client = createClient({ url, retries: 10 })
  if ((await client.config()).risk.funds === 'off') return undefined
  const reader = openLogReader<MarketEvent>(dataDir, { form: PACKED })
  try {
    let wanted: readonly Owner[] | undefined
    let looked: Looked = { differences: [], busy: [] }
    /** Differences found in every round so far. */
    let lasting: ReadonlySet<string> | undefined
    let traders = 0
    for (let look = 0; look < LOOKS; look++) {
      if (look > 0) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
      const shadow = await openShadow(database, reader, chainIds)
      wanted ??= await everyOwner(database, shadow, chainIds)
      if (look === 0) traders = wanted.length
      looked = await lookAt(shadow, wanted, (owner) =>
        client.funds({ address: owner.trader, chainId: owner.chainId }),
      )
      const known = lasting
      const named = looked.differences.map(({ what }) => what)
      lasting = new Set(named.filter((what) => known === undefined || known.has(what)))
      wanted = ownersOf([...looked.differences, ...looked.busy])
      if (wanted.length === 0) break
    }
    const differences = looked.differences.filter(({ what }) => lasting?.has(what))
    // If only some rounds found an owner's difference, count the owner as busy. A change of the owner's needs alone can
    // cause such a difference.
    const busy = (wanted?.length ?? 0) - ownersOf(differences).length
    return { traders, busy, differences }
  } finally {
    await reader.close()
  }
}

type FollowedShadow = Shadow & {
  /** Applies events appended since the last call. */
  follow(): void
}

async function openShadow(
  database: Database,
  reader: LogReader<MarketEvent>,
  chainIds: readonly number[],
): Promise<FollowedShadow> {
  const checkpoints: LoadedAccounts['checkpoints'][number][] = []
  const markets: LoadedAccounts['markets'][number][] = []
  const orders: LoadedAccounts['orders'][number][] = []
  const trades: LoadedAccounts['trades'][number][] = []
  await openNeeds(database, { closedSinceMs: 0 }, (page) => {
    if ('checkpoints' in page) checkpoints.push(...page.checkpoints)
    else if ('markets' in page) markets.push(...page.markets)
    else if ('orders' in page) orders.push(...page.orders)
    else trades.push(...page.trades)
  })
  const shadow = makeShadow(chainIds, { checkpoints, markets, orders, trades })
  const next = new Map(checkpoints.map(({ partition, offset }) => [partition, offset + 1]))
  const follow = (): void => {
    for (const [partition, first] of next) {
      let from = first
      let records = reader.read(partition, from, RECORDS_MAX)
      while (records.length > 0) {
        shadow.fold(records.map(({ event }) => event))
        from += records.length
        records = reader.read(partition, from, RECORDS_MAX)
      }
      next.set(partition, from)
    }
  }
  follow()
  return { ...shadow, follow }
}

/** Returns the owners whose orders or trades need funds, and the traders of the newest orders. */
async function everyOwner(
  database: Database,
  shadow: Shadow,
  chainIds: readonly number[],
): Promise<Owner[]> {
  const owners: Owner[] = [...shadow.needs().values()]
  for (const trader of await newestTraders(database, NEWEST_ORDERS)) {
    for (const chainId of chainIds) owners.push({ chainId, trader })
  }
  return ownersOf(owners)
}

function ownersOf(owners: readonly Owner[]): Owner[] {
  const known = new Map<string, Owner>()
  for (const { chainId, trader } of owners) known.set(`${chainId} ${trader}`, { chainId, trader })
  return [...known.values()]
}

async function lookAt(
  shadow: FollowedShadow,
  wanted: readonly Owner[],
  ask: (owner: Owner) => Promise<Funds>,
): Promise<Looked> {
  const differences: (Owner & Difference)[] = []
  const busy: Owner[] = []
  for (const part of partsOf(wanted, ASKED_TOGETHER)) {
    shadow.follow()
    const before = byOwner(shadow)
    const answers = await Promise.all(part.map(ask))
    shadow.follow()
    const after = byOwner(shadow)
    for (const [at, owner] of part.entries()) {
      const name = `${owner.chainId} ${owner.trader}`
      const expected = before.get(name) ?? []
      const answer = answers[at]
      if (textOf(expected) !== textOf(after.get(name) ?? [])) busy.push(owner)
      else if (answer !== undefined) differences.push(...compare(owner, answer, expected))
    }
  }
  return { differences, busy }
}

function byOwner(shadow: Shadow): Map<string, ShadowNeeds[]> {
  const owners = new Map<string, ShadowNeeds[]>()
  for (const need of shadow.needs().values()) {
    const name = `${need.chainId} ${need.trader}`
    const known = owners.get(name)
    if (known === undefined) owners.set(name, [need])
    else known.push(need)
  }
  return owners
}

function textOf(needs: readonly ShadowNeeds[]): string {
  return needs
    .map(({ token, open, pending, sent }) => `${token} ${open} ${pending} ${sent}`)
    .sort()
    .join()
}

function compare(
  { chainId, trader }: Owner,
  { tokens }: Funds,
  expected: readonly ShadowNeeds[],
): (Owner & Difference)[] {
  const kept = new Map<FundsToken, { open: bigint; pending: bigint }>()
  for (const each of tokens) {
    const token =
      each.token === STABLECOIN ? STABLECOIN : (`${each.marketId}/${each.outcome}` as FundsToken)
    kept.set(token, {
      open: BigInt(each.reservedForOrders),
      pending: BigInt(each.reservedForTrades),
    })
  }
  const needs = new Map(expected.map((need) => [need.token, need]))
  const differences: (Owner & Difference)[] = []
  for (const token of new Set([...kept.keys(), ...needs.keys()])) {
    const is = kept.get(token) ?? { open: 0n, pending: 0n }
    const { open, pending, sent } = needs.get(token) ?? { open: 0n, pending: 0n, sent: 0n }
    const isRight = is.open === open && is.pending <= pending && is.pending >= pending - sent
    if (isRight) continue
    differences.push({
      ...{ chainId, trader },
      what: `${token} reserved for ${trader} on chain ${chainId}`,
      kept: `${is.open} for orders, ${is.pending} for trades`,
      expected: `${open} for orders, ${pending} for trades (including ${sent} for trades sent to the chain)`,
    })
  }
  return differences
}
