/** Finds the trader on whose behalf the owner of a bearer token acts, and the chains on which the owner may do so. */

import type { Address } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Principal } from '#http/route.ts'
import { address } from '#http/schemas.ts'
import type { Delegates } from '#live/delegates.ts'

export const actingTrader = () =>
  address({
    description:
      'Trader whose orders the request concerns; by default the address of the bearer token. ' +
      'Another account is allowed only if that account appointed the token’s address as a ' +
      'delegate on the chain of the orders',
  })

export type Acting = {
  readonly trader: Address
  /** Chains on which a delegate acts for the trader; absent if the trader acts for themselves, on all chains. */
  readonly chainIds?: readonly number[]
}

/**
 * Returns the trader for whom the owner of the bearer token acts, by default the owner. If `trader` is another account,
 * and this account has not appointed the owner as a delegate, returns a rejection.
 */
export async function actingFor(
  principal: Pick<Principal, 'address'>,
  trader: Address | undefined,
  actsOn: Delegates['actsOn'] | undefined,
): Promise<Acting | Rejection> {
  if (trader === undefined || trader === principal.address) return { trader: principal.address }
  const chainIds = (await actsOn?.(trader, principal.address)) ?? []
  if (isRejection(chainIds)) return chainIds
  return chainIds.length === 0 ? reject('NOT_ORDER_OWNER', 'trader') : { trader, chainIds }
}

/** Returns whether the owner of the bearer token may act for the trader on this chain. */
export function actsOnChain({ chainIds }: Acting, chainId: number | undefined): boolean {
  return chainIds === undefined || (chainId !== undefined && chainIds.includes(chainId))
}
