/**
 * Bearer tokens of an API key: the client makes one for each request that writes, and attaches it automatically. The
 * private key never leaves the process; only its signatures do.
 */

import { signAsync } from '@noble/ed25519'
import type { ClientOptions } from './client.ts'
import { SibylError } from './sibyl-error.ts'

export type ApiKeyPair = {
  readonly id: string
  /** The 32-byte seed as 64 hex digits, as registration returns it. */
  readonly privateKey: string
}

const PRIVATE_KEY = /^(?:0x)?([0-9a-fA-F]{64})$/
const NONCE_BYTES = 16
/**
 * Minimum clock difference that is corrected, in milliseconds. The `Date` header has whole seconds and arrives with the
 * network's latency, so smaller differences are ignored.
 */
const SKEW_MS_MIN = 5_000
/** Codes of rejections that a corrected clock would avoid. */
const CLOCK_CODES: ReadonlySet<unknown> = new Set([
  'UNAUTHORIZED_TOKEN_EXPIRED',
  'UNAUTHORIZED_INVALID_TOKEN',
])

/** Returns a token for one request, issued at the given time. */
export async function mintToken(key: ApiKeyPair, nowMs: number): Promise<string> {
  const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES))
  const payload = { kid: key.id, ts: Math.floor(nowMs / 1_000), n: hexOf(nonce) }
  const bytes = new TextEncoder().encode(JSON.stringify(payload))
  const signature = await signAsync(bytes, seedOf(key))
  return `${base64url(bytes)}.${base64url(signature)}`
}

/**
 * Returns client options that use the key: `createClient(withApiKey(options, key))`. Writes and new stream connections
 * carry a token; reads do not.
 *
 * The client corrects this machine's clock by the `Date` headers of answers. If the exchange rejected a token because
 * of a wrong clock, the client sends the request once more. If the caller passes a clock, the client uses that clock
 * without correction. A devnet needs this: after its time was moved, its `Date` headers still show the machine's time.
 */
export function withApiKey(
  options: ClientOptions,
  key: ApiKeyPair,
  clock: { readonly nowMs?: () => number } = {},
): ClientOptions {
  seedOf(key)
  const nowMs = clock.nowMs ?? (() => Date.now())
  const send = options.fetch ?? ((input, init) => fetch(input, init))
  let skewMs = 0

  const bearer = async (): Promise<string> => `Bearer ${await mintToken(key, nowMs() + skewMs)}`

  async function sendWithToken(input: RequestInfo | URL, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers)
    headers.set('authorization', await bearer())
    return send(input, { ...init, headers })
  }

  /**
   * Updates the clock correction from an answer's `Date` header. Returns whether the correction has changed by at least
   * `SKEW_MS_MIN`.
   */
  function learnClock(response: Response): boolean {
    if (clock.nowMs !== undefined) return false
    const atMs = Date.parse(response.headers.get('date') ?? '')
    if (Number.isNaN(atMs)) return false
    const seenMs = atMs - Date.now()
    const before = skewMs
    skewMs = Math.abs(seenMs) < SKEW_MS_MIN ? 0 : seenMs
    return Math.abs(skewMs - before) >= SKEW_MS_MIN
  }

  return {
    ...options,
    streamHeaders: async () => ({ authorization: await bearer() }),
    fetch: async (input, init = {}) => {
      const method = init.method ?? 'GET'
      if (method === 'GET' || method === 'HEAD') {
        const response = await send(input, init)
        learnClock(response)
        return response
      }
      const response = await sendWithToken(input, init)
      if (!learnClock(response) || response.status !== 401) return response
      // If the exchange rejects the token, it does not execute the request, so sending the request again is safe. A 401
      // from a proxy may have no JSON body.
      const refusal = (await response
        .clone()
        .json()
        .catch(() => null)) as { code?: unknown } | null
      return CLOCK_CODES.has(refusal?.code) ? sendWithToken(input, init) : response
    },
  }
}

/** Parses the private key of an API key. The error for an invalid key never contains the key. */
function seedOf({ privateKey }: ApiKeyPair): Uint8Array {
  const hex = PRIVATE_KEY.exec(privateKey)?.[1]
  if (hex === undefined) {
    throw new SibylError('INVALID_FIELD', 'the private key of the API key is not 64 hex digits')
  }
  return Uint8Array.from({ length: 32 }, (_, at) =>
    Number.parseInt(hex.slice(at * 2, at * 2 + 2), 16),
  )
}

function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Encodes bytes as base64url without padding. */
function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}
