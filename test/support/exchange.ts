/**
 * A real exchange for tests: `node src/main.cjs` as a child process on a free port, with its own data folder, which is
 * removed at the end. A failing test shows the output of the child.
 */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { endChain } from '#devnet/chain-process.ts'
import { readChainRecord } from '#devnet/chain-record.ts'
import { TEST_PARTITIONS } from './partitions.ts'
import { IS_TEST, TEST_FLAGS } from './test-flags.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const OPEN = /is open \(\w+\) at (http:\/\/\S+)/
/** Matches the line that a node without sockets prints when it is ready. Its `url` is then the node's name. */
const RUNS = /node (\S+) runs with/
/** As `npm start` has it. */
const USUAL_FLAGS = ['--import', './src/loader/hooks.js']
/** A failing test shows at most this number of characters from the end of the output. */
const OUTPUT_CHARS_MAX = 20_000

export type Environment = Readonly<Record<string, string>>

export type Exchange = {
  /** Address of the running process; it changes with each start. */
  readonly url: string
  readonly dataDir: string
  /** Id of the running process; 0 if none runs. */
  readonly pid: number
  /** Returns the end of the output of all processes so far. */
  readonly output: () => string
  /** Their standard output only. */
  readonly standardOutput: () => string
  /** Kills the process by a signal; resolves when it has ended. */
  readonly kill: (signal?: NodeJS.Signals) => Promise<void>
  /** Sends a signal that does not end the process, such as one that pauses it. */
  readonly signal: (signal: NodeJS.Signals) => void
  /** Stops the process cleanly, and asserts its exit code. */
  readonly stop: () => Promise<void>
  /** Starts a process again on the same data folder; the previous one must have ended. */
  readonly start: (environment?: Environment) => Promise<void>
  /** Kills the processes and removes the folder. */
  readonly dispose: () => Promise<void>
}

type Child = { readonly process: ChildProcess; readonly exited: Promise<string> }

const running = new Set<ChildProcess>()
// Kills all exchanges when the test process exits.
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

export type ExchangeOptions = {
  readonly environment?: Environment
  /** True to start a local chain for this exchange on a free port, as `npm start` does. */
  readonly devnet?: boolean
  /** Number of characters, at the end of the output, that are kept. */
  readonly outputCharsMax?: number
  /** Prepares the data folder before the first start. */
  readonly prepare?: (dataDir: string) => Promise<void>
}

/** Starts an exchange that ends with the test. Subtests may use it, too. */
export async function startExchange(
  t: TestContext,
  options: ExchangeOptions = {},
): Promise<Exchange> {
  const exchange = await openExchange(options)
  let failed = false
  t.afterEach((subtest) => {
    failed ||= hasFailed(subtest)
  })
  t.after(async () => {
    await exchange.dispose()
    failed ||= hasFailed(t)
    if (failed) process.stderr.write(`the exchange wrote:\n${exchange.output()}\n`)
  })
  return exchange
}

/** Returns whether the test has failed. The test runner's types do not declare the `error` of a context. */
function hasFailed(context: object): boolean {
  return 'error' in context && context.error != null
}

/** Starts an exchange that its caller disposes of. */
export async function openExchange(options: ExchangeOptions = {}): Promise<Exchange> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sibyl-exchange-'))
  let environment = options.environment ?? {}
  let child: Child | undefined
  let url = ''
  let output = ''
  let standardOutput = ''

  async function start(): Promise<void> {
    assert.equal(child, undefined, 'the exchange before this one is gone')
    const started = Promise.withResolvers<string>()
    const flags = IS_TEST ? [...process.execArgv, ...TEST_FLAGS] : USUAL_FLAGS
    const node = spawn(process.execPath, [...flags, 'src/main.cjs'], {
      cwd: ROOT,
      env: {
        ...withoutSettings(process.env),
        SIBYL_PORT: '0',
        SIBYL_DATA_DIR: dataDir,
        SIBYL_LOG_FORMAT: 'json',
        // The exchange has no chain unless the test configures one, because most tests need none.
        SIBYL_DEVNET: String(options.devnet === true),
        SIBYL_DEVNET_PORT: '0',
        // Saves threads at each start; no test depends on the number of verify threads.
        SIBYL_VERIFY_THREADS: '1',
        // Uses few partitions, because the first start creates and syncs a file for each partition.
        SIBYL_LOG_PARTITIONS: String(TEST_PARTITIONS),
        // Without the public log, an exchange starts one thread fewer. Tests of the public log turn it on.
        SIBYL_TRANSPARENCY: 'off',
        // On a busy machine a request, a stop, and the start after a kill may take long. With these long limits, none
        // of them fails.
        SIBYL_REQUEST_DEADLINE_MS: '120000',
        SIBYL_STOP_TIMEOUT_MS: '120000',
        // Tests read metrics right after a change, so the metrics must not be cached.
        SIBYL_METRICS_CACHE_MS: '0',
        // Polls rarely, because each poll of a chain takes CPU time of two processes, even while nothing happens.
        SIBYL_INDEXER_POLL_MS: '300',
        SIBYL_DEVNET_LINGER_SECONDS: '600',
        ...environment,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    running.add(node)
    let said = ''
    const charsMax = options.outputCharsMax ?? OUTPUT_CHARS_MAX
    const hear = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-charsMax)
      if (url !== '') return
      said += chunk.toString()
      const found = (OPEN.exec(said) ?? RUNS.exec(said))?.[1]
      if (found !== undefined) started.resolve(found)
    }
    url = ''
    node.stdout.on('data', hear)
    node.stdout.on('data', (chunk: Buffer) => {
      standardOutput = (standardOutput + chunk.toString()).slice(-charsMax)
    })
    node.stderr.on('data', hear)
    const exited = new Promise<string>((resolve) => {
      node.once('exit', (code, signal) => {
        running.delete(node)
        child = undefined
        const how = signal ?? `code ${code}`
        started.reject(new Error(`the exchange ended with ${how} while starting:\n${output}`))
        resolve(how)
      })
    })
    child = { process: node, exited }
    url = await started.promise
  }

  async function kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    child?.process.kill(signal)
    await child?.exited
  }

  async function dispose(): Promise<void> {
    await kill()
    // A local chain outlives its exchange, waiting for the next start, so it is ended here.
    for (const { url: chainUrl } of Object.values(readChainRecord(dataDir) ?? {})) {
      if (options.devnet === true) await endChain(chainUrl)
    }
    await rm(dataDir, { recursive: true, force: true })
  }

  try {
    await options.prepare?.(dataDir)
    await start()
  } catch (error) {
    await dispose()
    throw error
  }
  return {
    get url() {
      return url
    },
    dataDir,
    get pid() {
      return child?.process.pid ?? 0
    },
    output: () => output,
    standardOutput: () => standardOutput,
    kill,
    signal: (signal) => void child?.process.kill(signal),
    async stop() {
      assert.ok(child !== undefined, 'the exchange runs')
      child.process.kill('SIGTERM')
      assert.equal(await child.exited, 'code 0', output)
    },
    async start(next) {
      environment = next ?? environment
      await start()
    },
    dispose,
  }
}

/** Starts an exchange that is expected to fail, and returns the line with the reason. */
export async function startRefusal(options: ExchangeOptions): Promise<string> {
  const error = await openExchange(options).then(
    async (exchange) => {
      await exchange.dispose()
      assert.fail('it started')
    },
    (thrown: Error) => thrown,
  )
  const [, said = ''] = /^(sibyl: .*)$/m.exec(error.message) ?? []
  return said
}

/** Removes the exchange's settings from an environment, so that those of the test run have no effect. */
export function withoutSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('SIBYL_')))
}
