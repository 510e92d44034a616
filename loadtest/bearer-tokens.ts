/**
 * Makes bearer tokens with Node's own crypto, because making them with the SDK would use too much of the sender's CPU
 * time.
 */

import { createPrivateKey, type KeyObject, randomBytes, sign } from 'node:crypto'

export type TokenKey = { readonly id: string; readonly privateKey: KeyObject }

export function tokenKeyOf(id: string, seedHex: string): TokenKey {
  const head = Buffer.from('302e020100300506032b657004220420', 'hex')
  const key = Buffer.concat([head, Buffer.from(seedHex, 'hex')])
  return { id, privateKey: createPrivateKey({ key, format: 'der', type: 'pkcs8' }) }
}

/** Returns a fresh token for one write: it is valid once. */
export function mintToken({ id, privateKey }: TokenKey): string {
  const ts = Math.floor(Date.now() / 1_000)
  const payload = Buffer.from(JSON.stringify({ kid: id, ts, n: randomBytes(16).toString('hex') }))
  return `${payload.toString('base64url')}.${sign(null, payload, privateKey).toString('base64url')}`
}
