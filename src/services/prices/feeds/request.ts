/** Sends one GET request to a provider, with a timeout, and parses the JSON answer. Every failure is a `Fault`. */

import { Fault } from '#domain/fault.ts'
import { type FeedPorts, type FeedResponse, REPORT_CHARS_MAX } from './feed.ts'
import { timingOf } from './line.ts'

/** Answer of a provider: the parsed value, and its text. */
type Answered = { readonly value: unknown; readonly text: string }

/** Returns the answer; undefined if the provider reports that the requested value does not exist. */
export async function getJson(
  ports: FeedPorts,
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answered | undefined> {
  const call = new AbortController()
  const cancel = ports.clock.after(timingOf(ports).requestMs, () => call.abort())
  try {
    const response = await ports.fetch(url, {
      headers: { accept: 'application/json', ...headers },
      signal: call.signal,
    })
    const text = await textOf(response)
    if (response.status === 404) return undefined
    if (!response.ok) {
      const retryable = response.status === 429 || response.status >= 500
      throw new Fault(
        'FEED_REFUSED',
        `the price provider answered with HTTP status ${response.status}`,
        { retryable },
      )
    }
    return { value: parseText(text), text }
  } catch (error) {
    if (error instanceof Fault) throw error
    const message = call.signal.aborted
      ? 'the price provider did not answer in time'
      : messageOf(error)
    throw new Fault('FEED_AWAY', message, { retryable: true, cause: error })
  } finally {
    cancel()
  }
}

/** Returns the body as text; throws a fault if it has more than `REPORT_CHARS_MAX` characters. */
async function textOf({ body }: FeedResponse): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const bytes of body ?? []) {
    text += decoder.decode(bytes, { stream: true })
    if (text.length > REPORT_CHARS_MAX) {
      throw new Fault('FEED_GARBAGE', 'the answer of the price provider is too long', {
        retryable: true,
      })
    }
  }
  return text + decoder.decode()
}

function parseText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Fault('FEED_GARBAGE', 'the answer of the price provider is not JSON', {
      retryable: true,
      cause: error,
    })
  }
}

/** Reports a failed request as a trouble. */
export function reportTrouble({ troubled }: FeedPorts, error: unknown): void {
  if (!(error instanceof Fault)) throw error
  const kinds = { FEED_REFUSED: 'refused', FEED_GARBAGE: 'garbage' } as const
  troubled(kinds[error.code as keyof typeof kinds] ?? 'away', error.message)
}

export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // An error of `fetch` states the reason only in its `cause`.
  return error.cause instanceof Error
    ? `${error.message}: ${error.cause.message || (error.cause as { code?: string }).code}`
    : error.message
}

/** Returns whether the value is a JSON object. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
