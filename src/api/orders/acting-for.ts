/** Finds the trader for whom the owner of a token acts, and where. */

import type { Address } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { Principal } from '#http/route.ts'
import { address } from '#http/schemas.ts'
import type { Delegates } from '#live/delegates.ts'

export const actingTrader = () =>
  address({
    description:
      'The trader of the orders: by default the address of the token, else an account that appointed it as a delegate on the chain of the orders',
  })

export type Acting = {
  readonly trader: Address
  /** The chains on which a delegate acts for the trader; absent for the trader itself, who acts on all. */
  readonly chainIds?: readonly number[]
}

/** Returns the named trader if the token's owner is that account or its delegate; without a name the owner. */
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

/** Returns whether the token's owner acts for the trader on this chain. */
export function actsOnChain({ chainIds }: Acting, chainId: number | undefined): boolean {
  return chainIds === undefined || (chainId !== undefined && chainIds.includes(chainId))
}
