/**
 * `npm run bench -- many-markets`: 100,000 markets without orders (`--markets`; `--quick`: 20,000). Measures the memory
 * of each market on its market thread and on a front, and how long an exchange takes to start with these markets. The
 * figure is the duration of the start; the limit is 30 s. The limit of the memory on the market thread is 4 KB per
 * market.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { makeBoard } from '#live/market-board.ts'
import type { MarketView } from '#protocol/market.ts'
import { viewOf } from '#services/market/market.ts'
import { openExchange } from '../test/support/exchange.ts'
import { TEST_PARTITIONS } from '../test/support/partitions.ts'
import { quick, report } from './bench.ts'
import { openFilledLog } from './filled-log.ts'
import { FlowRecorder } from './market-flow.ts'

const START_SEC_MAX = 30
const BYTES_MAX = 4_096
const { values } = parseArgs({
  strict: false,
  options: { markets: { type: 'string', default: quick ? '20000' : '100000' } },
})
const MARKETS = Number(values.markets)

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

function bytesNow(): number {
  collect()
  collect()
  const { heapUsed, external, arrayBuffers } = process.memoryUsage()
  // The external memory includes array buffers.
  return heapUsed + Math.max(external, arrayBuffers)
}

async function fill(dataDir: string): Promise<void> {
  const log = openFilledLog(dataDir, TEST_PARTITIONS)
  await log.run(
    new FlowRecorder(1, MARKETS).markets.map((market) => ({
      type: 'OpenMarket',
      message: { market },
    })),
  )
  await log.close()
}

async function memory(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-bench-'))
  try {
    await fill(folder)
    const before = bytesNow()
    const startMs = performance.now()
    const log = openFilledLog(folder, TEST_PARTITIONS)
    const seconds = ((performance.now() - startMs) / 1_000).toFixed(1)
    const thread = (bytesNow() - before) / MARKETS
    const views = [...log.thread.markets.values()].map(({ state }) => viewOf(state))
    // Copies the views of the markets, as if they came in a message from another thread.
    const copies = views.map((view) => structuredClone(view)) as MarketView[]
    views.length = 0
    const beforeBoard = bytesNow()
    const board = makeBoard({ isWhole: () => true, isCurrent: () => true })
    for (const view of copies) board.load(view)
    const front = (bytesNow() - beforeBoard) / MARKETS
    process.stdout.write(
      `${board.markets.size} markets: ${thread.toFixed(0)} bytes each on the market thread, ` +
        `${front.toFixed(0)} more than their words on a front; replayed in ${seconds} s\n`,
    )
    await log.close()
    return thread
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const bytes = await memory()
let preparedMs = 0
const exchange = await openExchange({
  environment: { SIBYL_DEMO_MARKETS: 'false' },
  async prepare(dataDir) {
    await fill(dataDir)
    preparedMs = performance.now()
  },
})
let status = 0
while (status !== 200) {
  status = (await fetch(`${exchange.url}/readyz`)).status
  await new Promise((resolve) => setTimeout(resolve, 50))
}
const firstSec = (performance.now() - preparedMs) / 1_000
await exchange.stop()
const againMs = performance.now()
await exchange.start()
for (status = 0; status !== 200; ) {
  status = (await fetch(`${exchange.url}/readyz`)).status
  await new Promise((resolve) => setTimeout(resolve, 50))
}
const seconds = (performance.now() - againMs) / 1_000
await exchange.dispose()
process.stdout.write(
  `an exchange is ready after ${firstSec.toFixed(1)} s, and after ${seconds.toFixed(1)} s when it starts again\n`,
)
if (bytes > BYTES_MAX) {
  process.stdout.write(`${bytes.toFixed(0)} bytes per market, ${BYTES_MAX} are allowed\n`)
  process.exitCode = 1
}
report({
  bench: `start with ${MARKETS} markets`,
  figure: Math.round(Math.max(seconds, firstSec) * 10) / 10,
  unit: 's',
  peer: 'a limit',
  peerFigure: START_SEC_MAX,
  ratio: Math.round((START_SEC_MAX / Math.max(seconds, firstSec)) * 1_000) / 1_000,
  bar: 1,
})
