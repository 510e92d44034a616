/**
 * The logger of a thread: JSON lines where a machine reads them, readable lines on a terminal. Every line has the
 * names of its node and its thread. Secrets are cut out by the names of their fields, and out of addresses.
 */

import { createRequire } from 'node:module'
import { hostname } from 'node:os'
import { pino } from 'pino'
import { hideUrlSecrets } from './hidden-urls.ts'
import type { Settings } from './settings-schema.ts'

export type Log = {
  trace(fields: object, message: string): void
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  fatal(fields: object, message: string): void
}

const SECRETS = ['privateKey', 'apiPrivateKey', 'api_private_key', 'authorization', 'password']
/** Keys that every line has already; a field of the same name would appear twice. */
const TAKEN = ['level', 'time', 'node', 'thread', 'msg']

/** Whether a person reads what is written. */
export function isReadable({ format }: Settings['log'], isTerminal: boolean): boolean {
  return format === 'pretty' || (format === 'auto' && isTerminal)
}

/** `write` receives each line; without it lines go to the process's output. */
export function makeLog(
  settings: Pick<Settings, 'log' | 'cluster'>,
  thread: string,
  isTerminal: boolean,
  write?: (line: string) => void,
): Log {
  const options = {
    level: settings.log.level,
    base: { node: nodeNameOf(settings), thread },
    formatters: { log: renamed },
    redact: { paths: SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]) },
  }
  const lines = write === undefined ? outputOf(isReadable(settings.log, isTerminal)) : { write }
  return pino(options, { write: (line: string) => void lines.write(hideUrlSecrets(line)) })
}

/** Written in the calling thread and at once: a line about a crash must not be lost with it. */
function outputOf(readable: boolean): { write(line: string): unknown } {
  if (!readable) return pino.destination({ fd: 1, sync: true })
  // Loaded only where a person reads.
  const pretty: typeof import('pino-pretty') = createRequire(import.meta.url)('pino-pretty')
  return pretty.build({ sync: true, ignore: 'pid,hostname,node', translateTime: 'HH:MM:ss.l' })
}

/** Outside a cluster, the machine's name is the node's name. */
function nodeNameOf({ cluster }: Pick<Settings, 'cluster'>): string {
  return cluster.node === '' ? hostname() : cluster.node
}

/** Main writes about other threads and nodes: `thread` becomes `aboutThread`. */
function renamed(fields: Record<string, unknown>): Record<string, unknown> {
  if (!TAKEN.some((name) => name in fields)) return fields
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      TAKEN.includes(name) ? `about${name[0]?.toUpperCase()}${name.slice(1)}` : name,
      value,
    ]),
  )
}
