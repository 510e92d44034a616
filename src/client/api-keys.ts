/**
 * API keys of a wallet: registers them with the wallet's signature, stores them where the caller chooses, and revokes
 * them. The exchange sends the private key of a new API key only once, in the answer to the registration.
 */

import { registerMessage, revokeMessage } from '#domain/api-key.ts'
import { trimEnd } from '#domain/trim-end.ts'
import type { Hex } from '#domain/typed-data.ts'
import type { Config } from './answers.ts'
import { SibylError } from './sibyl-error.ts'
import { type ApiKeyPair, withApiKey } from './tokens.ts'
import { createTransport, type Transport } from './transport.ts'

export type StoredApiKey = ApiKeyPair & {
  /** Address of the wallet to which the key belongs. */
  readonly address: string
  /** Unix seconds; if omitted, the key never expires. */
  readonly expiresAt?: number
}

type SignMessage = (parameters: { readonly message: string }) => Promise<string>

/** A private key, a viem account or wallet client, or any object that signs texts like a wallet. */
export type MessageSigner =
  | Hex
  | { readonly address: string; readonly signMessage: SignMessage }
  | { readonly account: { readonly address: string }; readonly signMessage: SignMessage }

export type ApiKeyOptions = {
  /** Address of the exchange: `http://127.0.0.1:8080`. */
  readonly url: string
  readonly timeoutMs?: number
  readonly fetch?: typeof fetch
}

export type NewApiKey = {
  /** Name of the key, for the owner's own use. */
  readonly name?: string
  /** Unix seconds. */
  readonly expiresAt?: number
}

/** Storage of keys between two runs, such as a browser's `localStorage`. */
export type KeyStorage = {
  getItem(name: string): string | null | Promise<string | null>
  setItem(name: string, value: string): unknown
  removeItem(name: string): unknown
}

const TIMEOUT_MS = 15_000
const RETRIES = 5
const BACKOFF_MS = 100
/** A stored key that expires within this time, in seconds, is replaced by a new key. */
const EXPIRING_SEC = 60

/**
 * Pattern of the exchange's name: one short line. The wallet signs a text with this name, and a longer name could
 * change the meaning of that text.
 */
const SERVICE_NAME = /^[^\p{Cc}\p{Zl}\p{Zp}]{1,40}$/u

/** Registers a new key for the signer's wallet. */
export async function registerApiKey(
  options: ApiKeyOptions,
  signer: MessageSigner,
  { name, expiresAt }: NewApiKey = {},
): Promise<StoredApiKey> {
  const { address, sign } = await readSigner(signer)
  const signature = await sign(registerMessage(await serviceName(options), address))
  // The request is not retried: the answer contains the private key, and each retry would create another key.
  const send = transport(options, 0)
  const answer = await send<{ readonly api_key_id: string; readonly api_private_key: string }>({
    method: 'POST',
    path: '/api/v1/api-keys',
    body: {
      address,
      signature,
      ...(name === undefined ? {} : { name }),
      ...(expiresAt === undefined ? {} : { expiresAt }),
    },
  })
  return {
    id: answer.api_key_id,
    privateKey: answer.api_private_key,
    address,
    ...(expiresAt === undefined ? {} : { expiresAt }),
  }
}

/**
 * Returns the stored key of the signer's wallet at this exchange. If there is none, or it expires soon, registers and
 * stores a new key.
 */
export async function openApiKey(
  options: ApiKeyOptions,
  signer: MessageSigner,
  storage: KeyStorage,
  details: NewApiKey = {},
): Promise<StoredApiKey> {
  const place = placeOf(options, (await readSigner(signer)).address)
  const kept = readKept(await storage.getItem(place))
  if (
    kept !== undefined &&
    (kept.expiresAt ?? Number.POSITIVE_INFINITY) > nowSec() + EXPIRING_SEC
  ) {
    return kept
  }
  const key = await registerApiKey(options, signer, details)
  await storage.setItem(place, JSON.stringify(key))
  return key
}

/** Revokes an API key with a token that the key itself signs. */
export async function revokeApiKey(options: ApiKeyOptions, key: ApiKeyPair): Promise<void> {
  const { fetch: sendOne } = withApiKey(options, key)
  const send = transport(sendOne === undefined ? options : { ...options, fetch: sendOne }, RETRIES)
  await send({ method: 'DELETE', path: `/api/v1/api-keys/${encodeURIComponent(key.id)}` })
}

/** Revokes an API key with the wallet's signature, even if the private key of the API key is lost. */
export async function revokeApiKeyByWallet(
  options: ApiKeyOptions,
  id: string,
  signer: MessageSigner,
): Promise<void> {
  const { address, sign } = await readSigner(signer)
  const signature = await sign(revokeMessage(await serviceName(options), id, address))
  const path = `/api/v1/api-keys/${encodeURIComponent(id)}`
  await transport(options, RETRIES)({ method: 'DELETE', path, body: { address, signature } })
}

/** Deletes the stored key of a wallet without revoking it at the exchange; revoke the key first. */
export async function forgetApiKey(
  options: ApiKeyOptions,
  address: string,
  storage: KeyStorage,
): Promise<void> {
  await storage.removeItem(placeOf(options, address))
}

/**
 * Returns the exchange's name, which is part of the text that the wallet signs. Only the name comes from the exchange,
 * so a server cannot choose the whole text that users sign.
 */
async function serviceName(options: ApiKeyOptions): Promise<string> {
  const config = await transport(
    options,
    RETRIES,
  )<Config>({ method: 'GET', path: '/api/v1/config' })
  const { name } = config.service
  if (SERVICE_NAME.test(name)) return name
  throw new SibylError(
    'UNEXPECTED_ANSWER',
    'the name of the exchange must be one line of at most 40 characters; nothing was signed',
  )
}

function transport({ url, timeoutMs, ...options }: ApiKeyOptions, retries: number): Transport {
  return createTransport({
    url,
    headers: undefined,
    timeoutMs: timeoutMs ?? TIMEOUT_MS,
    retries,
    backoffMs: BACKOFF_MS,
    fetch: options.fetch ?? ((input, init) => fetch(input, init)),
  })
}

async function readSigner(signer: MessageSigner): Promise<{
  readonly address: string
  readonly sign: (message: string) => Promise<string>
}> {
  if (typeof signer !== 'string') {
    const address = 'account' in signer ? signer.account.address : signer.address
    return { address, sign: (message) => signer.signMessage({ message }) }
  }
  const { accountOf } = await import('./local-key.ts')
  const account = accountOf(signer)
  return { address: account.address, sign: (message) => account.signMessage({ message }) }
}

function placeOf({ url }: ApiKeyOptions, address: string): string {
  return `sibyl api key ${trimEnd(url, '/')} ${address.toLowerCase()}`
}

/** Parses a stored key; returns undefined if the stored text is not a key. */
function readKept(text: string | null): StoredApiKey | undefined {
  if (text === null) return undefined
  try {
    const { id, privateKey, address } = JSON.parse(text) as Partial<StoredApiKey>
    const whole = [id, privateKey, address].every((part) => typeof part === 'string')
    return whole ? (JSON.parse(text) as StoredApiKey) : undefined
  } catch {
    return undefined
  }
}

function nowSec(): number {
  return Math.floor(Date.now() / 1_000)
}
