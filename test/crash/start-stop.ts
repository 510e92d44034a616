/**
 * Stops an exchange by the usual signals at random instants during its start and soon after it. Then checks the exit
 * code, remaining processes, the port, the files, and whether the next start finds every accepted order.
 */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createClient } from '#client/client.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { claimPort } from '#http/port.ts'
import { withoutSettings } from '../support/exchange.ts'
import { randomFrom } from '../support/random.ts'
import { TEST_FLAGS } from '../support/test-flags.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export type StopReport = {
  stops: number
  /** Number of stops whose signal came before the program itself had started. */
  beforeItBegan: number
  whileStarting: number
  whenOpen: number
  /** Number of accepted orders. Each was found again at a later start. */
  orders: number
}

export async function stopAtRandomInstants(options: {
  readonly times: number
  readonly seed: number
  /** Maximum time in milliseconds from the start to the stop. Each stop comes at a random instant within this time. */
  readonly withinMs: number
  readonly onRound?: (report: StopReport, last: string) => void
}): Promise<StopReport> {
  const random = randomFrom(options.seed)
  const report = { stops: 0, beforeItBegan: 0, whileStarting: 0, whenOpen: 0, orders: 0 }
  // All exchanges without a chain share this folder. Each exchange with a local chain gets a new folder.
  const kept = mkdtempSync(join(tmpdir(), 'sibyl-stop-'))
  const accepted: string[] = []
  try {
    for (let round = 0; round < options.times; round++) {
      const devnet = random.chance(0.7)
      const dataDir = devnet ? mkdtempSync(join(tmpdir(), 'sibyl-stop-')) : kept
      const signal = random.chance(0.5) ? 'SIGINT' : 'SIGTERM'
      const before = traces(dataDir)
      const exchange = await startOn(dataDir, devnet)
      const stopAfterMs = random.int(0, options.withinMs)
      const traded = devnet ? Promise.resolve([]) : placeOrder(exchange, accepted)
      await pause(stopAfterMs)
      const wasOpen = exchange.url() !== ''
      exchange.process.kill(signal)
      const end = await exchange.exited
      const found = await traded
      const story = `${signal} after ${stopAfterMs} ms, ${devnet ? 'with' : 'without'} a chain`
      // In its first moments, Node cannot handle a signal. The signal then ends the process, which has done nothing
      // yet.
      const began = exchange.output() !== '' || traces(dataDir) !== before
      if (began || end !== signal) assert.equal(end, 'code 0', `${story}:\n${exchange.output()}`)
      await assertNothingLeft(exchange, story)
      for (const hash of found) accepted.push(hash)
      report.stops++
      report.orders = accepted.length
      if (!began) report.beforeItBegan++
      else if (wasOpen) report.whenOpen++
      else report.whileStarting++
      if (devnet) rmSync(dataDir, { recursive: true, force: true })
      options.onRound?.(report, story)
    }
    await assertFound(kept, accepted)
    return report
  } finally {
    rmSync(kept, { recursive: true, force: true })
  }
}

type Started = {
  readonly process: ChildProcess
  readonly dataDir: string
  readonly port: number
  readonly exited: Promise<string>
  /** Empty until the exchange is open. */
  readonly url: () => string
  readonly output: () => string
}

async function startOn(dataDir: string, devnet: boolean): Promise<Started> {
  const port = await claimPort('127.0.0.1', 0)
  const child = spawn(process.execPath, [...process.execArgv, ...TEST_FLAGS, 'src/main.cjs'], {
    cwd: ROOT,
    env: {
      ...withoutSettings(process.env),
      SIBYL_PORT: String(port),
      SIBYL_DATA_DIR: dataDir,
      SIBYL_DEVNET: String(devnet),
      SIBYL_DEVNET_PORT: '0',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const hear = (chunk: Buffer) => {
    output += chunk.toString()
  }
  child.stdout.on('data', hear)
  child.stderr.on('data', hear)
  return {
    process: child,
    dataDir,
    port,
    exited: new Promise((resolve) => {
      child.once('close', (code, signal) => resolve(signal ?? `code ${code}`))
    }),
    url: () => (output.includes(' is open ') ? `http://127.0.0.1:${port}` : ''),
    output: () => output,
  }
}

/** Waits until the exchange is open, checks that all earlier accepted orders exist, and places one more. */
async function placeOrder(exchange: Started, accepted: readonly string[]): Promise<string[]> {
  let ended = false
  void exchange.exited.then(() => {
    ended = true
  })
  while (exchange.url() === '' && !ended) await pause(5)
  if (ended) return []
  const client = createClient({ url: exchange.url(), signer: devnetKey(10), retries: 0 })
  try {
    await assertOpen(client, accepted)
    const [market] = await client.markets()
    assert.ok(market !== undefined)
    const terms = { marketId: market.id, side: 'buy', outcome: 'YES', price: '0.01' } as const
    const { orderHash } = await client.orders.place({ ...terms, size: '1', ttlSeconds: 86_400 })
    return [orderHash]
  } catch (error) {
    // The exchange was stopped meanwhile; the unanswered order may or may not exist.
    if (error instanceof assert.AssertionError) throw error
    return []
  }
}

async function assertOpen(
  client: ReturnType<typeof createClient>,
  accepted: readonly string[],
): Promise<void> {
  const open = new Set((await client.orders.list()).map(({ orderHash }) => orderHash as string))
  for (const hash of accepted) assert.ok(open.has(hash), `${hash} was accepted`)
}

async function assertFound(dataDir: string, accepted: readonly string[]): Promise<void> {
  const exchange = await startOn(dataDir, false)
  while (exchange.url() === '' && exchange.process.exitCode === null) await pause(5)
  await assertOpen(createClient({ url: exchange.url(), signer: devnetKey(10) }), accepted)
  exchange.process.kill('SIGTERM')
  assert.equal(await exchange.exited, 'code 0', exchange.output())
}

/** Returns all files of the folder with their times, to detect whether the process has written anything. */
function traces(dataDir: string): string {
  const files = readdirSync(dataDir, { recursive: true, encoding: 'utf8' }).sort()
  return files.map((file) => `${file} ${statSync(join(dataDir, file)).mtimeMs}`).join()
}

async function assertNothingLeft({ dataDir, port }: Started, story: string): Promise<void> {
  const processes = readdirSync('/proc').filter((entry) => {
    if (!/^\d+$/.test(entry) || Number(entry) === process.pid) return false
    try {
      return readFileSync(`/proc/${entry}/cmdline`, 'utf8').includes(dataDir)
    } catch {
      return false
    }
  })
  assert.deepEqual(processes, [], `${story}: its chain still runs`)
  assert.equal(await claimPort('127.0.0.1', port), port, `${story}: the port is free`)
  const files = readdirSync(dataDir, { recursive: true, encoding: 'utf8' })
  const halves = files.filter((file) => /\.new(-|$)/.test(file))
  assert.deepEqual(halves, [], `${story}: half made`)
}
