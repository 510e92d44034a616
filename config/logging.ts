/**
 * The logger of a thread: JSON lines for machines, readable lines on a terminal. Every line has the names of its node
 * and thread. Secrets are removed from URLs, and from fields whose names show that they are secret.
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
/**
 * Field names that every line already uses. A logged field with one of these names is renamed. Otherwise the line would
 * contain the name twice.
 */
const TAKEN = ['level', 'time', 'node', 'thread', 'msg']

/** Returns whether a person reads the output. */
export function isReadable({ format }: Settings['logging'], isTerminal: boolean): boolean {
  return format === 'pretty' || (format === 'auto' && isTerminal)
}

/** Makes the logger of a thread. `write` receives each line; without `write`, lines go to the process's output. */
export function makeLog(
  settings: Pick<Settings, 'logging' | 'cluster'>,
  thread: string,
  isTerminal: boolean,
  write?: (line: string) => void,
): Log {
  const options = {
    level: settings.logging.level,
    base: { node: nodeNameOf(settings), thread },
    formatters: { log: renamed },
    redact: { paths: SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]) },
  }
  const lines = write === undefined ? outputOf(isReadable(settings.logging, isTerminal)) : { write }
  return pino(options, { write: (line: string) => void lines.write(hideUrlSecrets(line)) })
}

/**
 * Returns an output that writes synchronously in the calling thread, so that the log line about a crash is written
 * before the process ends.
 */
function outputOf(readable: boolean): { write(line: string): unknown } {
  if (!readable) return pino.destination({ fd: 1, sync: true })
  // The pretty printer is loaded only if a person reads the output.
  const pretty: typeof import('pino-pretty') = createRequire(import.meta.url)('pino-pretty')
  return pretty.build({ sync: true, ignore: 'pid,hostname,node', translateTime: 'HH:MM:ss.l' })
}

/** Returns the node's name; outside a cluster, the machine's name. */
function nodeNameOf({ cluster }: Pick<Settings, 'cluster'>): string {
  return cluster.node === '' ? hostname() : cluster.node
}

/**
 * Renames logged fields whose names every line already has: `thread` becomes `aboutThread`. The main thread logs such
 * fields about other threads and nodes.
 */
function renamed(fields: Record<string, unknown>): Record<string, unknown> {
  if (!TAKEN.some((name) => name in fields)) return fields
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      TAKEN.includes(name) ? `about${name[0]?.toUpperCase()}${name.slice(1)}` : name,
      value,
    ]),
  )
}
