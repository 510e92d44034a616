/**
 * Permissions that an account gives before its first trade: the exchange may take stablecoin for purchases, and may
 * move shares that are sold. The account signs each permission once. The relayer sends it to the chain and pays the
 * gas.
 */

import { signal } from '@preact/signals'
import { account, trading } from './account.ts'
import { chain } from './exchange.ts'
import { funds, refreshFunds } from './funds.ts'
import { showToast } from './toasts.ts'

const POLL_MS = 400
const WAIT_MS = 60_000

/** The permission that is being requested, if any. */
export const asking = signal<'stablecoin' | 'shares' | undefined>(undefined)

/**
 * Ensures that the exchange may take `amount` of stablecoin. If the allowance is too small, requests one for the whole
 * balance, so that later purchases need no signature.
 */
export async function ensureStablecoin(amount: bigint): Promise<void> {
  await ensure('stablecoin', {
    isAllowed: () => (funds.value?.allowance ?? 0n) >= amount,
    allow: async () => {
      const balance = funds.value?.stablecoin ?? 0n
      const { relayer } = await trading()
      await relayer.stablecoinPermit({ value: balance > amount ? balance : amount })
    },
  })
}

/** Ensures that the exchange may move the account's shares. Called before a sale. */
export async function ensureShares(): Promise<void> {
  await ensure('shares', {
    isAllowed: () => funds.value?.sharesApproved === true,
    allow: async () => {
      const { relayer } = await trading()
      await relayer.ctfApproval()
    },
  })
}

async function ensure(
  what: 'stablecoin' | 'shares',
  { isAllowed, allow }: { readonly isAllowed: () => boolean; readonly allow: () => Promise<void> },
): Promise<void> {
  if (account.value === undefined) throw new Error('connect an account first')
  if (isAllowed()) return
  await refreshFunds()
  if (isAllowed()) return
  const symbol = chain.value?.stablecoin.symbol ?? 'stablecoin'
  const thing =
    what === 'stablecoin' ? `take ${symbol} for your purchases` : 'move the shares that you sell'
  showToast('news', `Sign once to allow the exchange to ${thing}. It costs no gas.`)
  asking.value = what
  try {
    await allow()
    await untilTrue(isAllowed)
  } finally {
    asking.value = undefined
  }
}

/** Waits until the permission is visible on the chain. The relayer answers shortly before that. */
async function untilTrue(isAllowed: () => boolean): Promise<void> {
  const untilMs = Date.now() + WAIT_MS
  for (;;) {
    await refreshFunds()
    if (isAllowed()) return
    if (Date.now() > untilMs) throw new Error('the chain has not confirmed the permission yet')
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}
