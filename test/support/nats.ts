/**
 * Starts a NATS server on a free port for one test, and stops it at the end of the test. If the program is not
 * installed, tests that need it are skipped with the reason, or fail if services are required.
 */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { eventually } from './eventually.ts'
import { servicesRequired } from './required-services.ts'

const PROGRAM = 'nats-server'

/** Reason why no server can be started. False if the program is installed, or if tests must fail without it. */
export const natsMissing: string | false =
  servicesRequired || spawnSync(PROGRAM, ['--version']).status === 0
    ? false
    : `${PROGRAM} is not installed`

export type OpenNats = NatsServer & { readonly dispose: () => Promise<void> }

export type NatsServer = {
  readonly pid: number | undefined
  readonly url: string
  readonly kill: (signal?: NodeJS.Signals) => Promise<void>
  /** Starts the server again on the same port, after a kill. */
  readonly start: () => Promise<void>
}

/** Starts a server that ends with the test. */
export async function startNats(
  t: TestContext,
  flags: readonly string[] = [],
): Promise<NatsServer> {
  const nats = await openNats(flags)
  t.after(nats.dispose)
  return nats
}

/** Starts a server that its caller disposes of. */
export async function openNats(flags: readonly string[] = []): Promise<OpenNats> {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-nats-'))
  let child: ChildProcess | undefined
  let port = '-1'
  async function start(): Promise<void> {
    for (const file of readdirSync(folder)) rmSync(join(folder, file))
    const given = ['-a', '127.0.0.1', '-p', port, '--ports_file_dir', folder, ...flags]
    child = spawn(PROGRAM, given, { stdio: 'ignore' })
    await eventually(() => {
      const [file = ''] = readdirSync(folder)
      const { nats } = JSON.parse(readFileSync(join(folder, file), 'utf8')) as { nats: string[] }
      port = new URL(nats[0] ?? '').port
    })
  }
  async function kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const running = child
    if (running === undefined || (running.exitCode ?? running.signalCode) !== null) return
    const gone = new Promise((resolve) => running.once('exit', resolve))
    running.kill(signal)
    if (signal === 'SIGKILL' || signal === 'SIGTERM') await gone
  }
  await start()
  return {
    get pid() {
      return child?.pid
    },
    get url() {
      return `nats://127.0.0.1:${port}`
    },
    kill,
    start,
    async dispose() {
      await kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
