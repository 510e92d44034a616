/** What the account has on the chain, what it lets the exchange move, and what of it is not spoken for. */

import { computed, effect, signal, untracked } from '@preact/signals'
import type { Funds } from '#protocol/shapes/users.ts'
import { type ChainFunds, readFunds } from '../wallet/token-reads.ts'
import { account, node } from './account.ts'
import { chain, config, onReconnect, stream } from './exchange.ts'

const REFRESH_MS = 15_000

type Read = { readonly address: string; readonly funds: ChainFunds }

const read = signal<Read | undefined>(undefined)

/** Undefined until it is read, and where it cannot be. */
export const funds = computed(() =>
  read.value?.address === account.value?.address ? read.value?.funds : undefined,
)

/** What the exchange reserves of each token; undefined where it reserves nothing. */
const reserved = signal<Funds | undefined>(undefined)

/** Stablecoin that a further order may need; undefined where the exchange does not reserve. */
export const freeStablecoin = computed(() => {
  const token = reserved.value?.tokens.find((one) => one.token === 'stablecoin')
  return token === undefined ? undefined : BigInt(token.free)
})

/** After something that moved money; it is read again by itself once in a while. */
export async function refreshFunds(): Promise<void> {
  const chosen = account.value
  const where = chain.value
  if (chosen === undefined || where === undefined) return
  try {
    const found = await readFunds(node.value ?? chosen.provider, where, chosen.address)
    read.value = { address: chosen.address, funds: found }
  } catch {
    // A number that may be wrong is not shown; the wallet says what it lacks when it is asked to sign.
    read.value = undefined
  }
}

export function followFunds(): void {
  effect(() => {
    if (account.value !== undefined && chain.value !== undefined) void refreshFunds()
  })
  effect(() => {
    reserved.value = undefined
    const trader = account.value?.address
    const chainId = chain.value?.chainId
    const reserves = config.value?.risk.funds === 'reserve'
    if (trader === undefined || chainId === undefined || !reserves) return
    const following = untracked(() =>
      stream().funds({ trader, chainId }, (message) => {
        reserved.value = message
      }),
    )
    // An account that the exchange has not met has nothing reserved.
    following.ready.catch(() => undefined)
    return () => following.close()
  })
  onReconnect(() => void refreshFunds())
  setInterval(() => {
    if (!document.hidden) void refreshFunds()
  }, REFRESH_MS)
}
