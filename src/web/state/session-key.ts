/**
 * The session key of this browser: a key that the account appointed by one wallet signature. Afterwards orders need no
 * prompt of the wallet. The key can sign orders within its limits, and nothing else; it stays in this browser.
 */

import { effect, signal } from '@preact/signals'
import { type Client, createClient } from '#client/client.ts'
import { delegateSigner } from '#client/delegate-signer.ts'
import { signerAddress } from '#client/sign-order.ts'
import type { Hex } from '#domain/typed-data.ts'
import { account, trading } from './account.ts'
import { nowSec } from './clock.ts'
import { chain, exchangeUrl, reader } from './exchange.ts'

type SessionKey = {
  readonly key: Hex
  /** Address of the key. */
  readonly delegate: string
  /** Unix seconds. */
  readonly until: number
  /**
   * Largest order in millionths of a share; 0 for no limit. The next field is the largest sum of open orders in
   * millionths of a dollar.
   */
  readonly maxOrderSize: number
  readonly maxOpenNotional: number
}

type SessionLimits = {
  readonly hours: number
  /** Limits as the user typed them: shares here, dollars in the next field. */
  readonly maxOrderSize: string
  readonly maxOpenNotional: string
}

const POLL_MS = 500
const WAIT_MS = 60_000
const KEY_BYTES = 32

export const sessionKey = signal<SessionKey | undefined>(undefined)
/** The step in progress, if any. */
export const changing = signal<'create' | 'revoke' | undefined>(undefined)

function placeOf(address: string): string {
  return `sibyl session ${chain.value?.chainId ?? 0} ${address.toLowerCase()}`
}

/** Follows the account. Each account has its own session key, which is used while the exchange lists it as active. */
export function watchSessionKey(): void {
  effect(() => {
    const address = account.value?.address
    sessionKey.value = undefined
    if (address === undefined || chain.value === undefined) return
    const kept = readKept(localStorage.getItem(placeOf(address)))
    if (kept !== undefined) void useIfActive(address, kept)
  })
}

function readKept(
  text: string | null,
): { readonly key: Hex; readonly delegate: string } | undefined {
  try {
    const kept = JSON.parse(text ?? 'null') as { key?: unknown; delegate?: unknown } | null
    if (typeof kept?.key !== 'string' || typeof kept.delegate !== 'string') return undefined
    return { key: kept.key as Hex, delegate: kept.delegate }
  } catch {
    return undefined
  }
}

/** Returns whether the exchange knows the key as an active delegate; if so, it is used from now on. */
async function useIfActive(
  address: string,
  { key, delegate }: { readonly key: Hex; readonly delegate: string },
): Promise<boolean> {
  const chainId = chain.value?.chainId
  if (chainId === undefined) return false
  const listed = await reader.delegates.list({ address, chainId })
  const found = listed.find((one) => one.delegate === delegate && one.active)
  if (found === undefined || account.value?.address !== address) return false
  const { until, maxOrderSize, maxOpenNotional } = found
  sessionKey.value = { key, delegate, until, maxOrderSize, maxOpenNotional }
  return true
}

/** Makes a key and asks the wallet for one signature that appoints it. */
export async function createSessionKey(limits: SessionLimits): Promise<void> {
  const address = account.value?.address
  if (address === undefined) throw new Error('connect an account first')
  changing.value = 'create'
  try {
    const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES))
    const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
    const key: Hex = `0x${digits}`
    const delegate = await signerAddress(key)
    const client = await trading()
    await client.delegates.create({
      ...{ delegate, until: nowSec.peek() + Math.round(limits.hours * 3_600) },
      ...(limits.maxOrderSize === '' ? {} : { maxOrderSize: limits.maxOrderSize }),
      ...(limits.maxOpenNotional === '' ? {} : { maxOpenNotional: limits.maxOpenNotional }),
    })
    localStorage.setItem(placeOf(address), JSON.stringify({ key, delegate }))
    await until(() => useIfActive(address, { key, delegate }))
  } finally {
    changing.value = undefined
  }
}

/** Revokes the key by one signature of the wallet. */
export async function revokeSessionKey(): Promise<void> {
  const address = account.value?.address
  const used = sessionKey.value
  if (address === undefined || used === undefined) return
  changing.value = 'revoke'
  try {
    const client = await trading()
    await client.delegates.revoke(used.delegate)
    localStorage.removeItem(placeOf(address))
    sessionKey.value = undefined
  } finally {
    changing.value = undefined
  }
}

/**
 * Returns a client that signs with the session key, and the time in Unix seconds by which its orders must expire.
 * Undefined if no session key may sign an order of this size now.
 */
export function sessionFor(
  size: bigint | number,
): { readonly client: Client; readonly until: number } | undefined {
  const used = sessionKey.peek()
  const address = account.peek()?.address
  const chainId = chain.peek()?.chainId
  if (used === undefined || address === undefined || chainId === undefined) return undefined
  if (used.maxOrderSize > 0 && size > used.maxOrderSize) return undefined
  const signer = delegateSigner(address, used.key)
  const client = createClient({ url: exchangeUrl, chainId, signer })
  return { client, until: used.until }
}

/** Waits until the key is appointed or revoked: the relayer answers some moments before the chain and the indexer. */
async function until(isDone: () => Promise<boolean>): Promise<void> {
  const untilMs = Date.now() + WAIT_MS
  while (!(await isDone())) {
    if (Date.now() > untilMs) throw new Error('the chain has not confirmed the session key yet')
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}
