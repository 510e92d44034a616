/** Makes tokens for tests: valid ones, or ones that are wrong in one chosen way. */

import {
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomUUID,
  sign,
} from 'node:crypto'
import type { ApiKey } from '#domain/api-key.ts'
import type { Address } from '#domain/ids.ts'

export type TestKey = { readonly key: ApiKey; readonly privateKey: KeyObject }

export function makeKey(fields: Partial<ApiKey> = {}): TestKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const x = publicKey.export({ format: 'jwk' }).x ?? ''
  return {
    privateKey,
    key: {
      id: randomUUID(),
      address: `0x${'a1'.repeat(20)}` as Address,
      name: '',
      publicKey: Buffer.from(x, 'base64url').toString('hex'),
      createdAtMs: 0,
      expiresAtSec: null,
      revokedAtMs: null,
      ...fields,
    },
  }
}

/** Returns the private key of a seed, given in the hex form that the registration of an API key returns. */
export function privateKeyOf(seedHex: string): KeyObject {
  const head = Buffer.from('302e020100300506032b657004220420', 'hex')
  const der = Buffer.concat([head, Buffer.from(seedHex, 'hex')])
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
}

let nonces = 0

export function freshNonce(): string {
  return (++nonces).toString(16).padStart(32, '0')
}

export function encode(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return Buffer.from(text, 'utf8').toString('base64url')
}

/** Signs the decoded first segment. */
export function tokenOf(payload: unknown, privateKey: KeyObject): string {
  const segment = encode(payload)
  const signature = sign(null, Buffer.from(segment, 'base64url'), privateKey)
  return `${segment}.${signature.toString('base64url')}`
}

export function mint(by: TestKey, nowMs: number, fields: Record<string, unknown> = {}): string {
  const ts = Math.floor(nowMs / 1_000)
  return tokenOf({ kid: by.key.id, ts, n: freshNonce(), ...fields }, by.privateKey)
}
