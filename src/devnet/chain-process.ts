/**
 * Starts the chain's process or finds a running one, and takes a lease on it. The process continues after the exchange
 * that started it has ended. It ends on request, or some time after its last lease has ended (see `chain-host.ts`).
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { get, type IncomingMessage } from 'node:http'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const ENTRY = fileURLToPath(new URL('./chain-host.ts', import.meta.url))
const START_TIMEOUT_MS = 180_000
const PROBE_TIMEOUT_MS = 5_000
/** Maximum time, in milliseconds, that `endChain` waits for the chain's process to end. */
const END_TIMEOUT_MS = 10_000
const END_POLL_MS = 20

/** Identity that a chain process reports. */
export type ChainIdentity = {
  readonly sibyl: 'devnet'
  readonly pid: number
  readonly chainId: number
  /** Hash of the chain's first block; unique for each chain. */
  readonly genesis: string
  /** Owner of the chain: the data folder of the exchange that started it. */
  readonly owner: string
  /** Number of processes that hold a lease on the chain. */
  readonly leases: number
  /** Milliseconds until the process ends unless a lease is taken; null while a lease is held. */
  readonly endsInMs: number | null
}

export type LeaseLine = { readonly genesis: string; readonly offsetSeconds: number }

type ChainProcessOptions = {
  /** Port of the chain; 0 picks a free port. */
  readonly port: number
  readonly chainId?: number
  /** Milliseconds for which the process keeps running after the last lease has ended. */
  readonly lingerMs?: number
  readonly owner?: string
  /** File for error output of the chain's process. */
  readonly logFile?: string
}

type ChainProcess = { readonly url: string; readonly genesis: string }

/** Thrown if the port is not available, or if the chain's process ended before it was ready. */
export class ChainStartError extends Error {}

export function chainUrl(port: number): string {
  return `http://127.0.0.1:${port}`
}

/** Starts a fresh chain; resolves when the chain is ready. */
export async function startChainProcess(options: ChainProcessOptions): Promise<ChainProcess> {
  const errors = options.logFile === undefined ? 'pipe' : openSync(options.logFile, 'a')
  const child = spawn(
    process.execPath,
    [
      ...process.execArgv,
      ENTRY,
      `--port=${options.port}`,
      ...(options.chainId === undefined ? [] : [`--chain-id=${options.chainId}`]),
      ...(options.lingerMs === undefined ? [] : [`--linger-ms=${options.lingerMs}`]),
      `--owner=${options.owner ?? ''}`,
    ],
    // The chain has its own process group. So Ctrl-C in a terminal reaches only the exchange, and the exchange then
    // ends the chain.
    { detached: true, stdio: ['ignore', 'pipe', errors] },
  )
  if (typeof errors === 'number') closeSync(errors)
  let said = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(-2_000)
  })
  const ready = Promise.withResolvers<ChainProcess>()
  const timer = setTimeout(() => {
    child.kill('SIGKILL')
    ready.reject(new ChainStartError(`the chain was not ready after ${START_TIMEOUT_MS} ms`))
  }, START_TIMEOUT_MS)
  const output = child.stdout
  if (output === null) throw new Error('the process of the local chain has no standard output')
  const lines = createInterface(output)
  lines.once('line', (line) => {
    const { port, genesis } = JSON.parse(line) as { port: number; genesis: string }
    ready.resolve({ url: chainUrl(port), genesis })
  })
  child.once('error', (error) => ready.reject(error))
  child.once('exit', (code, signal) => {
    const how = `its process ended with ${signal ?? `code ${code}`}`
    const where = options.logFile === undefined ? said.trim() : `see ${options.logFile}`
    ready.reject(new ChainStartError(`the local chain did not start: ${how}; ${where}`))
  })
  try {
    return await ready.promise
  } finally {
    clearTimeout(timer)
    // From here on the chain's process is independent and does not keep this process alive.
    lines.close()
    output.destroy()
    child.stderr?.destroy()
    child.unref()
  }
}

type Probe =
  | { readonly found: 'nothing' }
  /** No answer arrived within `timeoutMs`; the machine may be very busy. */
  | { readonly found: 'silent' }
  | { readonly found: 'stranger' }
  | { readonly found: 'chain'; readonly identity: ChainIdentity }

/** Returns which process listens at this address. */
export async function probeChain(url: string, timeoutMs = PROBE_TIMEOUT_MS): Promise<Probe> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(timeoutMs) })
    const body: unknown = await response.json().catch(() => undefined)
    if (typeof body === 'object' && body !== null && 'sibyl' in body && body.sibyl === 'devnet') {
      return { found: 'chain', identity: body as ChainIdentity }
    }
    return { found: 'stranger' }
  } catch (error) {
    if (isRefused(error)) return { found: 'nothing' }
    return { found: (error as Error).name === 'TimeoutError' ? 'silent' : 'stranger' }
  }
}

function isRefused(error: unknown): boolean {
  const { cause } = error as { cause?: { code?: string } }
  return cause?.code === 'ECONNREFUSED'
}

export type Lease = {
  /** Releases the lease; without another lease, the chain keeps running for `lingerMs`. */
  release(): void
}

/**
 * Takes a lease on a chain. `onClock` is called with the seconds by which the chain's clock is ahead of this machine's:
 * once before the promise resolves, and after each change. `onLost` is called when the chain's process has ended.
 */
export async function leaseChain(
  url: string,
  handlers: { onClock?: (offsetSeconds: number) => void; onLost?: () => void } = {},
): Promise<Lease> {
  const call = get(`${url}/lease`, { agent: false })
  const [response] = (await once(call, 'response')) as [IncomingMessage]
  if (!response.headers['content-type']?.includes('ndjson')) {
    call.destroy()
    throw new ChainStartError(`the server at ${url} is not a local chain of Sibyl`)
  }
  let released = false
  const first = Promise.withResolvers<void>()
  const lines = createInterface(response)
  lines.on('line', (line) => {
    handlers.onClock?.((JSON.parse(line) as LeaseLine).offsetSeconds)
    first.resolve()
  })
  const lost = (): void => {
    first.resolve()
    if (!released) handlers.onLost?.()
    released = true
  }
  response.once('close', lost)
  // Errors need no handling, because a `close` event follows each error.
  for (const part of [call, response, lines]) part.on('error', () => {})
  // A lease does not keep its holder's process alive.
  response.socket.unref()
  await first.promise
  return {
    release() {
      released = true
      call.destroy()
    },
  }
}

/** Ends a chain, and waits until it has ended. */
export async function endChain(url: string): Promise<void> {
  const { found, ...probe } = await probeChain(url)
  if (found !== 'chain' || !('identity' in probe)) return
  await fetch(url, { method: 'DELETE', signal: AbortSignal.timeout(END_TIMEOUT_MS) }).catch(
    () => undefined,
  )
  const { pid } = probe.identity
  const giveUpMs = Date.now() + END_TIMEOUT_MS
  while (isAlive(pid) && Date.now() < giveUpMs) {
    await new Promise((resolve) => setTimeout(resolve, END_POLL_MS))
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
