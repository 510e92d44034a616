/**
 * Simulates a year of quick markets of one asset, beside a market that trades all year. Each quick market opens,
 * trades, expires, settles, is resolved and is unloaded. The run uses a market host with its event log. A front's board
 * (its copy of the markets) and its stream channels receive the events of the host.
 *
 * Twelve times, the run prints the memory, the size on disk, and the duration of a start. None of these figures may
 * grow. The only argument is the number of quick markets, 35,040 by default.
 */

import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { MarketId } from '#domain/ids.ts'
import { tradeId } from '#domain/ids.ts'
import type { Shares } from '#domain/money.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import { makeBoard } from '#live/market-board.ts'
import { makeFiguresBook } from '#live/market-figures.ts'
import { systemClock } from '#runtime/clock.ts'
import { takeGone } from '#services/market/host/housekeeping.ts'
import { makeChannels } from '#stream/channels.ts'
import { START_SEC, signed } from '../test/services/market/market-fixture.ts'
import { type Command, marketId, open, startHost } from '../test/services/market/thread-fixture.ts'
import { buy, type OrderBuilder, sell } from '../test/support/orders.ts'

const MARKETS = Number(process.argv[2] ?? 35_040)
const QUARTER_SEC = 900
const SHOWN = 12
/**
 * Number of quick markets between two maintenance runs, which unload ended markets. Eight quick markets span two hours.
 */
const TIDY_EVERY = 8
const FILLS = 5
const LONG = 1_000_000
const OPTIONS = { partitions: 1, snapshotEvery: 500 }

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
const memory = '/dev/shm'
const dataDir = mkdtempSync(join(existsSync(memory) ? memory : tmpdir(), 'sibyl-year-'))

const completeness = { isWhole: () => true, isCurrent: () => true }
const figures = makeFiguresBook({
  board: () => board,
  stored: async () => [],
  clock: systemClock,
})
const channels = makeChannels<object>({
  board: () => board,
  figures,
  limits: {
    replayMessages: 1_000,
    replayBytes: 2 ** 20,
    replayBytesTotal: 2 ** 26,
    lingerMs: 0,
    lingeringMax: 100,
  },
  clock: systemClock,
  hooks: { publish: () => undefined, broken: () => undefined, flushed: () => undefined },
})
const board = makeBoard(completeness, channels)
let host = startHost(dataDir, OPTIONS)
let nowSec = 0

async function run(...batch: Command[]): Promise<void> {
  for (const answer of await host.run(...batch)) {
    assert(!(answer as { rejected?: string } | undefined)?.rejected, JSON.stringify(answer))
  }
  assert(board.follow(host.said), 'the front missed an event')
}

const place = (order: VerifiedOrder): Command => ({ type: 'PlaceOrder', message: { order } })
const orderIn = (n: number, builder: OrderBuilder) =>
  signed(builder.until(START_SEC + nowSec + 10 * QUARTER_SEC), marketId(n))

/** Makes trades in a market, and settles each of them. */
async function trade(n: number, name: string, fills: number): Promise<void> {
  const selling = Array.from({ length: fills }, (_, fill) =>
    orderIn(n, sell('YES').at(0.5).size(1).by('ann').named(`${name}-s${fill}`)),
  )
  const buying = Array.from({ length: fills }, (_, fill) =>
    orderIn(n, buy('YES').at(0.5).size(1).by('bob').named(`${name}-b${fill}`)),
  )
  await run(...selling.map(place))
  const matched: { id: MarketId; seq: number }[] = []
  await run(...buying.map(place))
  for (const event of host.said) {
    if (event.type === 'OrdersMatched') matched.push({ id: event.marketId, seq: event.seq })
  }
  for (const status of ['submitted', 'confirmed'] as const) {
    await run(
      ...matched.map(({ id, seq }, fill): Command => {
        const about = { tradeId: tradeId(id, seq, 0), status, txHash: '0x1', reason: '' }
        const orders = { buy: buying[fill]!, sell: selling[fill]! }
        const report = { ...about, ...orders, fault: 'none' as const, size: 1_000_000 as Shares }
        return { type: 'ReportTrade', message: { marketId: id, report } }
      }),
    )
  }
}

/** Runs the periodic maintenance of a market thread, as if the database had stored all events of the log. */
async function tidy(): Promise<void> {
  const offset = host.log.lastOffset(0)
  await host.run({ type: 'Projected', message: { partition: 0, offset } })
  host.tidy()
  await host.keepHouse()
  board.forget(takeGone(host.thread))
}

function bytesOf(folder: string): number {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0)
}

async function show(done: number): Promise<void> {
  await host.stop()
  const begunMs = performance.now()
  host = startHost(dataDir, OPTIONS)
  const startMs = performance.now() - begunMs
  host.at(nowSec)
  for (let turn = 0; turn < 3; turn++) collect()
  const { rss, heapUsed, external } = process.memoryUsage()
  const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(1).padStart(6)
  process.stdout.write(
    `${`${done}`.padStart(6)} markets: rss ${mib(rss)} MiB, heap ${mib(heapUsed)}, outside ` +
      `${mib(external)}; start ${startMs.toFixed(0).padStart(4)} ms; here ` +
      `${host.thread.markets.size}, on the board ${board.markets.size}; log ${mib(bytesOf(dataDir))} MiB\n`,
  )
}

try {
  await run(open(LONG, { expiration: START_SEC + 400 * 86_400 }))
  for (let n = 1; n <= MARKETS; n++) {
    nowSec = n * QUARTER_SEC
    host.at(nowSec)
    await run(open(n, { expiration: START_SEC + nowSec + QUARTER_SEC, quick: true }))
    await trade(n, `q${n}`, FILLS)
    await trade(LONG, `l${n}`, 1)
    await run(place(orderIn(n, buy('YES').at(0.1).by('eve').named(`rest${n}`))))
    nowSec += QUARTER_SEC
    host.at(nowSec)
    for (const reason of ['expired', 'resolved'] as const) {
      await run({ type: 'CloseMarket', message: { marketId: marketId(n), reason } })
    }
    if (n % TIDY_EVERY === 0) for (let turn = 0; turn < 3; turn++) await tidy()
    if (n % Math.floor(MARKETS / SHOWN) === 0) await show(n)
  }
} finally {
  await host.stop()
  rmSync(dataDir, { recursive: true, force: true })
}
