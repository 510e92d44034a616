/**
 * Bearer tokens: `base64url(payload).base64url(signature)`, signed with the private half of a
 * registered Ed25519 key. The checks run in the order of the published table, so that a client always
 * learns the first thing to fix. A nonce is recorded only after the signature fits: nobody can use up
 * a token that he could not have made.
 */

import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import type { ApiKey } from '#domain/api-key.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { NonceLedger } from './nonce-ledger.ts'
import type { Principal } from './route.ts'

/** How long a token is good for, from its `ts`. */
export const TOKEN_LIFE_SEC = 300
/** How far ahead of ours a client's clock may be. */
const AHEAD_SEC_MAX = 60
/** How long a key is taken from memory: a revocation is in force within this time. */
const KEY_FRESH_MS = 1_000
/** Keys kept in memory by one front. */
const KEYS_CACHED_MAX = 10_000
const PAYLOAD_CHARS_MAX = 1_024

export type TokenPayload = { readonly kid: string; readonly ts: number; readonly n: string }

export type Authenticator = {
  /** The owner of the token in the header, or why it is none. */
  identify(authorization: string): Promise<Principal | Rejection>
}

export type AuthenticatorOptions = {
  readonly findKey: (id: string) => Promise<ApiKey | undefined>
  readonly nonces: NonceLedger
  readonly singleUse: boolean
  readonly nowMs: () => number
  /** Tokens from before are expired: nobody knows any more which of them were used. */
  readonly startedAtMs: number
}

type CachedKey = { readonly key: ApiKey; readonly publicKey: KeyObject; readonly askedAtMs: number }

export function makeAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { findKey, nonces, nowMs } = options
  const firstSec = Math.ceil(options.startedAtMs / 1_000)
  const cache = new Map<string, CachedKey>()

  async function keyOf(id: string): Promise<CachedKey | undefined> {
    const askedAtMs = nowMs()
    const known = cache.get(id)
    if (known !== undefined && askedAtMs - known.askedAtMs < KEY_FRESH_MS) return known
    const key = await findKey(id)
    cache.delete(id)
    if (key === undefined) return undefined
    const found = { key, publicKey: known?.publicKey ?? publicKeyOf(key.publicKey), askedAtMs }
    cache.set(id, found)
    for (const oldest of cache.keys()) {
      if (cache.size <= KEYS_CACHED_MAX) break
      cache.delete(oldest)
    }
    return found
  }

  return {
    async identify(authorization) {
      const token = readHeader(authorization)
      if (typeof token !== 'string') return token
      const parts = readToken(token)
      if (parts === undefined) return reject('UNAUTHORIZED_INVALID_TOKEN')
      const { payload, payloadBytes, segment, signature } = parts
      const nowSec = Math.floor(nowMs() / 1_000)
      if (payload.ts > nowSec + AHEAD_SEC_MAX) return reject('UNAUTHORIZED_INVALID_TOKEN')
      if (payload.ts <= nowSec - TOKEN_LIFE_SEC) return reject('UNAUTHORIZED_TOKEN_EXPIRED')
      if (options.singleUse && payload.ts < firstSec) return reject('UNAUTHORIZED_TOKEN_EXPIRED')
      const found = await keyOf(payload.kid)
      if (found === undefined) return reject('UNAUTHORIZED_KEY_NOT_FOUND')
      const { key, publicKey } = found
      if (key.revokedAtMs !== null) return reject('UNAUTHORIZED_KEY_INACTIVE')
      if (key.expiresAtSec !== null && key.expiresAtSec <= nowSec) {
        return reject('UNAUTHORIZED_KEY_EXPIRED')
      }
      // The signature is over the bytes that the first segment encodes, as they are; over the
      // segment's own characters too, since the description can be read that way.
      const fits =
        (await verified(publicKey, payloadBytes, signature)) ||
        (await verified(publicKey, Buffer.from(segment, 'latin1'), signature))
      if (!fits) return reject('UNAUTHORIZED_INVALID_SIGNATURE')
      if (options.singleUse) {
        const untilSec = payload.ts + TOKEN_LIFE_SEC
        const use = nonces.use(key.id, payload.n.toLowerCase(), untilSec, nowSec)
        if (use === 'used') return reject('UNAUTHORIZED_TOKEN_USED')
        if (use === 'full') return reject('OVERLOADED')
      }
      return { keyId: key.id, address: key.address }
    },
  }
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
  const segments = token.split('.')
  const [segment = '', signed = ''] = segments
  if (segments.length !== 2 || segment.length > PAYLOAD_CHARS_MAX) return undefined
  const payloadBytes = fromBase64Url(segment)
  const signature = fromBase64Url(signed)
  if (payloadBytes === undefined || signature?.length !== 64) return undefined
  const payload = readPayload(payloadBytes)
  return payload === undefined ? undefined : { payload, payloadBytes, segment, signature }
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
  if (typeof kid !== 'string' || kid === '' || kid.length > 64) return undefined
  if (typeof ts !== 'number' || !Number.isSafeInteger(ts) || ts < 0) return undefined
  if (typeof n !== 'string' || !/^[0-9a-fA-F]{32}$/.test(n)) return undefined
  return { kid, ts, n }
}

export function publicKeyOf(hex: string): KeyObject {
  const x = Buffer.from(hex, 'hex').toString('base64url')
  return createPublicKey({ format: 'jwk', key: { kty: 'OKP', crv: 'Ed25519', x } })
}

/** In the pool of libuv: 140 µs on the front's own thread would be felt by everybody else. */
function verified(key: KeyObject, data: Buffer, signature: Buffer): Promise<boolean> {
  return new Promise((resolve) => {
    verify(null, data, key, signature, (error, fits) => resolve(error === null && fits))
  })
}
