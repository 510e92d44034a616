/**
 * Bearer tokens: `base64url(payload).base64url(signature)`, signed with the private half of a
 * registered Ed25519 key. The checks run in the order of the published table, so that a client always
 * learns the first thing to fix. A nonce is recorded only after the signature fits: no client can use
 * up a token that it could not have made.
 *
 * Keys are kept in memory. The store tells which are registered and revoked, at once; so a key that is
 * known needs no query, and a database that is slow or away locks out none of them. An id that is no
 * key is remembered too, and only so many unknown ones are looked up at a time: strangers who make
 * them up cost the others nothing.
 *
 * Where a token may be used more than once, it is remembered that its signature fits: that is most of what
 * a check costs. All else is looked at each time, so that a key that is revoked or over ends it at once.
 */

import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import { API_KEY_ID, type ApiKey } from '#domain/api-key.ts'
import { Fault } from '#domain/fault.ts'
import { TOKEN_AHEAD_SEC_MAX, TOKEN_LIFE_SEC } from '#domain/limits.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Clock } from '#runtime/clock.ts'
import type { NonceLedger } from './nonce-ledger.ts'
import type { Principal } from './route.ts'

/** How long a key is taken from memory without asking, while the store tells what changes. */
const KEY_FRESH_MS = 60_000
/** How long a request waits for the database to confirm a key that is known. */
const KEY_PATIENCE_MS = 500
/** How long a key that was known stays in force while the database cannot be asked. */
const KEY_GRACE_MS = 600_000
/** Keys kept in memory by one front, and as many ids that are none. */
const KEYS_CACHED_MAX = 10_000
/** Unknown ids that are looked up at once; one more is asked to come again. */
const LOOKUPS_MAX = 64
const PAYLOAD_CHARS_MAX = 1_024
/** Tokens whose signature is remembered; the one that came first goes first. */
const TOKENS_REMEMBERED_MAX = 10_000

type TokenPayload = { readonly kid: string; readonly ts: number; readonly n: string }

export type Authenticator = {
  /** The owner of the token in the header, or why it is none. */
  identify(authorization: string): Promise<Principal | Rejection>
  /** The owner of a key that was identified before, if the key is in force now; else why it is not. */
  confirm(keyId: string): Promise<Principal | Rejection>
  /** The store has a new key. */
  registered(key: ApiKey): void
  /** The store has revoked these. */
  revoked(ids: readonly string[]): void
  /** The store may have registered or revoked something without our hearing it. */
  unheard(): void
  /** Tokens whose signature is remembered. */
  readonly remembered: number
}

/** Claims the use of a token where others may take it too; answers why it may not be taken here. */
export type ClaimToken = (use: {
  readonly keyId: string
  readonly nonce: string
  readonly issuedSec: number
}) => Promise<Rejection | undefined>

type AuthenticatorOptions = {
  /** Throws a retryable `Fault` while the store cannot be asked. */
  readonly findKey: (id: string) => Promise<ApiKey | undefined>
  readonly nonces: NonceLedger
  readonly singleUse: boolean
  /** Where other processes take the same tokens. What this one remembers is looked at first. */
  readonly claim?: ClaimToken | undefined
  readonly clock: Clock
  /**
   * Tokens from before are expired: it is not known any more which of them were used. Whoever claims them
   * elsewhere knows.
   */
  readonly startedAtMs: number
  /** How many tokens are remembered where they may be used more than once. */
  readonly tokensMax?: number
}

type KnownKey = { readonly key: ApiKey; readonly publicKey: KeyObject; readonly askedAtMs: number }
type Asking = { readonly askedAtMs: number; readonly answer: Promise<KnownKey | undefined> }

export function makeAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { findKey, nonces, clock, tokensMax = TOKENS_REMEMBERED_MAX } = options
  const firstSec = options.claim === undefined ? Math.ceil(options.startedAtMs / 1_000) : 0
  const known = new Map<string, KnownKey>()
  /** Ids that are no key, and when that was answered. */
  const unknown = new Map<string, number>()
  /** Never more than there are known keys, and so many unknown ones. */
  const asking = new Map<string, Asking>()
  let heardSinceMs = Number.NEGATIVE_INFINITY
  let revokedAtMs = Number.NEGATIVE_INFINITY

  let strangers = 0

  /** Tokens that may come again, and the public key that their signature fits. */
  const fitting = new Map<string, string>()

  const isFresh = (askedAtMs: number, nowMs: number): boolean =>
    nowMs - askedAtMs < KEY_FRESH_MS && askedAtMs >= heardSinceMs

  async function keyOf(id: string): Promise<KnownKey | Rejection | undefined> {
    const nowMs = clock.nowMs()
    const kept = known.get(id)
    if (kept !== undefined && isFresh(kept.askedAtMs, nowMs)) return kept
    const missedAtMs = unknown.get(id)
    if (missedAtMs !== undefined && isFresh(missedAtMs, nowMs)) return undefined
    const asked = asking.get(id)
    if (asked !== undefined && isFresh(asked.askedAtMs, nowMs)) return asked.answer
    if (kept === undefined && strangers >= LOOKUPS_MAX) return reject('OVERLOADED')
    if (kept === undefined) strangers++
    const found = ask(id, nowMs)
    const mayWait = kept !== undefined && nowMs - kept.askedAtMs <= KEY_GRACE_MS
    const mine = { askedAtMs: nowMs, answer: mayWait ? withGrace(id, found) : found }
    asking.set(id, mine)
    const done = (): void => {
      if (kept === undefined) strangers--
      if (asking.get(id) === mine) asking.delete(id)
    }
    found.then(done, done)
    return mine.answer
  }

  async function ask(id: string, askedAtMs: number): Promise<KnownKey | undefined> {
    const key = await findKey(id)
    const kept = known.get(id)
    const found =
      key === undefined
        ? undefined
        : { key, publicKey: kept?.publicKey ?? publicKeyOf(key.publicKey), askedAtMs }
    // What was read before a revocation was heard may be older than it.
    if (askedAtMs <= revokedAtMs || (kept !== undefined && kept.askedAtMs > askedAtMs)) return found
    known.delete(id)
    unknown.delete(id)
    if (found !== undefined) remember(known, id, found)
    else remember(unknown, id, askedAtMs)
    return found
  }

  function remember<Value>(
    map: Map<string, Value>,
    id: string,
    value: Value,
    most = KEYS_CACHED_MAX,
  ): void {
    map.set(id, value)
    for (const oldest of map.keys()) {
      if (map.size <= most) break
      map.delete(oldest)
    }
  }

  /** The answer, or the key as it is known when the answer does not come. */
  async function withGrace(
    id: string,
    answer: Promise<KnownKey | undefined>,
  ): Promise<KnownKey | undefined> {
    const inForce = (): KnownKey | undefined => {
      const kept = known.get(id)
      return kept !== undefined && kept.askedAtMs >= heardSinceMs ? kept : undefined
    }
    let stopWaiting = (): void => undefined
    const patience = new Promise<'late'>((resolve) => {
      stopWaiting = clock.after(KEY_PATIENCE_MS, () => resolve('late'))
    })
    try {
      const first = await Promise.race([answer, patience])
      return first === 'late' ? (inForce() ?? (await answer)) : first
    } catch (error) {
      const kept = error instanceof Fault && error.retryable ? inForce() : undefined
      if (kept === undefined) throw error
      return kept
    } finally {
      stopWaiting()
    }
  }

  /** The key, if it is in force. */
  async function keyInForce(id: string): Promise<KnownKey | Rejection> {
    const nowSec = Math.floor(clock.nowMs() / 1_000)
    const found = API_KEY_ID.test(id) ? await keyOf(id) : undefined
    if (found === undefined) return reject('UNAUTHORIZED_KEY_NOT_FOUND')
    if (isRejection(found)) return found
    const { revokedAtMs: endedAtMs, expiresAtSec } = found.key
    if (endedAtMs !== null) return reject('UNAUTHORIZED_KEY_INACTIVE')
    const isExpired = expiresAtSec !== null && expiresAtSec <= nowSec
    return isExpired ? reject('UNAUTHORIZED_KEY_EXPIRED') : found
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
        // The signature is over the bytes that the first segment encodes, as they are; over the
        // segment's own characters too, since the description can be read that way.
        const fits =
          (await verified(publicKey, payloadBytes, signature)) ||
          (await verified(publicKey, Buffer.from(segment, 'latin1'), signature))
        if (!fits) return reject('UNAUTHORIZED_INVALID_SIGNATURE')
        if (!options.singleUse) remember(fitting, token, key.publicKey, tokensMax)
      }
      if (options.singleUse) {
        const { ts: issuedSec } = payload
        const nonce = payload.n.toLowerCase()
        const use = nonces.use(key.id, nonce, issuedSec + TOKEN_LIFE_SEC, nowSec)
        if (use === 'used') return reject('UNAUTHORIZED_TOKEN_USED')
        if (use === 'full') return reject('OVERLOADED')
        if (options.claim !== undefined) {
          const refused = await options.claim({ keyId: key.id, nonce, issuedSec })
          // The client may retry with the same token.
          if (refused?.rejected === 'OVERLOADED') nonces.release(key.id, nonce)
          if (refused !== undefined) return refused
        }
      }
      return principalOf(key)
    },

    async confirm(keyId) {
      const found = await keyInForce(keyId)
      return isRejection(found) ? found : principalOf(found.key)
    },

    registered(key) {
      unknown.delete(key.id)
      remember(known, key.id, {
        key,
        publicKey: publicKeyOf(key.publicKey),
        askedAtMs: clock.nowMs(),
      })
    },

    revoked(ids) {
      revokedAtMs = clock.nowMs()
      for (const id of ids) {
        known.delete(id)
        asking.delete(id)
      }
    },

    unheard() {
      heardSinceMs = clock.nowMs()
    },

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

/** A larger difference is not a wrong clock but a time in another unit. */
const CLOCK_OFF_SEC_MAX = 86_400

function tooFarAhead(aheadSec: number): Rejection {
  if (aheadSec > CLOCK_OFF_SEC_MAX) return reject('UNAUTHORIZED_INVALID_TOKEN')
  const most = `the token's ts must be at most ${TOKEN_AHEAD_SEC_MAX} s ahead of the exchange's clock`
  const detail = `${most}, and is ${aheadSec} s ahead: correct your clock`
  return reject('UNAUTHORIZED_INVALID_TOKEN', undefined, detail)
}

/** Strictly: no padding, no other alphabet, no bits beyond the last byte. */
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
  // A time before 1970 is an integer like any other, and expired.
  if (typeof ts !== 'number' || !Number.isInteger(ts)) return undefined
  if (typeof n !== 'string' || !/^[0-9a-fA-F]{32}$/.test(n)) return undefined
  return { kid, ts, n }
}

export function publicKeyOf(hex: string): KeyObject {
  const x = Buffer.from(hex, 'hex').toString('base64url')
  return createPublicKey({ format: 'jwk', key: { kty: 'OKP', crv: 'Ed25519', x } })
}

/** In the pool of libuv: 140 µs on the front's own thread would delay every other request. */
function verified(key: KeyObject, data: Buffer, signature: Buffer): Promise<boolean> {
  return new Promise((resolve) => {
    verify(null, data, key, signature, (error, fits) => resolve(error === null && fits))
  })
}
