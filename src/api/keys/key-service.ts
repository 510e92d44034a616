/**
 * Registers and revokes API keys for the HTTP routes. Only the response to the owner contains the private half of a new
 * key.
 */

import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { API_KEY_ID, type ApiKey, registerMessage, revokeMessage } from '#domain/api-key.ts'
import { type Address, parseAddress } from '#domain/ids.ts'
import { API_KEYS_PER_ADDRESS_MAX } from '#domain/limits.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Asker } from '#http/limits.ts'
import type { ApiKeysRequests } from '#protocol/projector.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Ref } from '#runtime/ref.ts'

type NewKey = { readonly id: string; readonly privateKey: string }

export type KeyService = {
  register(request: {
    readonly address: string
    readonly signature: string
    readonly name: string
    readonly expiresAtSec: number | null
    readonly deadlineAtMs: number
    readonly asker: Asker
  }): Promise<NewKey | Rejection>
  /** Revokes a key. The request is authorised by a signature of the wallet that owns the key. */
  revokeBySignature(request: {
    readonly id: string
    readonly address: string
    readonly signature: string
    readonly deadlineAtMs: number
    readonly asker: Asker
  }): Promise<{ readonly id: string } | Rejection>
  /** Revokes a key. The caller has checked that the bearer token was made with the same key. */
  revoke(id: string, deadlineAtMs: number): Promise<{ readonly id: string } | Rejection>
}

export function makeKeyService(ports: {
  readonly service: string
  readonly store: Ref<ApiKeysRequests>
  readonly findKey: (id: string) => Promise<ApiKey | undefined>
  /** Returns the signer of a wallet-signed text; undefined if the signature is invalid. */
  readonly recoverSigner: (message: string, signature: string) => Promise<Address | undefined>
  /**
   * Returns whether a contract account accepts a signature of a text (EIP-1271) on every chain where the account has
   * code.
   */
  readonly contractSigned?: (
    signed: { readonly message: string; readonly address: Address; readonly signature: string },
    asker: Asker,
  ) => Promise<boolean | Rejection>
  readonly nowMs: () => number
}): KeyService {
  const { service, store, findKey, recoverSigner, nowMs } = ports

  /**
   * Returns undefined if the private key of the address has signed the text, or if its contract accepts the
   * signature. Otherwise returns a rejection.
   */
  async function signatureFlaw(
    message: string,
    address: Address,
    signature: string,
    asker: Asker,
  ): Promise<Rejection | undefined> {
    if ((await recoverSigner(message, signature)) === address) return undefined
    const accepted = await ports.contractSigned?.({ message, address, signature }, asker)
    if (accepted === true) return undefined
    return accepted || reject('UNAUTHORIZED_INVALID_SIGNATURE', 'signature')
  }

  async function revoke(
    id: string,
    deadlineAtMs: number,
  ): Promise<{ readonly id: string } | Rejection> {
    const atMs = nowMs()
    const message = { id, atMs, untilMs: deadlineAtMs }
    const answer = await store.ask('RevokeApiKey', message, Math.max(1, deadlineAtMs - atMs))
    if (isUnanswered(answer)) return reject('OVERLOADED')
    if (isRejection(answer)) return answer
    return answer.revoked.includes(id) ? { id } : noSuchKey()
  }

  return {
    async register({ address, signature, name, expiresAtSec, deadlineAtMs, asker }) {
      const owner = parseAddress(address)
      if (owner === undefined) return reject('INVALID_FIELD', 'address')
      const text = registerMessage(service, address)
      const flaw = await signatureFlaw(text, owner, signature, asker)
      if (flaw !== undefined) return flaw
      const { publicKey, privateKey } = generateKeyPairSync('ed25519')
      const key: ApiKey = {
        id: randomUUID(),
        address: owner,
        name,
        publicKey: hexOf(publicKey.export({ format: 'jwk' }).x),
        createdAtMs: nowMs(),
        expiresAtSec,
        revokedAtMs: null,
      }
      const message = { key, activeMax: API_KEYS_PER_ADDRESS_MAX, untilMs: deadlineAtMs }
      const leftMs = Math.max(1, deadlineAtMs - nowMs())
      const answer = await store.ask('RegisterApiKey', message, leftMs)
      // If the store does not answer, it may have stored the key, but the client never receives this key. If the client
      // retries, it gets another key.
      if (isUnanswered(answer)) return reject('OVERLOADED')
      if (isRejection(answer)) return answer
      return { id: key.id, privateKey: hexOf(privateKey.export({ format: 'jwk' }).d) }
    },

    async revokeBySignature({ id, address, signature, deadlineAtMs, asker }) {
      const key = API_KEY_ID.test(id) ? await findKey(id) : undefined
      if (key === undefined) return noSuchKey()
      const message = revokeMessage(service, id, address)
      if (key.address !== parseAddress(address)) {
        return reject('UNAUTHORIZED_INVALID_SIGNATURE', 'signature')
      }
      const flaw = await signatureFlaw(message, key.address, signature, asker)
      return flaw ?? revoke(id, deadlineAtMs)
    },

    revoke,
  }
}

function noSuchKey(): Rejection {
  return reject('NOT_FOUND', 'id', 'this exchange has no API key with this id')
}

function hexOf(base64url: string | undefined): string {
  return Buffer.from(base64url ?? '', 'base64url').toString('hex')
}
