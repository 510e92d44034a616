/**
 * The logger of a thread: JSON lines where a machine reads them, readable lines on a terminal. Each
 * thread has a child with its name. Secrets are cut out by name, wherever they stand.
 */

import { createRequire } from 'node:module'
import { pino } from 'pino'
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

/** Whether a person reads what is written. */
export function isReadable({ format }: Settings['log'], isTerminal: boolean): boolean {
  return format === 'pretty' || (format === 'auto' && isTerminal)
}

export function makeLog(settings: Settings['log'], thread: string, isTerminal: boolean): Log {
  const options = {
    level: settings.level,
    base: { thread },
    redact: { paths: SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]) },
  }
  // Written in the calling thread and at once: a line about a crash must not be lost with it.
  if (!isReadable(settings, isTerminal))
    return pino(options, pino.destination({ fd: 1, sync: true }))
  // Loaded only where a person reads.
  const pretty: typeof import('pino-pretty') = createRequire(import.meta.url)('pino-pretty')
  const lines = { sync: true, ignore: 'pid,hostname', translateTime: 'HH:MM:ss.l' }
  return pino(options, pretty.build(lines))
}
