/** Reads the public logs of an exchange over HTTP, with the keys that the user trusts. */

import { CommandError, OptionError } from '#devnet/command.ts'
import type { TransparencyAnswer } from '#protocol/shapes/transparency.ts'
import { parseVerifierKey, type VerifierKey } from '#transparency/note.ts'
import { type LogGet, LogUnavailable, type RemoteLog } from '#transparency/remote-log.ts'

/** Timeout of a request for a log in milliseconds. */
const READ_MS_MAX = 30_000

export type NamedLog = RemoteLog & { readonly origin: string; readonly partition: number }

/**
 * Lists the logs of an exchange, each with a trusted verifier key. `trusted` contains the trusted keys, separated by
 * commas. Without `trusted`, the keys that the exchange publishes are trusted. Throws if a log has no trusted key, or
 * if the exchange does not list the log of a trusted key.
 */
export async function namedLogs(url: string, trusted: string | undefined): Promise<NamedLog[]> {
  const response = await fetch(`${url}/api/v1/transparency`)
  if (!response.ok)
    throw new CommandError(
      `${url} answered with HTTP status ${response.status}; perhaps this server does not publish a log`,
    )
  const { logs } = (await response.json()) as TransparencyAnswer
  if (logs.length === 0) throw new CommandError('this exchange does not publish its log')
  const names = new Set(logs.map(({ origin }) => origin))
  for (const text of trusted?.split(',') ?? []) {
    const name = parseVerifierKey(text)?.name
    if (name === undefined || names.has(name)) continue
    throw new CommandError(
      `the exchange does not list the log ${name}, although --key contains a key of this log`,
    )
  }
  return logs.map(({ origin, path, partition, verifierKeys }) => ({
    ...{ origin, partition, get: getBelow(url + path) },
    key: keyOf(origin, trusted?.split(',') ?? verifierKeys, verifierKeys),
  }))
}

/**
 * Returns a trusted key of a log. While keys are rotated, several keys of a log can be trusted. In this case, prefers a
 * key that the exchange currently publishes.
 */
function keyOf(
  origin: string,
  trusted: readonly string[],
  signing: readonly string[],
): VerifierKey {
  const inUse = trusted.filter((text) => signing.includes(text))
  const keys = [...inUse, ...trusted].map((text) => parseVerifierKey(text))
  const found = keys.find((key) => key?.name === origin)
  if (found !== undefined) return found
  throw new OptionError(`--key must contain a verifier key of the log ${origin}`)
}

function getBelow(prefix: string): LogGet {
  return async (path) => {
    const url = `${prefix}/${path}`
    try {
      const response = await fetch(url, { signal: AbortSignal.timeout(READ_MS_MAX) })
      if (response.status === 404) return undefined
      if (response.ok) return new Uint8Array(await response.arrayBuffer())
      throw new Error(`status ${response.status}`)
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      throw new LogUnavailable(`${url} cannot be read: ${why}`, { cause: error })
    }
  }
}
