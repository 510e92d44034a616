/**
 * The session key of this browser. The account appoints the key with one wallet signature. After that, the key signs
 * orders without a prompt of the wallet. The key can only sign orders within its limits, and never leaves this browser.
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
   * `maxOrderSize` is the maximum size of an order, in millionths of a share. `maxOpenNotional` is the maximum total
   * value of open orders, in millionths of a dollar. For both, 0 means no limit.
   */
  readonly maxOrderSize: number
  readonly maxOpenNotional: number
}

type SessionLimits = {
  readonly hours: number
  /**
   * `maxOrderSize` is the limit in shares, and `maxOpenNotional` the limit in dollars, as the user typed them. Empty
   * text means no limit.
   */
  readonly maxOrderSize: string
  readonly maxOpenNotional: string
}

const POLL_MS = 500
const WAIT_MS = 60_000
const KEY_BYTES = 32

export const sessionKey = signal<SessionKey | undefined>(undefined)
/** The change of the session key that is in progress; undefined if there is none. */
export const changing = signal<'create' | 'revoke' | undefined>(undefined)

function placeOf(address: string): string {
  return `sibyl session ${chain.value?.chainId ?? 0} ${address.toLowerCase()}`
}

/**
 * Loads the session key whenever the account changes. Each account has its own key, which is used only if the exchange
 * lists it as active.
 */
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

/** Uses the key from now on if the exchange lists it as an active delegate. Returns whether the key is in use. */
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

/** Makes a key, and has the wallet sign once to appoint the key. */
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
 * Returns undefined if there is no session key, or if the order is too large for it.
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

/**
 * Waits until the exchange lists the key as active. The relayer answers shortly before the chain and the indexer show
 * the key.
 */
async function until(isDone: () => Promise<boolean>): Promise<void> {
  const untilMs = Date.now() + WAIT_MS
  while (!(await isDone())) {
    if (Date.now() > untilMs) throw new Error('the chain has not confirmed the session key yet')
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}
