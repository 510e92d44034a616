/**
 * Simulates a random hour of trading with failures, reverts and reorgs, and writes the data of the market, the
 * projection and the chain. Then `npm run audit` checks all of this data.
 */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Address } from '#domain/ids.ts'
import { derive } from '#services/projector/projector.ts'
import { claimChain } from '#store/chain-index/cursor.ts'
import { indexRange } from '#store/chain-index/index-range.ts'
import { rewindChain } from '#store/chain-index/rewind-chain.ts'
import { closeDatabase, type Database, sqlConnection } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { claimLog } from '#store/projection/checkpoints.ts'
import { project } from '#store/projection/project.ts'
import { recentTrades, type TradeRecord } from '#store/reads/trades.ts'
import { given, START_SEC } from '../../services/market/market-fixture.ts'
import { randomFlow } from '../../services/market/random-flow.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import {
  type Bare,
  block,
  CHAIN,
  created,
  mark,
  merge,
  split,
  traded,
} from '../chain-index/chain-events.ts'

const HOUR_SEC = 3_600
const LOG = { logId: 'an hour', partitions: 1 }
/** Number of the market in the chain's events. */
const MARKET = 5

test('after a random hour of trading with failures, the audit finds no differences', async () => {
  const seed = Number(process.env.TEST_SEED ?? 20_261)
  const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-audit-'))
  const database = await openDatabase(`sqlite:${dataDir}/sibyl.db`)
  try {
    await migrate(database)
    const trades = await tradeForAnHour(database, randomFrom(seed))
    const failed = trades.filter(({ status }) => status === 'failed').length
    assert(trades.length > 1_000 && failed > 50, `${trades.length} trades, ${failed} failed`)
    await settleOnChain(database, trades, randomFrom(seed + 1))
    const clean = await runAudit(dataDir)
    assert.equal(clean.code, 0, `TEST_SEED=${seed}: ${clean.said}`)
    assert.match(clean.said, /no difference/)
    // Checks that the audit finds differences. Each position gets a millionth of a share too many, and each volume a
    // millionth too little. The audit must exit with 1.
    await sqlConnection(database).execute(
      'update positions set yes_shares_e6 = yes_shares_e6 + 1, total_shares_e6 = total_shares_e6 + 1',
    )
    await sqlConnection(database).execute(
      'update market_stats set volume_millionths = volume_millionths - 1',
    )
    const spoilt = await runAudit(dataDir)
    assert.equal(spoilt.code, 1, spoilt.said)
    assert.match(spoilt.said, /position of 0x/)
    assert.match(spoilt.said, /volume of 0x/)
  } finally {
    await closeDatabase(database)
    rmSync(dataDir, { recursive: true, force: true })
  }
})

/** Trades in a market for an hour of simulated time, then projects the events in batches of random size. */
async function tradeForAnHour(database: Database, random: Random): Promise<TradeRecord[]> {
  const market = given()
  const flow = randomFlow(market, random)
  while ((market.events.at(-1)?.atMs ?? 0) < (START_SEC + HOUR_SEC) * 1_000) flow.step()
  await claimLog(database, LOG)
  const { events } = market
  for (let from = 0; from < events.length; ) {
    const part = events.slice(from, from + random.int(1, 900))
    await project(database, derive(LOG.logId, 0, from, part))
    from += part.length
  }
  return recentTrades(database, { marketId: market.marketId, limit: 1_000_000 })
}

/** Writes the settlement of confirmed trades block by block. Some blocks are undone and written again. */
async function settleOnChain(
  database: Database,
  trades: readonly TradeRecord[],
  random: Random,
): Promise<void> {
  const anchor = mark(0)
  await claimChain(database, { chainId: CHAIN, deployment: '', startBlock: 1, anchor, atMs: 1 })
  let at = 0
  let fork = 0
  let stands = anchor
  const happen = async (...bare: Bare[]): Promise<void> => {
    const upTo = mark(++at, fork)
    const events = block(upTo, ...bare)
    const range = { marks: [upTo], events, setAside: [], giveUpOrphansOf: -1, atMs: 2 }
    await indexRange(database, { chainId: CHAIN, after: stands, upTo, ...range })
    stands = upTo
  }
  const people = [...new Set(trades.flatMap(({ buyer, seller }) => [buyer, seller]))]
  await happen(created(MARKET))
  for (const person of people) await happen(...split(MARKET, person, 10n ** 12n))
  const confirmed = trades.filter(({ status }) => status === 'confirmed').reverse()
  for (let next = 0; next < confirmed.length; ) {
    const size = random.int(1, 40)
    const batch = confirmed.slice(next, next + size)
    const bare = batch.flatMap(({ outcome, seller, buyer, size: shares, cost }) =>
      traded(MARKET, outcome, seller, buyer, BigInt(shares), BigInt(cost)),
    )
    if (random.chance(0.3)) bare.push(...merge(MARKET, random.pick(people) as Address, 1_000n))
    const before = stands
    await happen(...bare)
    if (random.chance(0.1)) {
      await rewindChain(database, { chainId: CHAIN, from: stands, to: before, atMs: 3 })
      at -= 1
      fork += 1
      stands = before
    } else next += batch.length
  }
}

function runAudit(dataDir: string): Promise<{ code: number; said: string }> {
  const child = spawn(process.execPath, [...process.execArgv, 'src/operator/audit-command.ts'], {
    cwd: fileURLToPath(new URL('../../..', import.meta.url)),
    env: { PATH: process.env.PATH ?? '', SIBYL_DATA_DIR: dataDir },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      said += chunk
    })
  }
  return new Promise((resolve) => {
    child.once('close', (code) => resolve({ code: code ?? -1, said }))
  })
}
