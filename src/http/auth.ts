/**
 * Bearer tokens: `base64url(payload).base64url(signature)`, signed with the private half of a registered Ed25519 key.
 * The checks run in the order of the published table, so a client always gets the first error in that order. A nonce is
 * recorded only after the signature was verified, so no client can use up the token of another client.
 *
 * If tokens may be used more than once, a verified signature is cached, because verification is most of the cost of a
 * check. All other checks run each time, so tokens of a revoked or expired key stop working at once.
 */

import { type KeyObject, verify } from 'node:crypto'
import type { ApiKey } from '#domain/api-key.ts'
import { TOKEN_AHEAD_SEC_MAX, TOKEN_LIFE_SEC } from '#domain/limits.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import { remember } from '#domain/remember.ts'
import type { Clock } from '#runtime/clock.ts'
import { makeKeyCache } from './key-cache.ts'
import type { NonceLedger } from './nonce-ledger.ts'
import type { Principal } from './route.ts'

const PAYLOAD_CHARS_MAX = 1_024
/** Maximum number of tokens with a cached signature; the oldest is evicted first. */
const TOKENS_REMEMBERED_MAX = 10_000

type TokenPayload = { readonly kid: string; readonly ts: number; readonly n: string }

export type Authenticator = {
  /** Returns the owner of the token in the header, or a rejection if the token is invalid. */
  identify(authorization: string): Promise<Principal | Rejection>
  /** Checks a key again, some time after a token of this key was accepted. Returns the key’s owner or a rejection. */
  confirm(keyId: string): Promise<Principal | Rejection>
  /** Called when the store has a new key. */
  registered(key: ApiKey): void
  /** Called when the store has revoked these keys. */
  revoked(ids: readonly string[]): void
  /** Called when changes of the store may have been missed: cached keys are read again. */
  mayHaveMissed(): void
  /** Number of tokens with a cached signature. */
  readonly remembered: number
}

/**
 * Records the use of a token where every process that accepts the same tokens can see it. Returns a rejection if the
 * token must not be used, otherwise undefined.
 */
export type ClaimToken = (use: {
  readonly keyId: string
  readonly nonce: string
  readonly issuedSec: number
}) => Promise<Rejection | undefined>

type AuthenticatorOptions = {
  /** Finds a key by its id. Throws a retryable `Fault` while the store is unavailable. */
  readonly findKey: (id: string) => Promise<ApiKey | undefined>
  readonly nonces: NonceLedger
  readonly singleUse: boolean
  /**
   * Set if other processes accept the same tokens. `claim` is called only for tokens that this process has not seen
   * before.
   */
  readonly claim?: ClaimToken | undefined
  readonly clock: Clock
  /**
   * Start time of this process. Without `claim`, single-use tokens issued before it are rejected as expired, because
   * the process has forgotten which of them were used. With `claim` they are accepted, because `claim` remembers uses
   * across restarts.
   */
  readonly startedAtMs: number
  /** Maximum number of cached signatures, if tokens may be used more than once. */
  readonly tokensMax?: number
}

export function makeAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { nonces, clock, tokensMax = TOKENS_REMEMBERED_MAX } = options
  const keys = makeKeyCache(options)
  const { keyInForce } = keys
  const firstSec = options.claim === undefined ? Math.ceil(options.startedAtMs / 1_000) : 0
  /** Cached tokens that may be used more than once, each with the public key that verified its signature. */
  const fitting = new Map<string, string>()

  /** Uses up a single-use token. Returns a rejection if the token was used before, or if its use cannot be recorded. */
  async function useUp(
    payload: TokenPayload,
    keyId: string,
    nowSec: number,
  ): Promise<Rejection | undefined> {
    const { ts: issuedSec } = payload
    const nonce = payload.n.toLowerCase()
    const use = nonces.use(keyId, nonce, issuedSec + TOKEN_LIFE_SEC, nowSec)
    if (use === 'used') return reject('UNAUTHORIZED_TOKEN_USED')
    if (use === 'full') return reject('OVERLOADED')
    if (options.claim !== undefined) {
      const refused = await options.claim({ keyId, nonce, issuedSec })
      // OVERLOADED means that the store did not record the use. The client may then retry with the same token.
      if (refused?.rejected === 'OVERLOADED') nonces.release(keyId, nonce)
      if (refused !== undefined) return refused
    }
    return undefined
  }

  return {
    async identify(authorization) {
      const token = readHeader(authorization)
      if (typeof token !== 'string') return token
      const parts = readToken(token)
      if (parts === undefined) return reject('UNAUTHORIZED_INVALID_TOKEN')
      const { payload, payloadBytes, segment, signature } = parts
      const nowSec = Math.floor(clock.nowMs() / 1_000)
      const aheadSec = payload.ts - nowSec
      if (aheadSec > TOKEN_AHEAD_SEC_MAX) return tooFarAhead(aheadSec)
      if (payload.ts <= nowSec - TOKEN_LIFE_SEC) {
        fitting.delete(token)
        return reject('UNAUTHORIZED_TOKEN_EXPIRED')
      }
      if (options.singleUse && payload.ts < firstSec) return reject('UNAUTHORIZED_TOKEN_EXPIRED')
      const found = await keyInForce(payload.kid)
      if (isRejection(found)) return found
      const { key, publicKey } = found
      if (options.singleUse || fitting.get(token) !== key.publicKey) {
        // A token's signature covers the decoded bytes of its first segment. The published description can also be read
        // as the segment's characters, so a signature over these is accepted too.
        const fits =
          (await verified(publicKey, payloadBytes, signature)) ||
          (await verified(publicKey, Buffer.from(segment, 'latin1'), signature))
        if (!fits) return reject('UNAUTHORIZED_INVALID_SIGNATURE')
        if (!options.singleUse) remember(fitting, token, key.publicKey, tokensMax)
      }
      const refused = options.singleUse ? await useUp(payload, key.id, nowSec) : undefined
      if (refused !== undefined) return refused
      return principalOf(key)
    },

    async confirm(keyId) {
      const found = await keyInForce(keyId)
      return isRejection(found) ? found : principalOf(found.key)
    },

    registered: keys.registered,
    revoked: keys.revoked,
    mayHaveMissed: keys.mayHaveMissed,

    get remembered() {
      return fitting.size
    },
  }
}

function principalOf({ id: keyId, address, expiresAtSec }: ApiKey): Principal {
  return { keyId, address, ...(expiresAtSec === null ? {} : { expiresAtSec }) }
}

function readHeader(authorization: string): string | Rejection {
  if (authorization === '') return reject('UNAUTHORIZED_MISSING_HEADER')
  const token = /^Bearer (\S+)$/.exec(authorization)?.[1]
  return token ?? reject('UNAUTHORIZED_INVALID_FORMAT')
}

type TokenParts = {
  readonly payload: TokenPayload
  readonly payloadBytes: Buffer
  readonly segment: string
  readonly signature: Buffer
}

function readToken(token: string): TokenParts | undefined {
  const segments = token.split('.', 3)
  const [segment = '', signed = ''] = segments
  if (segments.length !== 2 || segment.length > PAYLOAD_CHARS_MAX) return undefined
  const payloadBytes = fromBase64Url(segment)
  const signature = fromBase64Url(signed)
  if (payloadBytes === undefined || signature?.length !== 64) return undefined
  const payload = readPayload(payloadBytes)
  return payload === undefined ? undefined : { payload, payloadBytes, segment, signature }
}

/**
 * If `ts` of a token is ahead by more than this many seconds, the cause is probably a wrong unit, such as milliseconds,
 * and not a wrong clock. The error then does not blame the client's clock.
 */
const CLOCK_OFF_SEC_MAX = 86_400

function tooFarAhead(aheadSec: number): Rejection {
  if (aheadSec > CLOCK_OFF_SEC_MAX) return reject('UNAUTHORIZED_INVALID_TOKEN')
  const most = `ts of the bearer token must be at most ${TOKEN_AHEAD_SEC_MAX} s ahead of the exchange's clock`
  const detail = `${most}, but it is ${aheadSec} s ahead: correct the clock of your machine`
  return reject('UNAUTHORIZED_INVALID_TOKEN', undefined, detail)
}

/** Accepts strict base64url only: no padding, no other alphabet, no bits beyond the last byte. */
function fromBase64Url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url')
  return text !== '' && bytes.toString('base64url') === text ? bytes : undefined
}

function readPayload(bytes: Buffer): TokenPayload | undefined {
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const { kid, ts, n } = value as Record<string, unknown>
  if (typeof kid !== 'string') return undefined
  // Negative times, before 1970, are accepted here; such a token is then rejected as expired.
  if (typeof ts !== 'number' || !Number.isInteger(ts)) return undefined
  if (typeof n !== 'string' || !/^[0-9a-fA-F]{32}$/.test(n)) return undefined
  return { kid, ts, n }
}

/**
 * Verifies the signature in libuv's thread pool, because verification takes 140 µs and would delay every other request
 * on the front's thread.
 */
function verified(key: KeyObject, data: Buffer, signature: Buffer): Promise<boolean> {
  return new Promise((resolve) => {
    verify(null, data, key, signature, (error, fits) => resolve(error === null && fits))
  })
}
