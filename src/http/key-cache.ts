/**
 * Caches API keys in a front. The store publishes registrations and revocations at once. So requests with a known key
 * need no query, and work while the database is slow or unavailable. Ids for which no key exists are cached too. At
 * most `LOOKUPS_MAX` unknown ids are looked up at the same time. So requests with invented ids do not slow down other
 * clients.
 */

import { createPublicKey, type KeyObject } from 'node:crypto'
import { API_KEY_ID, type ApiKey } from '#domain/api-key.ts'
import { Fault } from '#domain/fault.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import { remember } from '#domain/remember.ts'
import type { Clock } from '#runtime/clock.ts'

/**
 * Time in milliseconds for which a key is used after it was read. After this time, the key is read again. If a change
 * in the store may have been missed, the key is read again earlier.
 */
const KEY_FRESH_MS = 60_000
/** Maximum time that a request waits for the database to confirm a known key. After this time the known key is used. */
const KEY_PATIENCE_MS = 500
/**
 * While the database is unavailable, a known key stays valid for this time in milliseconds after its last
 * read.
 */
const KEY_GRACE_MS = 600_000
/** Maximum number of keys, and maximum number of ids without a key, that one front caches. */
const KEYS_CACHED_MAX = 10_000
/** Maximum number of concurrent look-ups of unknown ids; requests with further ids are rejected with OVERLOADED. */
const LOOKUPS_MAX = 64

type KnownKey = { readonly key: ApiKey; readonly publicKey: KeyObject; readonly askedAtMs: number }
type Asking = { readonly askedAtMs: number; readonly answer: Promise<KnownKey | undefined> }

export function makeKeyCache(options: {
  /** Finds a key by its id. Throws a retryable `Fault` while the store is unavailable. */
  readonly findKey: (id: string) => Promise<ApiKey | undefined>
  readonly clock: Clock
}) {
  const { findKey, clock } = options
  const known = new Map<string, KnownKey>()
  /** Ids for which no key exists, each with the start time of its look-up. */
  const unknown = new Map<string, number>()
  /** Look-ups in progress: at most one per known key, plus `LOOKUPS_MAX` unknown ids. */
  const asking = new Map<string, Asking>()
  let followedSinceMs = Number.NEGATIVE_INFINITY
  let revokedAtMs = Number.NEGATIVE_INFINITY

  let strangers = 0

  const isFresh = (askedAtMs: number, nowMs: number): boolean =>
    nowMs - askedAtMs < KEY_FRESH_MS && askedAtMs >= followedSinceMs

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
    const mine = {
      askedAtMs: nowMs,
      answer: mayWait ? withGrace(found, () => inForce(id), clock) : found,
    }
    asking.set(id, mine)
    const done = (): void => {
      if (kept === undefined) strangers--
      if (asking.get(id) === mine) asking.delete(id)
    }
    found.then(done, done)
    return mine.answer
  }

  /**
   * Returns the known key if no change of the store can have been missed since the key was read. Otherwise returns
   * undefined.
   */
  function inForce(id: string): KnownKey | undefined {
    const kept = known.get(id)
    return kept !== undefined && kept.askedAtMs >= followedSinceMs ? kept : undefined
  }

  async function ask(id: string, askedAtMs: number): Promise<KnownKey | undefined> {
    const key = await findKey(id)
    const kept = known.get(id)
    const found =
      key === undefined
        ? undefined
        : { key, publicKey: kept?.publicKey ?? publicKeyOf(key.publicKey), askedAtMs }
    // Do not cache the result if a key was revoked after this read began, or if a newer read has already cached the
    // key: the result may be out of date.
    if (askedAtMs <= revokedAtMs || (kept !== undefined && kept.askedAtMs > askedAtMs)) return found
    known.delete(id)
    unknown.delete(id)
    if (found !== undefined) remember(known, id, found, KEYS_CACHED_MAX)
    else remember(unknown, id, askedAtMs, KEYS_CACHED_MAX)
    return found
  }

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
    /** Returns the key of this id, or a rejection if the key does not exist, is revoked or has expired. */
    keyInForce,
    registered(key: ApiKey): void {
      unknown.delete(key.id)
      const publicKey = publicKeyOf(key.publicKey)
      remember(known, key.id, { key, publicKey, askedAtMs: clock.nowMs() }, KEYS_CACHED_MAX)
    },

    revoked(ids: readonly string[]): void {
      revokedAtMs = clock.nowMs()
      for (const id of ids) {
        known.delete(id)
        asking.delete(id)
      }
    },

    mayHaveMissed(): void {
      followedSinceMs = clock.nowMs()
    },
  }
}

/** Resolves with the answer of the database, or with the known key if the database is late or fails. */
async function withGrace(
  answer: Promise<KnownKey | undefined>,
  inForce: () => KnownKey | undefined,
  clock: Clock,
): Promise<KnownKey | undefined> {
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

export function publicKeyOf(hex: string): KeyObject {
  const x = Buffer.from(hex, 'hex').toString('base64url')
  return createPublicKey({ format: 'jwk', key: { kty: 'OKP', crv: 'Ed25519', x } })
}
